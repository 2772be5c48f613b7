package profile

import (
	"slices"
	"testing"
)

// BenchmarkFold folds runs of a small encoder on two lanes, with a barrier before
// each step: what recording costs beside the stamps. The runs of a model evict all of
// it from the caches, and so does the second case.
func BenchmarkFold(b *testing.B) {
	b.Run("warm", func(b *testing.B) { benchmarkFold(b, func() {}) })
	weights := make([]byte, 64<<20)
	b.Run("cold", func(b *testing.B) {
		benchmarkFold(b, func() {
			for i := 0; i < len(weights); i += 64 {
				weights[i]++
			}
		})
	})
}

func benchmarkFold(b *testing.B, compute func()) {
	const steps, lanes = 49, 2
	p := Plan{ID: "p", Backend: "cpu", Lanes: []string{"worker 0", "worker 1"}}
	for i := range steps {
		p.Steps = append(p.Steps, Step{ID: i, Name: "step", Barrier: i > 0})
	}
	rec := NewRecorder(Options{})
	h, err := rec.Plan(p)
	if err != nil {
		b.Fatal(err)
	}
	at, runs := int64(1), 0
	var folds []int64
	for b.Loop() {
		folded := rec.folded
		for range pendingRuns {
			r := h.Acquire()
			r.Start, r.Tokens, r.Costing = at, 16, evenCosts{}
			for i := range r.Lanes {
				l := &r.Lanes[i]
				l.Wake, l.Absent, l.exact = at+100, false, true
				for s := range l.Steps {
					begin := at + 200 + int64(s)*14_000
					l.Steps[s].Arrive, l.Steps[s].Begin = begin-50, begin
					l.Steps[s].End = begin + 10_000 + int64((s*7919+runs*104729+i*31)%3000)
					l.Done = l.Steps[s].End
				}
			}
			if runs%16 == 15 { // the last time just before the runs are folded
				compute()
			}
			r.End = max(r.Lanes[0].Done, r.Lanes[1].Done) + 100
			at = r.End + 100
			runs++
			if err := h.Release(r); err != nil {
				b.Fatal(err)
			}
		}
		folds = append(folds, rec.folded-folded)
	}
	slices.Sort(folds)
	b.ReportMetric(float64(folds[len(folds)/2])/pendingRuns, "fold-ns/run")
	b.ReportMetric(0, "ns/op") // and the stamps of the benchmark itself
}

// evenCosts are those of runs that cost the same, as most runs of one model do.
type evenCosts struct{}

func (evenCosts) Costs(_ *Run, costs []Cost) (steps int) {
	for s := range costs {
		costs[s] = Cost{FLOPs: 1e6, Bytes: 1e5}
	}
	return len(costs)
}
