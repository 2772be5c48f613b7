package cpu

import (
	"context"
	"strings"
	"testing"

	"hotpath/internal/plan"
	"hotpath/internal/stats"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// DelayCalls slows exactly one call in ten of each step, in all of its shares, and
// in no run all of the steps.
func TestDelayCalls(t *testing.T) {
	const (
		burned      = 20_000 // ns per share
		shares      = 3
		calls       = 40
		slow, other = "slow", "other"
	)
	tm := newTeam()
	tm.acquire(1)
	defer tm.release()
	k := calledKernel{shares, func(int, int) { burn(burned) }}
	e := steps(tm, 1, k, k, k)
	for i, kind := range []string{slow, other, slow} {
		e.plan.Steps[i].Kind = kind
	}
	rec := profile.NewRecorder(profile.Options{Runs: calls})
	p := profile.Plan{ID: "p", Backend: "cpu", Lanes: []string{"worker 0"}}
	for i := range 3 {
		p.Steps = append(p.Steps, profile.Step{ID: i, Name: "step"})
	}
	handle, err := rec.Plan(p)
	if err != nil {
		t.Fatal(err)
	}
	e.be.DelayCalls(10, func(s *plan.Step) float64 {
		if s.Kind == slow {
			return 6
		}
		return 1
	})
	for range calls {
		r := handle.Acquire()
		r.Start = profile.Now()
		if err := e.Enqueue(context.Background(), tensor.Bind{T: 1, S: 1, R: 1}, r); err != nil {
			t.Fatal(err)
		}
		r.End = profile.Now()
		if err := handle.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	if name := e.kernels[0].name(); !strings.Contains(name, "one call in 10 6 times as long") || e.kernels[1].name() != k.name() {
		t.Errorf("kernels are %q and %q", name, e.kernels[1].name())
	}
	var usual []float64
	slowed := [3][]int{}
	for _, r := range rec.Snapshot().Runs {
		for s := range slowed {
			took := r.Lanes[0].End[s] - r.Lanes[0].Begin[s]
			// A neighbour may make any call longer. A share that lost its processor for a
			// part of its time burns less, so a slowed call may take less than 6 times.
			if turn := [3]int64{2, -1, 7}[s]; turn >= 0 && (r.Index+1+turn)%10 == 0 {
				if slowed[s] = append(slowed[s], int(r.Index)); took < 4*shares*burned {
					t.Errorf("call %d of step %d took %d ns, expected 6 times %d", r.Index, s, took, shares*burned)
				}
				continue
			}
			usual = append(usual, float64(took))
		}
	}
	if len(slowed[0]) != calls/10 || len(slowed[2]) != calls/10 || len(usual) != 3*calls-2*calls/10 {
		t.Errorf("calls %v are slowed, and %d are not", slowed, len(usual))
	}
	if m := stats.Median(usual); m > 3*shares*burned {
		t.Errorf("calls that are not slowed took %.0f ns, expected about %d", m, shares*burned)
	}
}
