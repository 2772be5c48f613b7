package compare

import (
	"io"
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

// Several recordings per side in turn find a wait of less than 2 per cent of a run by
// their own spread, and find none where there is none. One per side does not tell.
func TestSmallWaitIsFound(t *testing.T) {
	const trials, name = 20, "before norm5, after attention4"
	m := &machines[1]
	for _, in := range []struct {
		ns          int64
		recs        int
		least, most int
	}{{70e3, 10, 18, 20}, {0, 10, 0, 0}, {0, 4, 0, 0}, {70e3, 1, 0, 0}} {
		rng := rand.New(rand.NewPCG(73, uint64(in.recs)))
		found, sized, others := 0, 0, 0
		for range trials {
			c := compare(t, madeInTurn(0, m.records(rng, in.recs, 24, asIs)), madeInTurn(1, waiting(m.records(rng, in.recs, 24, asIs), "norm5", in.ns)))
			p := &c.Plans[0]
			want := 100 * simLayers * float64(in.ns) / p.Total.After // 1.5 per cent
			for i := range p.Waits {
				d := &p.Waits[i]
				low, high := d.Mean.bounds()
				switch {
				case d.Name != name && d.Changed():
					others++
				case d.Name == name && d.Changed():
					found++
					fallthrough
				case d.Name == name:
					if low <= want && want <= high {
						sized++
					}
				}
			}
		}
		if found < in.least || found > in.most || sized < trials-2 || others > 1 {
			t.Errorf("%d ns in %d recordings: found in %d and sized in %d of %d, and %d other waits", in.ns, in.recs, found, sized, trials, others)
		}
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

// A file may have a run that is shorter than a wait in it. The wait is all of that run,
// and the comparison can be written.
func TestWaitsLongerThanRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(74, 1))
	m := &machines[0]
	a, b := madeInTurn(0, m.records(rng, 3, 24, asIs)), madeInTurn(1, m.records(rng, 3, 24, asIs))
	for _, p := range b {
		for i := range p.Plans[0].Samples.Wall {
			p.Plans[0].Samples.Wall[i] = 1
		}
	}
	c := compare(t, a, b)
	if err := c.JSON(io.Discard); err != nil {
		t.Error(err)
	}
	for i := range c.Plans[0].Waits {
		if d := &c.Plans[0].Waits[i]; d.Mean.Percent > 100 {
			t.Errorf("%s is %g %% of a run", d.Name, d.Mean.Percent)
		}
	}
}
