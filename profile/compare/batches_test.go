package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hotpath/profile"
)

// batched are recordings made in turn whose batches have about so many tokens. What a run
// takes beside its tokens makes small batches slower per token.
func batched(rng *rand.Rand, side, n, tokens int) []*profile.Profile {
	out := make([]*profile.Profile, n)
	for i := range out {
		sizes := make([]int, 40*simTokens/tokens)
		for k := range sizes {
			sizes[k] = tokens + rng.IntN(tokens/4) - tokens/8
		}
		out[i] = machines[0].recordSizes(rng, sizes, asIs)
	}
	return madeInTurn(side, out)
}

// madeApart are recordings made long before all others.
func madeApart(p []*profile.Profile) []*profile.Profile {
	for i := range p {
		p[i].Created = p[i].Created.AddDate(-1, 0, 0)
	}
	return p
}

// A build that cuts the same tokens into smaller batches is told apart, and nothing is
// blamed on one op. A quarter of a run's time does not depend on its tokens, so batches of
// half the size take 25 per cent longer per token.
func TestSmallerBatchesAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 1))
	for range 5 {
		c := compare(t, batched(rng, 0, 6, simTokens), batched(rng, 1, 6, simTokens/2))
		if len(c.Batches) != 1 || math.Abs(c.Batches[0].Tokens[1]/c.Batches[0].Tokens[0]-0.5) > 0.05 {
			t.Fatalf("batches: %+v, expected half as many tokens per run", c.Batches)
		}
		if s := c.Summary(); !strings.HasPrefix(s, "B batches otherwise: runs of phase \"embed\" have") || c.Same() {
			t.Errorf("summary %q", s)
		}
		if d := c.Plans[0].Total; d.Verdict != Slower || !(*d.Mean.Low < 25 && 25 < *d.Mean.High) {
			t.Errorf("whole runs are %s, %s, expected 25 %% slower", d.Verdict, d.Mean.cell())
		}
		for _, d := range c.Plans[0].Kinds {
			if d.Before > 100e3 && d.Verdict != Slower {
				t.Errorf("%s is %s, %s, expected slower per work as all are", d.Name, d.Verdict, d.Mean.cell())
			}
		}
		if percent, _, _ := c.Real(); math.Abs(percent-25) > 5 {
			t.Errorf("B is slower by %.1f %% in all, expected 25", percent)
		}
	}
}

// Timing moves batches of single recordings, which is no difference of builds.
func TestBatchesByChanceAreNone(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 1))
	sizes := func(n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = 5 + 0.3*rng.NormFloat64()
		}
		return out
	}
	alarms := 0
	for range 20_000 {
		if resized(sizes(6), sizes(6)) {
			alarms++
		}
	}
	if alarms > 10 { // without leastResize about 20
		t.Errorf("%d of 20,000 pairs of series of one build differ", alarms)
	}
	a, b := batched(rng, 0, 4, simTokens), batched(rng, 1, 4, simTokens/2)
	for _, p := range b {
		p.Plans[0].Tokens /= 2
	}
	if d := compareBatches(a, b); len(d) > 0 {
		t.Errorf("half of the tokens in as many runs: %+v", d)
	}
	if d := compareBatches(madeApart(batched(rng, 0, 4, simTokens)), batched(rng, 1, 4, simTokens/2)); len(d) > 0 {
		t.Errorf("recordings of one side before those of the other: %+v", d)
	}
	if resized([]float64{5, 5}, []float64{6, 6}) {
		t.Error("two recordings of each tell nothing")
	}
	if !resized([]float64{5, 5, 5}, []float64{5.5, 5.5, 5.5}) {
		t.Error("equal sizes in all recordings, other ones in B, are not found")
	}
}

// A step that gets slower in all layers has a row, though its op has other steps that did
// not, and the sum of all rows counts it once.
func TestStepOfAllLayersIsFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(79, 1))
	slow := func(s *profile.Step) float64 {
		if strings.HasSuffix(s.Name, "/linear1") { // 300 of 3600 us of the products of a layer
			return 1.4
		}
		return 1
	}
	found, sized := 0, 0
	const trials = 12
	for range trials {
		m := &machines[0]
		c := compare(t, madeInTurn(0, m.records(rng, 8, 24, asIs)), madeInTurn(1, m.records(rng, 8, 24, slow)))
		p := &c.Plans[0]
		i := slices.IndexFunc(p.Places, func(d Diff) bool { return d.Name == "linear1"+inAllLayers })
		if i < 0 {
			t.Fatalf("no row of linear1 in %d rows", len(p.Places))
		}
		d := &p.Places[i]
		if d.Verdict == Slower {
			found++
		}
		if low, high := d.Median.bounds(); low <= 40 && 40 <= high {
			sized++
		}
		for k := range p.Places {
			if k != i && p.Places[k].Verdict == Slower {
				t.Errorf("%s is slower too: %s", p.Places[k].Name, p.Places[k].Mean.cell())
			}
		}
	}
	if found < trials-1 || sized < trials-2 {
		t.Errorf("found in %d and sized in %d of %d", found, sized, trials)
	}
}

// Short rows that got faster are no common change: the long one that stayed as it was is
// not called slower.
func TestShortRowsAreNotCommon(t *testing.T) {
	rng := rand.New(rand.NewPCG(83, 1))
	fast := func(s *profile.Step) float64 {
		if s.Op != "linear" {
			return 0.85
		}
		return 1
	}
	wrong, found := 0, 0
	const trials = 20
	for range trials {
		m := &machines[0]
		c := compare(t, madeInTurn(0, m.records(rng, 8, 24, asIs)), madeInTurn(1, m.records(rng, 8, 24, fast)))
		if c.Plans[0].kindOf("linear").Verdict == Slower {
			wrong++
		}
		if c.Plans[0].kindOf("norm").Verdict == Faster {
			found++
		}
	}
	if wrong > 0 || found < trials-2 {
		t.Errorf("linear is called slower in %d and norm faster in %d of %d comparisons", wrong, found, trials)
	}
}
