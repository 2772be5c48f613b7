package profile

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// releaseShort records a run of one step that takes ran ns on each lane.
func releaseShort(t testing.TB, h PlanHandle, at, ran int64) {
	r := h.Acquire()
	r.Start, r.End = at, at+ran
	for i := range r.Lanes {
		l := &r.Lanes[i]
		l.Wake, l.Done = at, at+ran
		for s := range l.Steps {
			l.Steps[s] = StepStamps{at, at, at + ran}
		}
	}
	if err := h.Release(r); err != nil {
		t.Error(err)
	}
}

// idleFolds is one long wait of a worker for the next run.
func idleFolds(rec *Recorder) {
	for (Idle{rec}).Fold() {
	}
}

// A worker that is idle after each run folds all runs, and nothing is made or folded by who
// releases them.
func TestIdleFolds(t *testing.T) {
	rec := NewRecorder(Options{Events: -1})
	h := mustPlan(t, rec, Plan{ID: "a", Lanes: []string{"l", "m"}, Steps: []Step{{ID: 0, Name: "x"}}})
	const ran = 1_000
	at, released := int64(1), int64(0)
	step := func() {
		for range 1 + released%(idleEach+1) {
			releaseShort(t, h, at, ran)
			at += ran
			released++
		}
		idleFolds(rec)
		if rec.plans[0].runs != released {
			t.Fatalf("%d of %d runs are folded", rec.plans[0].runs, released)
		}
	}
	if n := testing.AllocsPerRun(10*pendingRuns, step); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
	if rec.folded != 0 {
		t.Errorf("%d ns for the recorder itself", rec.folded)
	}
	if p, want := rec.Snapshot(), at-1; p.Elapsed != want || p.Ledger.Runs != want/ran || p.Ledger.Compute != 2*want {
		t.Errorf("%d runs in %d ns, %d of lanes, expected %d in %d", p.Ledger.Runs, p.Elapsed, p.Ledger.Compute, want/ran, want)
	}
	if (Idle{}).Fold() {
		t.Error("there is more to do for nobody")
	}
}

// What an idle worker has not come to, or must not, is folded without it.
func TestIdleLeavesRuns(t *testing.T) {
	times := new(laterTimes)
	for _, c := range []struct {
		name   string
		steps  int
		calls  int // of Idle.Fold after each run
		heap   bool
		timing Timing
	}{{"few", 1, 1, false, nil}, {"large plan", idleSteps + 1, 1, false, nil}, {"none", 1, 0, false, nil}, {"heap", 1, 1, true, nil}, {"device", 5, 1, false, times}} {
		rec := NewRecorder(Options{Heap: c.heap})
		p := Plan{ID: "a", Lanes: []string{"l"}}
		if c.timing != nil {
			p = testPlan()
		}
		for s := len(p.Steps); s < c.steps; s++ {
			p.Steps = append(p.Steps, Step{ID: s, Name: "x"})
		}
		h := mustPlan(t, rec, p)
		const runs = 3*pendingRuns + 5
		for i := range runs {
			at := int64(1 + i*testWall)
			if c.timing == nil {
				releaseShort(t, h, at, testWall)
			} else {
				r := h.Acquire()
				stampTestRun(r, at)
				r.Timing, r.Stamps = c.timing, append(r.Stamps[:0], at)
				if err := h.Release(r); err != nil {
					t.Fatal(err)
				}
			}
			for range c.calls {
				before := times.calls
				Idle{rec}.Fold()
				if times.calls != before {
					t.Fatalf("%s: an idle worker asked for the times of a device", c.name)
				}
			}
		}
		if p := rec.Snapshot(); p.Ledger.Runs != runs || p.Elapsed != runs*testWall {
			t.Errorf("%s: %d runs in %d ns, expected %d in %d", c.name, p.Ledger.Runs, p.Elapsed, runs, runs*testWall)
		}
		if len(rec.taken) != 0 || len(rec.released.runs) != 0 {
			t.Errorf("%s: %d and %d runs after a snapshot", c.name, len(rec.taken), len(rec.released.runs))
		}
	}
	if times.calls != 3*pendingRuns+5 {
		t.Errorf("%d runs were timed", times.calls)
	}
}

// An idle worker takes no run that it would not fold, so the pools of plans beside each
// other never run empty.
func TestIdleBesideLargePlan(t *testing.T) {
	rec := NewRecorder(Options{Events: -1})
	plan := func(id string, steps int) PlanHandle {
		p := Plan{ID: id, Lanes: []string{"l"}}
		for s := range steps {
			p.Steps = append(p.Steps, Step{ID: s, Name: "x"})
		}
		return mustPlan(t, rec, p)
	}
	small, large := plan("small", 1), plan("large", idleSteps+1)
	made := [2]int64{small.fold.made, large.fold.made}
	at, folds := int64(1), 0
	release := func(h PlanHandle) {
		releaseShort(t, h, at, testWall)
		at += testWall
		before := [2]int64{small.fold.runs, large.fold.runs}
		idleFolds(rec)
		if large.fold.runs > before[1] {
			t.Fatal("an idle worker folded a run of a large plan")
		}
		if small.fold.runs > before[0] {
			folds++
		}
	}
	const runs = 4 * pendingRuns
	for _, every := range []int{1, 2, 3, 20} { // every so many runs one of the large plan
		for i := range runs {
			if release(small); i%every == 0 {
				release(large)
			}
		}
	}
	if now := [2]int64{small.fold.made, large.fold.made}; now != made {
		t.Errorf("%d runs were made, %d at the beginning", now, made)
	}
	if folds == 0 {
		t.Error("an idle worker folded nothing")
	}
	if p := rec.Snapshot(); p.Elapsed != at-1 {
		t.Errorf("runs of %d ns, expected %d", p.Elapsed, at-1)
	}
}

// Err knows of a bad run that an idle worker folded.
func TestIdleMeetsBadRun(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, testPlan())
	bad := h.Acquire()
	stampTestRun(bad, 1_000)
	bad.Lanes[0].Steps[1].End = 1_001
	if err := h.Release(bad); err != nil {
		t.Fatal(err)
	}
	const good = 8
	for i := range int64(good) {
		Idle{rec}.Fold()
		r := h.Acquire()
		stampTestRun(r, (1+i)*1_000_000)
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	Idle{rec}.Fold()
	if rec.badRuns != 1 || rec.plans[0].runs != good {
		t.Errorf("%d bad runs, %d good ones, expected one and all that were released", rec.badRuns, rec.plans[0].runs)
	}
	if p := rec.Snapshot(); !errors.Is(rec.Err(), ErrStamp) || p.Ledger.Runs != good || p.BadRuns != 1 {
		t.Errorf("%d runs and %d bad ones, %v", p.Ledger.Runs, p.BadRuns, rec.Err())
	}
}

// What an idle worker has taken and not folded is folded by who needs it, once, with a bad
// run among it.
func TestIdleIsInterrupted(t *testing.T) {
	rec := NewRecorder(Options{Events: -1})
	h := mustPlan(t, rec, testPlan())
	at := int64(1_000)
	release := func(bad bool) {
		r := h.Acquire()
		stampTestRun(r, at)
		if at += testWall; bad {
			r.Lanes[0].Steps[1].End = at - testWall + 1
		}
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		release(i == 1)
	}
	if more := (Idle{rec}).Fold(); !more || len(rec.taken) != 5-idleEach || rec.badRuns != 1 {
		t.Fatalf("more %v, %d runs are left, %d bad ones", more, len(rec.taken), rec.badRuns)
	}
	release(false)
	if p := rec.Snapshot(); p.Ledger.Runs != 5 || p.BadRuns != 1 || p.Ledger.Wall != 5*testWall || len(rec.taken)+len(rec.released.runs) != 0 {
		t.Errorf("%d runs of %d ns, %d bad ones, %d and %d are left", p.Ledger.Runs, p.Ledger.Wall, p.BadRuns, len(rec.taken), len(rec.released.runs))
	}
	if (Idle{rec}).Fold() {
		t.Error("there is more after a snapshot")
	}
}

// Two callers, idle workers and snapshots at the same time: every run is folded once,
// and each snapshot is of the same runs in all its parts.
func TestIdleWhileOthersFold(t *testing.T) {
	const ran, runs = 1_000, 5_000
	rec := NewRecorder(Options{Events: -1})
	var callers, idle sync.WaitGroup
	var next atomic.Int64
	for _, id := range []string{"a", "b"} {
		h := mustPlan(t, rec, Plan{ID: id, Lanes: []string{"l"}, Steps: []Step{{ID: 0, Name: "x"}}})
		callers.Go(func() {
			for range runs {
				releaseShort(t, h, 1+(next.Add(1)-1)*ran, ran)
				runtime.Gosched()
			}
		})
	}
	var stop atomic.Bool
	for range 2 {
		idle.Go(func() {
			for !stop.Load() {
				Idle{rec}.Fold()
				runtime.Gosched()
			}
		})
	}
	idle.Go(func() {
		for !stop.Load() {
			if p := rec.Snapshot(); p.Ledger.Wall != p.Ledger.Runs*ran {
				t.Errorf("%d runs of %d ns", p.Ledger.Runs, p.Ledger.Wall)
				return
			}
			runtime.Gosched()
		}
	})
	callers.Wait()
	stop.Store(true)
	idle.Wait()
	if p := rec.Snapshot(); p.Ledger.Runs != 2*runs || p.Ledger.Wall != 2*runs*ran || p.Elapsed != 2*runs*ran {
		t.Errorf("%d runs of %d ns, %d ns elapsed, expected %d of %d", p.Ledger.Runs, p.Ledger.Wall, p.Elapsed, 2*runs, ran)
	}
}
