package profile

import "testing"

// BenchmarkFold folds runs of a small encoder on two lanes, with a barrier before
// each step: what recording costs beside the stamps.
func BenchmarkFold(b *testing.B) {
	const steps, lanes = 49, 2
	p := Plan{ID: "p", Backend: "cpu", Lanes: []string{"worker 0", "worker 1"}}
	for i := range steps {
		p.Steps = append(p.Steps, Step{ID: i, Name: "step"})
	}
	rec := NewRecorder(Options{})
	h, err := rec.Plan(p)
	if err != nil {
		b.Fatal(err)
	}
	at, runs := int64(1), 0
	for b.Loop() {
		for range pendingRuns {
			r := h.Acquire()
			r.Start, r.Tokens = at, 16
			for i := range r.Lanes {
				l := &r.Lanes[i]
				l.Wake, l.Absent, l.exact = at+100, false, true
				for s := range l.Begin {
					begin := at + 200 + int64(s)*14_000
					l.Arrive[s], l.Begin[s] = begin-50, begin
					l.End[s] = begin + 10_000 + int64((s*7919+runs*104729+i*31)%3000)
					l.Done = l.End[s]
				}
			}
			at = max(r.Lanes[0].Done, r.Lanes[1].Done) + 100
			r.End = at
			runs++
			if err := h.Release(r); err != nil {
				b.Fatal(err)
			}
		}
	}
	s := rec.Snapshot()
	b.ReportMetric(float64(s.Process.Folding)/float64(s.Ledger.Runs), "fold-ns/run")
	b.ReportMetric(0, "ns/op") // and the stamps of the benchmark itself
}
