package cpu

import (
	"context"
	"sync/atomic"
	"testing"
	"unsafe"

	"hotpath/internal/tensor"
	"hotpath/profile"
)

// burn keeps the processor busy for a time and returns how long that was.
func burn(ns int64) int64 {
	start := profile.Now()
	now := start
	for ; now < start+ns; now = profile.Now() {
		pause()
	}
	return now - start
}

// TestDelaysHaveTheirColumns: time that is lost in the kernel, between steps, before
// a barrier and in the caller is each seen in its own column of the ledger, and in no
// other. A busy machine takes processors away anywhere, so of several tries one has
// to be clean.
func TestDelaysHaveTheirColumns(t *testing.T) {
	const delay, steps, tries = 2_000_000, 4, 1000
	for _, c := range []struct {
		name    string
		workers int
		column  func(*profile.Ledger) int64
	}{
		{"kernel", 1, func(l *profile.Ledger) int64 { return l.Compute }},
		{"between steps", 1, func(l *profile.Ledger) int64 { return l.Residual }},
		{"before barriers", 2, func(l *profile.Ledger) int64 { return l.Barrier }},
		{"caller", 1, func(l *profile.Ledger) int64 { return l.Dispatch }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var last profile.Ledger
			for range tries {
				l, burned := delayed(t, c.name, c.workers, steps, delay)
				if sum := l.Compute + l.Barrier + l.Dispatch + l.Idle + l.Residual; sum != l.LaneTime {
					t.Fatalf("the columns add up to %d of %d ns", sum, l.LaneTime)
				}
				// Of two workers the one burns in its residual while the other waits; after
				// the last step it is idle.
				want, others := burned, l.LaneTime-c.column(&l)
				if c.workers > 1 {
					want = burned * (steps - 1) / steps
					others -= burned + (burned - want)
				}
				if c.column(&l) >= want*9/10 && others < burned/2 {
					return
				}
				last = l
			}
			t.Errorf("%d ms in each of %d steps gave %+v", delay/1_000_000, steps, last)
		})
	}
}

// delayed is the ledger of a run with delays in one place, and how long they were.
func delayed(t *testing.T, where string, workers, n int, delay int64) (l profile.Ledger, burned int64) {
	tm := newTeam()
	tm.acquire(workers)
	defer tm.release()
	kernels, plan := make([]kernel, n), profile.Plan{ID: where, Backend: "cpu"}
	inside := make([]atomic.Int32, n)
	for i := range kernels {
		kernels[i] = calledKernel{workers, func(lane, _ int) {
			if where == "kernel" {
				burned += burn(delay)
			}
			for inside[i].Add(1); int(inside[i].Load()) < workers; { // each worker has a share
				pause()
			}
		}}
		plan.Steps = append(plan.Steps, profile.Step{ID: i, Name: "step"})
	}
	e := steps(tm, workers, kernels...)
	e.between = func(lane, step int) {
		if where == "between steps" || where == "before barriers" && lane == 0 {
			burned += burn(delay)
		}
	}
	rec := profile.NewRecorder(profile.Options{})
	for i := range workers {
		plan.Lanes = append(plan.Lanes, []string{"worker 0", "worker 1"}[i])
	}
	handle, err := rec.Plan(plan)
	if err != nil {
		t.Fatal(err)
	}
	r := handle.Acquire()
	r.Start = profile.Now()
	if where == "caller" {
		burned += burn(delay * int64(n))
	}
	if err := e.Enqueue(context.Background(), tensor.Bind{T: 1, S: 1, R: 1}, r); err != nil {
		t.Fatal(err)
	}
	r.End = profile.Now()
	if err := handle.Release(r); err != nil {
		t.Fatal(err)
	}
	p := rec.Snapshot()
	if err := rec.Err(); err != nil {
		t.Fatal(err)
	}
	return p.Plans[0].Ledger, burned
}

// A lane that goes straight on begins a step when it ended the step before. One that does
// something else in between does not.
func TestStepsFollowEachOther(t *testing.T) {
	const n = 4
	for _, between := range []func(int, int){nil, func(int, int) { burn(1000) }} {
		tm := newTeam()
		tm.acquire(1)
		kernels, plan := make([]kernel, n), profile.Plan{ID: "p", Backend: "cpu", Lanes: []string{"worker 0"}}
		for i := range kernels {
			kernels[i] = calledKernel{1, func(int, int) { burn(1000) }}
			plan.Steps = append(plan.Steps, profile.Step{ID: i, Name: "step"})
		}
		e := steps(tm, 1, kernels...)
		e.between = between
		handle, err := profile.NewRecorder(profile.Options{}).Plan(plan)
		if err != nil {
			t.Fatal(err)
		}
		straight := 0
		const tries = 100 // the lane may lose its processor at any step
		for range tries {
			r := handle.Acquire()
			r.Start = profile.Now()
			if err := e.Enqueue(context.Background(), tensor.Bind{T: 1, S: 1, R: 1}, r); err != nil {
				t.Fatal(err)
			}
			s := r.Lanes[0].Steps
			for i := 1; i < n; i++ {
				if s[i].Arrive != s[i].Begin {
					t.Fatalf("step %d waited from %d to %d, expected no wait of one worker", i, s[i].Arrive, s[i].Begin)
				}
				if s[i].Begin == s[i-1].End {
					straight++
				} else if s[i].Begin < s[i-1].End {
					t.Fatalf("step %d began at %d, before the end of the last at %d", i, s[i].Begin, s[i-1].End)
				}
			}
			handle.Discard(r)
		}
		if between == nil && straight < tries*(n-1)/2 || between != nil && straight > 0 {
			t.Errorf("something else in between: %t; %d of %d steps began when the last ended", between != nil, straight, tries*(n-1))
		}
		tm.release()
	}
}

// TestRecordedRunsAllocateNothing: stamps, the lane's clock and folding are all in
// memory that is there before the first run.
func TestRecordedRunsAllocateNothing(t *testing.T) {
	tm := newTeam()
	tm.acquire(2)
	defer tm.release()
	e := steps(tm, 2, calledKernel{8, func(int, int) {}}, calledKernel{1, func(int, int) {}})
	rec := profile.NewRecorder(profile.Options{})
	handle, err := rec.Plan(profile.Plan{ID: "p", Backend: "cpu", Steps: []profile.Step{{ID: 0, Name: "a"}, {ID: 1, Name: "b"}}, Lanes: []string{"worker 0", "worker 1"}})
	if err != nil {
		t.Fatal(err)
	}
	run := func() {
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
	for range 300 { // the pool is full, and every thread is known
		run()
	}
	if n := testing.AllocsPerRun(500, run); n != 0 {
		t.Errorf("%v allocations per recorded run", n)
	}
}

func TestWorkersBeginAtCacheLines(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		workers := newWorkers(n)
		for i := range workers {
			if at := uintptr(unsafe.Pointer(&workers[i])) % 64; at != 0 {
				t.Errorf("worker %d of %d begins at byte %d of a cache line", i, n, at)
			}
		}
	}
}

// A stamp looks at two cache lines of its worker: what begins a step and ends it, and
// the lane's clock.
func TestStampsAreTwoCacheLines(t *testing.T) {
	const line = 64
	var w worker
	if s := unsafe.Sizeof(w); s%(2*line) != 0 {
		t.Errorf("worker has %d bytes, want a multiple of %d", s, 2*line)
	}
	if end := unsafe.Offsetof(w.stamps) + unsafe.Offsetof(w.stamps.part); end >= line {
		t.Errorf("what stamps look at first ends at byte %d, want %d at most", end, line)
	}
	if at := unsafe.Offsetof(w.stamps) + unsafe.Offsetof(w.stamps.clock); at != line {
		t.Errorf("the clock begins at byte %d, want %d", at, line)
	}
}
