package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hotpath/profile"
)

// divided gives the steps of recordings lanes whose busiest one computes some per cent
// longer than the mean. It varies between recordings and steps. That of gelu is as given.
func divided(rng *rand.Rand, recs []*profile.Profile, gelu float64) []*profile.Profile {
	for _, p := range recs {
		s := &p.Plans[0]
		for i := range s.Stats {
			uneven := 0.03
			if s.Steps[i].Op == "gelu" {
				uneven = gelu
			}
			s.Stats[i].Even = s.Stats[i].LaneCompute[0] / 2
			s.Stats[i].Longest = int64(float64(s.Stats[i].Even) * (1 + uneven*math.Exp(0.3*rng.NormFloat64())))
		}
	}
	return recs
}

// A step whose lanes get uneven parts is named, with both of its numbers and what that
// is of a run; the same build has none, and one recording per side tells nothing.
func TestUnevenStepIsFound(t *testing.T) {
	const trials = 20
	m := &machines[1]
	rng := rand.New(rand.NewPCG(93, 1))
	sides := func(n int, gelu float64) (a, b []*profile.Profile) {
		return divided(rng, madeInTurn(0, m.records(rng, n, 24, asIs)), 0.05), divided(rng, madeInTurn(1, m.records(rng, n, 24, asIs)), gelu)
	}
	changed := func(c *Comparison) (names []string) {
		for i := range c.Uneven {
			if c.Uneven[i].Changed() {
				names = append(names, c.Uneven[i].Step)
			}
		}
		return names
	}
	found, sized, others := 0, 0, 0
	for range trials {
		a, b := sides(8, 0.60)
		c := compare(t, a, b)
		if names := changed(c); slices.Contains(names, "gelu7") {
			found++
			others += len(names) - 1
			if s := c.Summary(); !strings.Contains(s, "The busiest lane of gelu7 (embed T≤4096) computes ") || !strings.Contains(s, " % of a run more (") || c.Same() {
				t.Errorf("the summary is %q", s)
			}
			if first := c.unevenTable(3).Rows[0][1]; first != "gelu7" {
				t.Errorf("the first row is %s", first)
			}
		}
		d := &c.Uneven[slices.IndexFunc(c.Uneven, func(d UnevenDiff) bool { return d.Step == "gelu7" })]
		want := 55 * c.Plans[0].kindOf("gelu").Before / c.Plans[0].Total.Before
		if low, high := d.Change.bounds(); low <= want && want <= high && low <= d.Change.Percent && d.Change.Percent <= high {
			sized++
		}
	}
	if found < trials-2 || sized < trials-2 || others > 1 {
		t.Errorf("found in %d and sized in %d of %d, and %d others", found, sized, trials, others)
	}
	alarms := 0
	for range 50 {
		a, b := sides(5, 0.05)
		if len(changed(compare(t, a, b))) > 0 {
			alarms++
		}
	}
	if alarms > 1 {
		t.Errorf("%d false alarms in 50 comparisons", alarms)
	}
	a, b := sides(1, 2)
	for _, d := range compare(t, a, b).Uneven {
		if d.Verdict != Untested {
			t.Errorf("%s is %s from one recording of each", d.Step, d.Verdict)
		}
	}
	a, b = sides(3, 0.05)
	a[1].Plans[0].Stats[8].Even, a[1].Plans[0].Stats[8].Longest = 0, 0 // an older file has none
	if len(compare(t, a, b).Uneven) == 0 {
		t.Error("one step without lanes hides all others")
	}
}
