package profile

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The interval holds the next run with 95 per cent, however few runs there are, whether
// they are of one size or of several.
func TestPredictedHoldsTheNextRun(t *testing.T) {
	const trials, noise = 4000, 0.05
	plan := &Plan{Steps: []Step{{Class: "f32"}}}
	ceilings := Ceilings{FLOPs: 1e12}
	for _, sizes := range []int{1, 100} {
		for _, runs := range []int{2, 3, 4, 5, 8, 12, 13, 20, 60} {
			rng := rand.New(rand.NewPCG(uint64(runs), uint64(sizes)))
			if sizes > 1 && runs == 2 {
				continue // the line through two points
			}
			held := 0
			for range trials {
				s := &RunSamples{Steps: make([]StepSamples, 1)}
				var usual, size float64
				for range runs {
					tokens := 100 + rng.IntN(sizes)
					log := rng.NormFloat64() * noise
					usual, size = usual+log/float64(runs), size+math.Log(float64(tokens))/float64(runs)
					s.Wall, s.Tokens = append(s.Wall, 1), append(s.Tokens, int64(tokens))
					s.Steps[0].Compute = append(s.Steps[0].Compute, int64(1e9*float64(tokens)*math.Exp(log)))
					s.Steps[0].FLOPs, s.Steps[0].Bytes = append(s.Steps[0].FLOPs, int64(tokens)*1e6), append(s.Steps[0].Bytes, 0)
				}
				if next := rng.NormFloat64() * noise; math.Abs(next-usual) <= s.moves(plan, ceilings) {
					held++
				}
			}
			t.Logf("%d runs of %d sizes: %.1f %%", runs, sizes, 100*float64(held)/trials)
			if share := float64(held) / trials; share < 0.93 || share > 0.975 {
				t.Errorf("%d runs of %d sizes: the interval holds the next run in %.1f %%, expected about 95", runs, sizes, 100*share)
			}
		}
	}
}

// If runs tell nothing of how far they move, all of the time may be lost.
func TestTooFewRunsToPredict(t *testing.T) {
	plan, ceilings := &Plan{Steps: []Step{{Class: "f32"}}}, Ceilings{FLOPs: 1e12}
	one := &RunSamples{Wall: []int64{5}, Tokens: []int64{1}, Steps: []StepSamples{{Compute: []int64{5}, FLOPs: []int64{1}, Bytes: []int64{1}}}}
	two := &RunSamples{Wall: []int64{5, 9}, Tokens: []int64{1, 2}, Steps: []StepSamples{{Compute: []int64{5, 9}, FLOPs: []int64{1, 2}, Bytes: []int64{1}}}}
	for name, s := range map[string]*RunSamples{"no samples": nil, "one run": one, "two runs of different sizes": two} {
		moved := s.moves(plan, ceilings)
		ceiling := ProbeStats{Median: 1e9}
		roof := &roofline{lanes: 1, flops: map[string]*ProbeStats{"f32": &ceiling}, reads: []*ProbeStats{&ceiling}, moves: map[*ProbeStats]float64{&ceiling: 0.1}}
		st := StepStats{Clock: 100, OffClock: 10, Floor: 40, Lost: 50}
		roof.predict(&st, &work{class: "f32", flops: 40}, moved)
		if !math.IsInf(moved, 1) || st.LostLow != 0 || st.LostHigh != 90 {
			t.Errorf("%s: runs move by %v, lost time from %d to %d, expected 0 to 90", name, moved, st.LostLow, st.LostHigh)
		}
		st = StepStats{Clock: 100, OffClock: 10, Lost: 90} // no work is known
		if roof.predict(&st, &work{class: "f32"}, moved); st.LostLow != 90 || st.LostHigh != 90 {
			t.Errorf("%s: lost time without work from %d to %d, expected 90", name, st.LostLow, st.LostHigh)
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
		l.Steps[0].Arrive, l.Steps[0].Begin = at, at
		if rng.IntN(3) == 0 {
			off := int64(3e6 * rng.ExpFloat64())
			took += off
			l.Mark(0, off)
			l.Time.off.Add(off)
		}
		at += took
		l.Steps[0].End, l.Done, r.End = at, at, at
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
