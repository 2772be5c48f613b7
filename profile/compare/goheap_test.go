package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/profile"
)

// allocating gives recordings so many bytes and objects on the Go heap, which vary little.
func allocating(rng *rand.Rand, side, n int, bytes, objects float64) []*profile.Profile {
	out := madeInTurn(side, machines[0].records(rng, n, 20, asIs))
	for _, p := range out {
		vary := func(mean float64) int64 { return int64(mean * math.Exp(0.001*rng.NormFloat64())) }
		p.Go = &profile.GoStats{HeapCount: profile.HeapCount{Bytes: vary(bytes), Objects: vary(objects)}}
	}
	return out
}

// A copy for each token changes the bytes, and hardly the objects: it is found, sized per
// token and named.
func TestAllocationsAreCompared(t *testing.T) {
	rng := rand.New(rand.NewPCG(95, 1))
	const trials = 20
	found, sized, objects := 0, 0, 0
	for range trials {
		a, b := allocating(rng, 0, 5, 267e6, 278e3), allocating(rng, 1, 5, 346e6, 278e3)
		c := compare(t, a, b)
		d := &c.GoHeap[0]
		if low, high := d.Change.bounds(); low <= 100*79./267 && 100*79./267 <= high {
			sized++
		}
		if c.GoHeap[1].Changed() {
			objects++
		}
		if d.Verdict != MoreAllocated {
			continue
		}
		found++
		each := fmt.Sprintf(", %+.1f kB per token.", (d.After-d.Before)/float64(b[0].Plans[0].Tokens)/1e3)
		if s := c.Summary(); !strings.Contains(s, " MB allocated on the Go heap became ") || !strings.Contains(s, " % more (") || !strings.Contains(s, each) || c.Same() {
			t.Errorf("the summary is %q, expected %q in it", s, each)
		}
		if rows := c.goHeapTable().Rows; rows[0][0] != "bytes" || !strings.HasSuffix(rows[0][1], " MB") || rows[0][5] != string(MoreAllocated) {
			t.Errorf("the table is %q", rows)
		}
		if _, what := c.Worst(); strings.Contains(what, "allocated") {
			t.Errorf("--fail-above counts allocations, which are no time: %s", what)
		}
	}
	if found < 19 || sized < 18 || objects > 1 {
		t.Errorf("found in %d and sized in %d of %d, objects called in %d", found, sized, trials, objects)
	}
	c := compare(t, allocating(rng, 0, 5, 267e6, 400e3), allocating(rng, 1, 5, 267e6, 300e3))
	if d := c.GoHeap[1]; d.Verdict != LessAllocated || !strings.Contains(c.Summary(), " objects allocated on the Go heap became ") {
		t.Errorf("fewer objects: %+v, %q", d, c.Summary())
	}
}

// Two recordings of one build allocate as much, within noise. One recording per side, other
// tokens, and recordings that do not count tell nothing.
func TestAllocationsThatTellNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(96, 1))
	alarms := 0
	for i := range 40 {
		n := 2 + i%4
		if c := compare(t, allocating(rng, 0, n, 125e6, 119e3), allocating(rng, 1, n, 125e6, 119e3)); c.GoHeap[0].Changed() || c.GoHeap[1].Changed() {
			alarms++
		}
	}
	if alarms > 1 {
		t.Errorf("%d false alarms in 40 comparisons", alarms)
	}
	untested := func(what string, a, b []*profile.Profile) {
		t.Helper()
		c := compare(t, a, b)
		for _, d := range c.GoHeap {
			if d.Verdict != Untested || d.Change.P != 1 {
				t.Errorf("%s: %+v", what, d)
			}
		}
	}
	a, b := allocating(rng, 0, 5, 267e6, 278e3), allocating(rng, 1, 5, 346e6, 400e3)
	untested("one recording per side", a[:1], b[:1])
	untested("little", allocating(rng, 0, 5, 1e4, 100), allocating(rng, 1, 5, 9e5, 900))
	for _, p := range b {
		p.Plans[0].Tokens += p.Plans[0].Tokens / 50
	}
	untested("2 per cent more tokens", a, b)
	b[3].Go = nil
	if c := compare(t, a, b); len(c.GoHeap) != 0 {
		t.Errorf("a recording without counts: %+v", c.GoHeap)
	}
}
