package profile

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Values from tables of Student's distribution.
func TestStudent95(t *testing.T) {
	for _, c := range []struct{ freedom, t float64 }{{2, 4.303}, {3, 3.182}, {4, 2.776}, {8, 2.306}, {30, 2.042}, {1000, 1.962}} {
		if got := student95(c.freedom); math.Abs(got/c.t-1) > 0.035 {
			t.Errorf("%v at %v degrees of freedom, expected %v", got, c.freedom, c.t)
		}
	}
}

// lostShare simulates a recording of one build on a machine that moves, and returns
// what its only step loses of its time on a processor, with its interval. speed is
// that of the machine: it moves between recordings and within them, and what
// programs share the machine takes the processor away.
func lostShare(t *testing.T, rng *rand.Rand, between, within, sample float64) (low, share, high float64) {
	t.Helper()
	const usual, runs, kinds = 1_000_000.0, 40, 3
	rec := NewRecorder(Options{})
	rec.SetFacts(Facts{Threads: 1})
	h := mustPlan(t, rec, Plan{ID: "p", Backend: "cpu", Lanes: []string{"worker 0"}, Steps: []Step{{ID: 0, Name: "x", Op: "linear"}}})
	pace, drift := rng.NormFloat64()*between, 0.0 // of the clock, which ceilings do not see
	at := int64(1)
	for i := range runs {
		drift = 0.8*drift + 0.6*rng.NormFloat64()*within
		if i%8 == 7 {
			for k := range kinds {
				probe := []Probe{{Class: "f32"}, {Level: "L2", UpTo: 1 << 20}, {Level: "memory"}}[k]
				rec.Probed(probe, 100e9*math.Exp(rng.NormFloat64()*sample), Now(), Now())
			}
		}
		tokens := 100 + rng.IntN(100)
		took := int64(usual * float64(tokens) / 100 * math.Exp(pace+drift))
		r := h.Acquire()
		l := &r.Lanes[0]
		var c LaneClock
		r.Start, r.Tokens, r.Costs[0] = at, tokens, Cost{FLOPs: int64(tokens) * 200_000}
		l.Enter(at, &c)
		l.exact = true
		l.Arrive[0], l.Begin[0] = at, at
		if rng.IntN(3) == 0 {
			off := int64(3e6 * rng.ExpFloat64())
			took += off
			l.Mark(0, off)
			l.Time.off.Add(off)
		}
		at += took
		l.End[0], l.Done, r.End = at, at, at
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	p := rec.Snapshot()
	if err := rec.Err(); err != nil {
		t.Fatal(err)
	}
	st := &p.Plans[0].Stats[0]
	if st.Roof == nil || st.Roof.Kernel != st.Lost || st.Roof.Ideal+st.Roof.Cache+st.Roof.Neighbour+st.Roof.Kernel != st.Clock {
		t.Fatalf("%d ns, of which %d are lost, have the causes %+v", st.Clock, st.Lost, st.Roof)
	}
	on := float64(st.Clock - st.OffClock)
	return float64(st.LostLow) / on, float64(st.Lost) / on, float64(st.LostHigh) / on
}

// Intervals of lost time of two recordings of one build have values in common in 95
// of 100 pairs, on machines that move as much between recordings as within them, and
// they are no wider than the machine moves: time without a processor is not lost.
func TestLostTimeIntervalsOverlap(t *testing.T) {
	for _, m := range []struct {
		name                    string
		between, within, sample float64
		widest                  float64
	}{{"quiet", 0.01, 0.01, 0.01, 0.06}, {"shared", 0.05, 0.05, 0.05, 0.25}, {"clock moves alone", 0.08, 0.08, 0.02, 0.30}, {"noisy", 0.10, 0.10, 0.15, 0.60}} {
		t.Run(m.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(53, 1))
			type span struct{ low, high float64 }
			var spans []span
			for range 40 {
				low, share, high := lostShare(t, rng, m.between, m.within, m.sample)
				if !(low <= share && share <= high) || high-low > m.widest || math.Abs(share-0.8) > 0.15 {
					t.Errorf("lost %.3f (%.3f to %.3f), expected about 0.8 in an interval of at most %.2f", share, low, high, m.widest)
				}
				spans = append(spans, span{low, high})
			}
			common, pairs := 0, 0
			for i, x := range spans {
				for _, y := range spans[i+1:] {
					if pairs++; x.low <= y.high && y.low <= x.high {
						common++
					}
				}
			}
			t.Logf("%d of %d pairs have values in common", common, pairs)
			if 100*common < 95*pairs {
				t.Errorf("%d of %d pairs have values in common, expected 95 in 100", common, pairs)
			}
		})
	}
}
