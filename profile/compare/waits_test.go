package compare

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/profile"
)

// waiting lets one of two lanes wait before all steps of a name, as it does if the
// other lane has the whole step before: no step takes more time on a processor.
func waiting(recs []*profile.Profile, name string, ns int64) []*profile.Profile {
	for _, p := range recs {
		s := &p.Plans[0]
		for i := range s.Steps {
			if !strings.HasSuffix(s.Steps[i].Name, "/"+name) {
				continue
			}
			for r := range s.Samples.Wall {
				s.Samples.Steps[i].Wait[r] += 2 * ns
				s.Samples.Wall[r] += ns
				s.Stats[i].LaneWait[0] += 2 * ns
				s.Ledger.Wall += ns
				s.Ledger.LaneTime += 2 * ns
				s.Ledger.Barrier += 2 * ns
			}
		}
	}
	return recs
}

// A step that one lane computes while the other waits is found by the place of the
// wait, in size, and no row of steps is named for it.
func TestWaitIsFoundByPlace(t *testing.T) {
	const trials, name = 10, "before norm5, after attention4"
	rng := rand.New(rand.NewPCG(71, 1))
	m := &machines[0]
	found, sized := 0, 0
	for range trials {
		a, b := madeInTurn(0, m.records(rng, 5, 24, asIs)), madeInTurn(1, waiting(m.records(rng, 5, 24, asIs), "norm5", 300e3))
		c := compare(t, a, b)
		holdsEstimates(t, c)
		p := &c.Plans[0]
		want := 100 * simLayers * 300e3 / p.Total.After // of a run of B, in which A has next to none
		for i := range p.Waits {
			d := &p.Waits[i]
			if d.Name != name {
				if d.Verdict == Slower || d.Verdict == SlowerTail {
					t.Errorf("%s is %s", d.Name, d.Verdict)
				}
				continue
			}
			if d.Verdict == Slower {
				found++
			}
			if low, high := d.Median.bounds(); low <= want && want <= high {
				sized++
			}
			if d.Wait < 0.9*simLayers*300e3 || d.Before < 0 || d.Work != 0 || d.Efficiency != 0 {
				t.Errorf("%+v", d)
			}
		}
		for _, rows := range [][]Diff{p.Kinds, p.Steps} {
			for i := range rows {
				if rows[i].Changed() {
					t.Errorf("%s is %s", rows[i].Name, rows[i].Verdict)
				}
			}
		}
		if mid, low, high := c.Real(); found == trials && (low > mid || mid > high || math.Abs(mid-want) > 2) {
			t.Errorf("%v %% of the time is real (%v to %v), expected about %v", mid, low, high, want)
		}
		if s := c.Summary(); found == trials && !strings.Contains(s, "% of a run more") {
			t.Errorf("the summary is %q", s)
		}
	}
	if found < trials-1 || sized < trials-1 {
		t.Errorf("found in %d and sized in %d of %d", found, sized, trials)
	}
}

// A plan with one lane has no barriers, and none is listed.
func TestOneLaneHasNoWaits(t *testing.T) {
	rng := rand.New(rand.NewPCG(72, 1))
	one := func(side int) []*profile.Profile {
		recs := madeInTurn(side, machines[0].records(rng, 3, 12, asIs))
		for _, p := range recs {
			p.Plans[0].Lanes = p.Plans[0].Lanes[:1]
		}
		return recs
	}
	if w := compare(t, one(0), one(1)).Plans[0].Waits; len(w) > 0 {
		t.Errorf("%+v", w)
	}
}
