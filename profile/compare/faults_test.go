package compare

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/profile"
)

// faulting gives recordings so many page faults, which vary as they do on a machine.
func faulting(rng *rand.Rand, side, n int, memory, disk float64) []*profile.Profile {
	out := madeInTurn(side, machines[0].records(rng, n, 20, asIs))
	for _, p := range out {
		vary := func(mean float64) int64 { return int64(mean * math.Exp(0.03*rng.NormFloat64())) }
		p.Processor = &profile.ProcessorStats{MinorFaults: vary(memory), MajorFaults: vary(disk)}
	}
	return out
}

// Memory in small pages has many times the page faults and changes little else: they are
// found, sized and named.
func TestPageFaultsAreCompared(t *testing.T) {
	const trials, was, is = 20, 8000, 19000
	rng := rand.New(rand.NewPCG(91, 1))
	found, sized := 0, 0
	for range trials {
		c := compare(t, faulting(rng, 0, 5, was, 0), faulting(rng, 1, 5, is, 40))
		if len(c.Faults) != 1 {
			t.Fatalf("%d kinds of page faults, expected those from memory: A has none from a disk", len(c.Faults))
		}
		d := &c.Faults[0]
		if low, high := d.Change.bounds(); low <= 100*(is-was)/was && 100*(is-was)/was <= high {
			sized++
		}
		if d.Verdict != MoreFaults {
			continue
		}
		found++
		if s := c.Summary(); !strings.Contains(s, " page faults served from memory became ") || !strings.Contains(s, " % more (") || c.Same() {
			t.Errorf("the summary is %q", s)
		}
		if _, what := c.Worst(); strings.Contains(what, "fault") {
			t.Errorf("--fail-above counts page faults, which are no time: %s", what)
		}
		var text strings.Builder
		for _, row := range c.faultsTable().Rows {
			text.WriteString(strings.Join(row, " "))
		}
		if !strings.HasPrefix(text.String(), "memory ") || !strings.HasSuffix(text.String(), string(MoreFaults)) {
			t.Errorf("the table is %q", &text)
		}
	}
	if found < 18 || sized < 18 {
		t.Errorf("found in %d and sized in %d of %d", found, sized, trials)
	}
	c := compare(t, faulting(rng, 0, 5, is, 400), faulting(rng, 1, 5, was, 100))
	if len(c.Faults) != 2 || c.Faults[0].Verdict != FewerFaults || c.Faults[1].Verdict != FewerFaults || !strings.Contains(c.Summary(), "read from a disk became") {
		t.Errorf("fewer page faults: %+v, %q", c.Faults, c.Summary())
	}
}

// Two recordings of one build have as many, within noise. One recording per side, or
// recordings that do not count them, tell nothing.
func TestSamePageFaultsAreSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(92, 1))
	alarms := 0
	for range 50 {
		if c := compare(t, faulting(rng, 0, 5, 8000, 10), faulting(rng, 1, 5, 8000, 10)); c.Faults[0].Changed() || c.Faults[1].Changed() {
			alarms++
		}
	}
	if alarms > 1 {
		t.Errorf("%d false alarms in 50 comparisons", alarms)
	}
	a, b := faulting(rng, 0, 5, 8000, 10), faulting(rng, 1, 5, 40000, 10)
	if d := compare(t, a[:1], b[:1]).Faults[0]; d.Verdict != Untested || d.Change.P != 1 {
		t.Errorf("one recording per side: %+v", d)
	}
	b[3].Processor = nil
	if c := compare(t, a, b); len(c.Faults) != 0 {
		t.Errorf("a recording without counts: %+v", c.Faults)
	}
}
