package cpu

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// calledKernel is a step of a given width that calls a function for each share.
type calledKernel struct {
	shares int
	at     func(lane, share int)
}

func (k calledKernel) name() string                                { return "called" }
func (k calledKernel) width(tensor.Bind, int) int                  { return k.shares }
func (k calledKernel) runShare(w *worker, _ tensor.Bind, i, _ int) { k.at(w.lane, i) }

// steps is an exec of kernels with a barrier before each, on a team of its own.
func steps(tm *team, workers int, kernels ...kernel) *exec {
	e := &exec{be: &Backend{team: tm}, plan: &plan.Plan{Commit: len(kernels)}, workers: make([]worker, workers), kernels: kernels, bound: kernels}
	for i := range kernels {
		e.plan.Steps = append(e.plan.Steps, plan.Step{Barrier: i > 0})
	}
	for i := range e.workers {
		e.workers[i].lane = i
	}
	e.ready()
	return e
}

// TestHeldShareHoldsUpNoOther: a worker that stops in the middle of a share holds
// up this share and the next barrier, but the others run all other shares.
func TestHeldShareHoldsUpNoOther(t *testing.T) {
	for _, workers := range []int{2, 4} {
		tm := newTeam()
		tm.acquire(workers)
		shares := workers * sharesEach
		for range 20 {
			var began, others, after atomic.Int32
			rest := make(chan struct{})
			e := steps(tm, workers, calledKernel{shares, func(int, int) {
				if began.Add(1) == 1 { // the worker that comes first
					<-rest
					if n := after.Load(); n != 0 {
						t.Errorf("%d workers: %d shares ran behind a barrier whose step was not done", workers, n)
					}
					return
				}
				if int(others.Add(1)) == shares-1 {
					close(rest)
				}
			}}, calledKernel{shares, func(int, int) { after.Add(1) }})
			if err := e.Enqueue(context.Background(), tensor.Bind{T: 1, S: 1, R: 1}, nil); err != nil {
				t.Fatal(err)
			}
			if int(began.Load()) != shares || int(after.Load()) != shares {
				t.Errorf("%d workers: %d and %d shares ran, expected %d of each step", workers, began.Load(), after.Load(), shares)
			}
		}
		tm.release()
	}
}

// TestWorkerThatNeverWakes: a run does not wait for members that do not come, and
// its recording says that they were absent.
func TestWorkerThatNeverWakes(t *testing.T) {
	const workers, shares, runs = 3, 12, 5
	tm := newTeam()
	for i := range workers - 1 { // without a goroutine
		tm.members = append(tm.members, &member{index: i + 1, wake: make(chan struct{}, 1)})
	}
	var ran [2]atomic.Int32
	e := steps(tm, workers, calledKernel{shares, func(int, int) { ran[0].Add(1) }}, calledKernel{shares, func(int, int) { ran[1].Add(1) }})
	rec := profile.NewRecorder(profile.Options{})
	handle, err := rec.Plan(profile.Plan{ID: "alone", Backend: "cpu", Steps: []profile.Step{{ID: 0, Name: "a"}, {ID: 1, Name: "b"}}, Lanes: []string{"worker 0", "worker 1", "worker 2"}})
	if err != nil {
		t.Fatal(err)
	}
	for range runs {
		r := handle.Acquire()
		r.Start = profile.Now()
		if err := e.Enqueue(context.Background(), tensor.Bind{T: 1, S: 1, R: 1}, r); err != nil {
			t.Fatal(err)
		}
		r.End = profile.Now()
		for i := range r.Lanes {
			if r.Lanes[i].Absent != (i > 0) {
				t.Errorf("worker %d: absent %t", i, r.Lanes[i].Absent)
			}
		}
		if err := handle.Release(r); err != nil {
			t.Error(err)
		}
	}
	if ran[0].Load() != runs*shares || ran[1].Load() != runs*shares {
		t.Errorf("%d and %d shares ran, expected %d of each step", ran[0].Load(), ran[1].Load(), runs*shares)
	}
	for _, m := range tm.members {
		if m.next.Load() != nil {
			t.Errorf("worker %d was not called off", m.index)
		}
	}
	if l := rec.Snapshot().Plans[0].Ledger; l.Runs != runs || l.LaneTime != l.Compute+l.Barrier+l.Dispatch+l.Idle+l.Residual {
		t.Errorf("ledger %+v", l)
	}
}

// TestLateWorkerFindsNothing: a worker that comes back to any step of a run that
// is over runs no share, whatever the runs after it are at, and these have
// another flight until it has left.
func TestLateWorkerFindsNothing(t *testing.T) {
	const workers, shares, runs = 2, 8, 200
	tm := newTeam()
	tm.acquire(workers)
	defer tm.release()
	var ran atomic.Int32
	count := calledKernel{shares, func(int, int) { ran.Add(1) }}
	e := steps(tm, workers, count, count, calledKernel{1, count.at})
	run := func() {
		if err := e.Enqueue(context.Background(), tensor.Bind{T: 1, S: 1, R: 1}, nil); err != nil {
			t.Error(err)
		}
	}
	run()
	var old *flight // of the first run, which the worker is inside of
	for _, f := range e.flights {
		f.job.wait(f.exec.be.team.newWaiter(workers))
		if f.runs == 1 {
			old = f
		}
	}
	old.job.inside.Add(1)
	var late sync.WaitGroup
	late.Go(func() {
		w := worker{lane: 1}
		for range 1000 {
			for i := range e.kernels {
				if n, ok := old.take(&w, i, 0, &stamps{}); n != 0 || !ok {
					t.Errorf("a late worker ran %d shares of step %d", n, i)
				}
			}
		}
	})
	for range runs - 1 {
		run()
	}
	late.Wait()
	if n := int(ran.Load()); n != runs*(2*shares+1) || old.runs != 1 {
		t.Errorf("%d shares in %d runs, expected %d; the late worker's flight is of run %d", n, runs, runs*(2*shares+1), old.runs)
	}
}

// TestOwnSharesFirst: where all workers take part each runs the shares that lie
// with it, and where some do not their shares are divided among the others.
func TestOwnSharesFirst(t *testing.T) {
	const workers = 4
	e := steps(newTeam(), workers, calledKernel{16, nil})
	for active, want := range map[int][][]int{
		4: {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}},
		2: {{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}},
	} {
		for lane := range active {
			var got []int
			e.kernels[0] = calledKernel{16, func(_, share int) { got = append(got, share) }}
			f := e.flights[0]
			f.prepare(context.Background(), tensor.Bind{}, nil, len(e.workers))
			f.n = active
			if n, ok := f.take(&e.workers[lane], 0, 0, &stamps{}); n != 16 || !ok || !slices.Equal(got[:len(want[lane])], want[lane]) {
				t.Errorf("worker %d of %d ran %v, expected %v first", lane, active, got, want[lane])
			}
		}
	}
}

// TestActiveWorkersDoNotChangeBits: sessions with 1, 2 and 4 workers, of which any
// number takes part, compute the same bits.
func TestActiveWorkersDoNotChangeBits(t *testing.T) {
	var want []float32
	for _, workers := range []int{1, 2, 4} {
		be, err := New(Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{Backend: be}
		s, out, bind := chain(t, w)
		for _, v := range []string{"x", "w"} {
			x := s.F32(s.Program().Graph.Input(v))
			for i := range x {
				x[i] = float32(i*7%23-11) / 64
			}
		}
		for active := 1; active <= workers; active++ {
			if workers > 1 {
				w.execs[0].limits.Of(bind.T).Init(active)
			}
			if err := s.Run(context.Background(), bind); err != nil {
				t.Fatal(err)
			}
			if n := w.execs[0].flights[0].n; n != active && w.execs[0].flights[0].runs == w.execs[0].runs {
				t.Errorf("%d workers took part, expected %d", n, active)
			}
			for i, c := range w.execs[0].flights[0].cuts {
				if k := w.execs[0].kernels[i]; active == 1 && int(c.shares) != k.width(bind, 1) {
					t.Errorf("step %d: one of %d workers ran %d shares, expected %d", i, workers, c.shares, k.width(bind, 1))
				}
			}
			got := s.F32(out)
			if want == nil {
				want = slices.Clone(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d of %d workers compute other bits than one", active, workers)
			}
		}
		s.Close()
		be.Close()
	}
}

// TestCancelledRunsAreNotMeasured: the limiter learns from runs that came to
// their end.
func TestCancelledRunsAreNotMeasured(t *testing.T) {
	be, err := New(Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	w := &watched{Backend: be}
	s, _, bind := chain(t, w)
	defer s.Close()
	e := w.execs[0]
	before := *e.limits.Of(bind.T)
	ctx, cancel := context.WithCancel(context.Background())
	kernels := e.kernels
	e.kernels = slices.Clone(kernels)
	e.kernels[1] = calledKernel{4, func(int, int) { cancel() }}
	if err := s.Run(ctx, bind); err == nil {
		t.Fatal("the run was not cancelled")
	}
	if *e.limits.Of(bind.T) != before {
		t.Error("a run that was cancelled was measured")
	}
	e.kernels = kernels
	if err := s.Run(context.Background(), bind); err != nil || *e.limits.Of(bind.T) == before {
		t.Errorf("%v, or a run was not measured", err)
	}
}

// BenchmarkBarrier is what a step of empty shares and its barrier cost.
func BenchmarkBarrier(b *testing.B) {
	for _, workers := range []int{1, 2, 4, 8, 16} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			tm := newTeam()
			tm.acquire(workers)
			defer tm.release()
			const many = 256
			kernels := make([]kernel, many)
			for i := range kernels {
				kernels[i] = calledKernel{workers * sharesEach, func(int, int) {}}
			}
			e := steps(tm, workers, kernels...)
			for b.Loop() {
				if err := e.Enqueue(context.Background(), tensor.Bind{T: 1, S: 1, R: 1}, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/step")
		})
	}
}
