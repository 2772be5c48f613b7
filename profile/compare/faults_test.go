package compare

import (
	"math"
	"math/rand/v2"
	"slices"
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
		d := &c.Faults[0]
		const grown = 100.0 * (is - was) / was
		if low, high := d.Change.bounds(); low <= grown && grown <= high && low <= d.Change.Percent && d.Change.Percent <= high {
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
		if rows := c.faultsTable().Rows; rows[0][0] != "memory" || rows[0][5] != string(MoreFaults) || rows[1][0] != "disk" || rows[1][3] != "" || rows[1][5] != string(Untested) {
			t.Errorf("the table is %q", rows)
		}
	}
	if found < 18 || sized < 18 {
		t.Errorf("found in %d and sized in %d of %d", found, sized, trials)
	}
	if c := compare(t, faulting(rng, 0, 5, 60, 0), faulting(rng, 1, 5, is, 0)); c.Faults[0].Verdict != MoreFaults {
		t.Errorf("from few: %+v", c.Faults)
	}
	c := compare(t, faulting(rng, 0, 5, is, 0), faulting(rng, 1, 5, was, 0))
	if len(c.Faults) != 1 || c.Faults[0].Verdict != FewerFaults || !strings.Contains(c.Summary(), " % less (") {
		t.Errorf("fewer page faults: %+v, %q", c.Faults, c.Summary())
	}
}

// A few pages more in one recording do not count as its mean, and the sentence adds up.
func TestSizeOfPageFaultsAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(93, 1))
	a, b := faulting(rng, 0, 5, 1000, 0), faulting(rng, 1, 5, 3000, 0)
	a[0].Processor.MinorFaults *= 40
	b[0].Processor.MinorFaults *= 40
	d := compare(t, a, b).Faults[0]
	if got := 100 * (d.After/d.Before - 1); d.Verdict != MoreFaults || math.Abs(got-d.Change.Percent) > 1 {
		t.Errorf("%.0f became %.0f, which is %.1f %% more; it says %.1f", d.Before, d.After, got, d.Change.Percent)
	}
}

// Two recordings of one build have as many, within noise, also if they are few, or as many
// by chance.
func TestSamePageFaultsAreSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(92, 1))
	alarms := 0
	for i := range 40 {
		n := 2 + i%4
		if c := compare(t, faulting(rng, 0, n, 8000, 10), faulting(rng, 1, n, 8000, 10)); c.Faults[0].Changed() {
			alarms++
		}
	}
	if alarms > 1 {
		t.Errorf("%d false alarms in 40 comparisons", alarms)
	}
	exactly := func(side int, n, minor int64) []*profile.Profile {
		out := faulting(rng, side, int(n), 0, 0)
		for _, p := range out {
			p.Processor.MinorFaults = minor
		}
		return out
	}
	for _, was := range []int64{2, 100} {
		if d := compare(t, exactly(0, 3, was), exactly(1, 3, was+was/8)).Faults[0]; d.Changed() {
			t.Errorf("%d page faults in each of A, %d in each of B: %s", was, was+was/8, d.Verdict)
		}
	}
}

// One recording per side, recordings that do not count them, and sides that computed other
// tokens tell nothing. Pages from a disk are never judged, but a warning names them.
func TestPageFaultsThatTellNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(94, 1))
	a, b := faulting(rng, 0, 5, 8000, 0), faulting(rng, 1, 5, 40000, 900)
	if d := compare(t, a[:1], b[:1]).Faults[0]; d.Verdict != Untested || d.Change.P != 1 {
		t.Errorf("one recording per side: %+v", d)
	}
	c := compare(t, a, b)
	if c.Faults[0].Verdict != Untested {
		t.Errorf("pages of one side come from a disk, and of the other from memory: %+v", c.Faults[0])
	}
	if d := c.Faults[1]; d.Kind != "disk" || d.Verdict != Untested || !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "read from a disk") }) {
		t.Errorf("pages from a disk: %+v, %q", d, c.Warnings)
	}
	if c := compare(t, b, a); !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "read from a disk") }) {
		t.Errorf("pages from a disk before: %q", c.Warnings)
	}
	for _, p := range b {
		p.Processor.MajorFaults = 0
	}
	if d := compare(t, a, b).Faults[0]; d.Verdict != MoreFaults {
		t.Errorf("none from a disk: %+v", d)
	}
	for _, p := range b {
		p.Plans[0].Tokens += p.Plans[0].Tokens / 4
	}
	if d := compare(t, a, b).Faults[0]; d.Verdict != Untested {
		t.Errorf("a quarter more tokens: %+v", d)
	}
	b[3].Processor = nil
	if c := compare(t, a, b); len(c.Faults) != 0 {
		t.Errorf("a recording without counts: %+v", c.Faults)
	}
}
