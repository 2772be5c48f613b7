package cuda

import (
	"errors"
	"reflect"
	"sync"
	"testing"

	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

var fewTokens = tensor.Bind{T: 3, S: 1, R: 1}

// recorded is the runs that a snapshot has, which must have times of the card for each of
// them. Kept runs are in the order in which they ended.
func recorded(t *testing.T, rec *profile.Recorder) int {
	t.Helper()
	p, runs := rec.Snapshot(), 0
	for i := range p.Plans {
		s := &p.Plans[i]
		runs += int(s.Ledger.Runs)
		for k, step := range s.Steps {
			if got := s.Stats[k]; s.Ledger.Runs > 0 && !step.Host && (got.Calls != s.Ledger.Runs || got.Self <= 0) {
				t.Errorf("step %s has %d calls of %d ns by the card's clock in %d runs", step.Name, got.Calls, got.Self, s.Ledger.Runs)
			}
		}
	}
	for i := 1; i < len(p.Runs); i++ {
		if a, b := &p.Runs[i-1], &p.Runs[i]; a.Plan == b.Plan && (a.Index >= b.Index || a.End > b.End) {
			t.Errorf("run %d ended at %d, run %d at %d", a.Index, a.End, b.Index, b.End)
		}
	}
	if p.BadRuns != 0 {
		t.Errorf("%d bad runs: %v", p.BadRuns, p.Warnings)
	}
	return runs
}

// A snapshot has every run that returned before it, though times are computed later: after
// one run, between others, when a run failed, and when the session is closed.
func TestSnapshotsHaveAllRuns(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	want := 0
	run := func(sl *plan.Slot) {
		t.Helper()
		if err := sl.Wait(); err != nil {
			t.Fatal(err)
		}
		want++
	}
	start := func(sl *plan.Slot) {
		t.Helper()
		if err := sl.Enqueue(t.Context(), fewTokens); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		if got := recorded(t, rec); got != want {
			t.Errorf("%s: %d runs, expected %d", when, got, want)
		}
	}
	a, b := s.Slot(0), s.Slot(1)
	start(a)
	check("before the first run returned")
	run(a)
	check("after one run")
	for range 40 {
		start(a)
		run(a)
	}
	check("after many runs")
	for range 5 { // two in flight
		start(a)
		start(b)
		run(a)
		start(a)
		check("while two runs are in flight")
		run(b)
		run(a)
	}
	start(a)
	run(a)
	f.failSync = errors.New("the card is gone")
	start(a)
	if err := a.Wait(); err == nil {
		t.Error("a run of a card that is gone returned no error")
	}
	check("after a run that failed")
	start(a)
	run(a)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check("after the session was closed")
}

// Snapshots may be taken while runs go on.
func TestSnapshotsBesideRuns(t *testing.T) {
	be, s, err := session(t, newFake())
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	defer s.Close()
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	const runs = 300
	var wg sync.WaitGroup
	wg.Go(func() {
		for seen := 0; seen < runs && !t.Failed(); {
			now := recorded(t, rec)
			if now < seen {
				t.Errorf("%d runs after %d", now, seen)
			}
			seen = now
		}
	})
	for range runs {
		if err := s.Run(t.Context(), fewTokens); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

// The times of a run are computed while the card is at work on the next one.
func TestRunsAreFoldedBehindTheNextLaunch(t *testing.T) {
	be, s, err := session(t, newFake())
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	defer s.Close()
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	folded := func() bool { return reflect.ValueOf(&be.clock).Elem().FieldByName("at").Int() != 0 }
	sl := s.Slot(0)
	if err := sl.Run(t.Context(), fewTokens); err != nil || folded() {
		t.Errorf("the first run was folded before it returned: %t, %v", folded(), err)
	}
	if err := sl.Enqueue(t.Context(), fewTokens); err != nil || !folded() {
		t.Errorf("the first run was folded behind the next launch: %t, %v", folded(), err)
	}
	if err := sl.Wait(); err != nil {
		t.Fatal(err)
	}
}
