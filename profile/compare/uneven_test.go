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

// alone lets one lane compute the steps of an op in a part of their calls. The part
// varies between recordings.
func alone(rng *rand.Rand, recs []*profile.Profile, op string, part float64) []*profile.Profile {
	for _, p := range divided(rng, recs, 0.05) {
		s := &p.Plans[0]
		for i := range s.Stats {
			if st := &s.Stats[i]; s.Steps[i].Op == op {
				one := min(1, part*math.Exp(0.3*rng.NormFloat64()))
				st.Even = int64(float64(st.LaneCompute[0]) * (one + (1-one)/2))
				st.Longest = st.Even
			}
		}
	}
	return recs
}

// A step that one lane computes, where two shared it, is not called less uneven: it has
// fewer lanes. How often a lane comes late is no difference.
func TestStepWithFewerLanes(t *testing.T) {
	const trials = 10
	m := &machines[1]
	rng := rand.New(rand.NewPCG(97, 1))
	for range trials {
		c := compare(t, alone(rng, madeInTurn(0, m.records(rng, 6, 24, asIs)), "gelu", 0.1), alone(rng, madeInTurn(1, m.records(rng, 6, 24, asIs)), "gelu", 100))
		d := &c.Uneven[slices.IndexFunc(c.Uneven, func(d UnevenDiff) bool { return d.Step == "gelu7" })]
		if d.Verdict != FewerLanes || c.Same() || d.added <= 0 {
			t.Errorf("lanes of gelu7 %v, one computes %.1f %% of a run more: %s", d.Lanes, d.added, d.Verdict)
		}
		if s := c.Summary(); !strings.Contains(s, "1.0 lanes share gelu7 (embed T≤4096) in place of 1.8: one lane computes ") {
			t.Errorf("the summary is %q", s)
		}
		if row := c.unevenTable(3).Rows[0]; row[1] != "gelu7" || row[2] != "1.8, 1.0" {
			t.Errorf("the first row is %q", row)
		}
	}
	alarms := 0
	for range 50 {
		c := compare(t, alone(rng, madeInTurn(0, m.records(rng, 4, 24, asIs)), "gelu", 0.4), alone(rng, madeInTurn(1, m.records(rng, 4, 24, asIs)), "gelu", 0.4))
		if slices.ContainsFunc(c.Uneven, func(d UnevenDiff) bool { return d.otherLanes() }) {
			alarms++
		}
	}
	if alarms > 0 {
		t.Errorf("%d false alarms in 50 comparisons", alarms)
	}
	c := compare(t, alone(rng, m.records(rng, 1, 24, asIs), "gelu", 0.1), alone(rng, m.records(rng, 1, 24, asIs), "gelu", 100))
	if slices.ContainsFunc(c.Uneven, func(d UnevenDiff) bool { return d.otherLanes() }) {
		t.Error("one recording of each tells the lanes of steps")
	}
}

// All families of tests share one probability of a false alarm: what a comparison tests
// beside its rows leaves less for them.
func TestFamiliesShareFalseAlarms(t *testing.T) {
	c := &Comparison{Ledger: []LedgerDiff{{Verdict: Untested}}, Uneven: []UnevenDiff{{Verdict: Untested}}}
	rows := c.families()
	c.Ledger[0].Verdict = Same
	if got := c.families(); got != rows+1 {
		t.Errorf("%g families with a ledger, expected %g", got, rows+1)
	}
	c.Uneven = make([]UnevenDiff, 3)
	families := rows + 2
	for _, in := range []struct {
		p    float64 // of the second step, corrected
		want Verdict
	}{{0.9 * falseAlarms, FewerLanes}, {1.1 * falseAlarms, Same}} {
		for i := range c.Uneven {
			c.Uneven[i] = UnevenDiff{Verdict: Same, Lanes: [2]float64{2, 1}, shared: Change{Percent: -50, P: 1, Verdict: Same}}
		}
		c.Uneven[1].shared.P = in.p / families / 3
		if c.judgeLanes(); c.Uneven[1].Verdict != in.want || c.Uneven[0].Verdict != Same {
			t.Errorf("p = %g: %s beside %s, expected %s", in.p, c.Uneven[1].Verdict, c.Uneven[0].Verdict, in.want)
		}
	}
}

// Recordings whose runs take no time, or whose lanes never had a processor, have no
// share of them.
func TestUnevenOfNoTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(98, 1))
	for name, spoil := range map[string]func(*profile.PlanStats){
		"no time": func(s *profile.PlanStats) { s.Ledger.Wall = 0 },
		"no processor": func(s *profile.PlanStats) {
			for i := range s.Stats {
				s.Stats[i].OffCPU = s.Stats[i].LaneCompute[0]
			}
		},
	} {
		a, b := divided(rng, madeInTurn(0, machines[0].records(rng, 3, 8, asIs)), 0), divided(rng, madeInTurn(1, machines[0].records(rng, 3, 8, asIs)), 0)
		for _, p := range slices.Concat(a, b) {
			spoil(&p.Plans[0])
		}
		if rows := compareUneven(a, b); len(rows) > 0 {
			t.Errorf("%s: %d rows, the first with a change of %g", name, len(rows), rows[0].Change.Percent)
		}
	}
}
