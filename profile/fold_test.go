package profile

import (
	"errors"
	"testing"
)

// laterTimes stamps a run when it is folded.
type laterTimes struct{ calls int }

func (l *laterTimes) Times(r *Run) {
	l.calls++
	stampTestRun(r, r.Stamps[0])
}

// Fold asks for the times of runs that were released, reports the bad ones of its plan,
// and takes nothing of the recorder's own time.
func TestFold(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, testPlan())
	times := new(laterTimes)
	release := func(start int64) {
		r := h.Acquire()
		stampTestRun(r, start)
		for i := range r.Lanes {
			clear(r.Lanes[i].Begin)
		}
		r.Timing, r.Stamps = times, append(r.Stamps[:0], start)
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	release(1_000)
	release(1_000_000)
	if times.calls != 0 {
		t.Errorf("%d runs were timed when they were released", times.calls)
	}
	rec.folding.Lock()
	if err := h.Fold(); err != nil || times.calls != 0 {
		t.Errorf("%d runs folded while somebody else does, %v", times.calls, err)
	}
	rec.folding.Unlock()
	if err := h.Fold(); err != nil || times.calls != 2 || rec.folded != 0 {
		t.Errorf("%d runs in %d ns, %v", times.calls, rec.folded, err)
	}
	if err := h.Fold(); err != nil || times.calls != 2 {
		t.Errorf("%d runs, %v: a run was folded twice", times.calls, err)
	}
	bad := h.Acquire()
	stampTestRun(bad, 2_000_000)
	bad.End = 1
	if err := errors.Join(h.Release(bad), h.Fold()); !errors.Is(err, ErrStamp) || !errors.Is(rec.Err(), ErrStamp) {
		t.Errorf("%v and %v, expected the bad run in both", err, rec.Err())
	}
	release(3_000_000)
	gone := h.Acquire()
	gone.Timing = times
	h.Discard(gone)
	if l := rec.Snapshot().Ledger; l.Runs != 3 || times.calls != 3 || l.LaneTime != 3*2*testWall {
		t.Errorf("%d runs of %d lane ns, %d timed", l.Runs, l.LaneTime, times.calls)
	}
	if err := (PlanHandle{}).Fold(); err != nil {
		t.Error(err)
	}
}
