package profile

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// Runs are folded when there are many of them, or when they took long together.
// Samples of ceilings are paced by all of them, folded or not.
func TestWhenRunsAreFolded(t *testing.T) {
	for _, c := range []struct {
		name string
		ran  int64
		runs int // until they are folded
	}{{"short", 1_000, pendingRuns}, {"long", 3 * pendingTime / 4, 3}} {
		rec := NewRecorder(Options{})
		handles := []PlanHandle{
			mustPlan(t, rec, Plan{ID: "a", Lanes: []string{"l"}, Steps: []Step{{ID: 0, Name: "x"}}}),
			mustPlan(t, rec, Plan{ID: "b", Lanes: []string{"l"}, Steps: []Step{{ID: 0, Name: "x"}}}),
		}
		rec.TakeProbe(1) // the first is due at once
		rec.Probed(Probe{Class: "f32"}, 1e9, Now(), Now())
		const left = 1 << 40
		rec.released.left = left
		at := int64(1)
		for i := range c.runs {
			if n := len(rec.released.runs); n != i {
				t.Fatalf("%s: %d of %d runs wait", c.name, n, i)
			}
			h := handles[i%2]
			r := h.Acquire()
			l := &r.Lanes[0]
			r.Start, l.Wake, l.Steps[0].Arrive, l.Steps[0].Begin = at, at, at, at
			at += c.ran
			l.Steps[0].End, l.Done, r.End = at, at, at
			if err := h.Release(r); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(rec.released.runs); n != 0 {
			t.Errorf("%s: %d runs wait after %d", c.name, n, c.runs)
		}
		if got, want := left-rec.released.left, int64(c.runs)*c.ran; got != want {
			t.Errorf("%s: samples are paced by %d ns of runs, expected %d", c.name, got, want)
		}
		p := rec.Snapshot()
		if a, b := p.Plans[0].Ledger.Runs, p.Plans[1].Ledger.Runs; a+b != int64(c.runs) || a-b > 1 || a < b || p.Elapsed != int64(c.runs)*c.ran {
			t.Errorf("%s: %d and %d runs in %d ns, expected %d in %d", c.name, a, b, p.Elapsed, c.runs, int64(c.runs)*c.ran)
		}
	}
}

// A snapshot is of the same runs in all its parts, also while runs are folded: runs
// that follow one another take as long together as the time in which any was in flight.
func TestSnapshotWhileRunsAreFolded(t *testing.T) {
	const ran = 1_000
	rec := NewRecorder(Options{Events: -1})
	h := mustPlan(t, rec, Plan{ID: "a", Lanes: []string{"l"}, Steps: []Step{{ID: 0, Name: "x"}}})
	var stop atomic.Bool
	done := make(chan error)
	go func() {
		at := int64(1)
		for !stop.Load() {
			r := h.Acquire()
			l := &r.Lanes[0]
			r.Start, l.Wake, l.Steps[0].Arrive, l.Steps[0].Begin = at, at, at, at
			at += ran
			l.Steps[0].End, l.Done, r.End = at, at, at
			r.Shares = append(r.Shares, Share{Request: "q", Tokens: 1})
			if err := h.Release(r); err != nil {
				done <- err
				return
			}
			runtime.Gosched() // on one processor, snapshots would wait 10 ms at each point
		}
		done <- nil
	}()
	for range 200 {
		p := rec.Snapshot()
		if s := &p.Plans[0]; p.Elapsed != p.Ledger.Wall || p.Elapsed != s.Ledger.Runs*ran {
			t.Errorf("%d runs of %d ns in %d ns", s.Ledger.Runs, p.Ledger.Wall, p.Elapsed)
			break
		}
	}
	stop.Store(true)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
