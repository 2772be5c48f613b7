package cpu

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// TestTeamRunsEveryItem: the items of a common list are each run once, nobody is
// inside after it, and no worker has two calls at a time, also when there are
// more workers than cores, and from many callers at a time.
func TestTeamRunsEveryItem(t *testing.T) {
	for _, n := range []int{1, 2, 3, 16, MaxWorkers} {
		tm := newTeam()
		tm.acquire(n)
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				var next, inside atomic.Int32
				counts, calls := make([]atomic.Int32, 3*n), make([]atomic.Int32, n)
				job := func(i int) {
					inside.Add(1)
					calls[i].Add(1)
					for at := next.Add(1) - 1; int(at) < len(counts); at = next.Add(1) - 1 {
						counts[at].Add(1)
					}
					inside.Add(-1)
				}
				for run := range 50 {
					next.Store(0)
					if err := tm.join(t.Context(), n, job); err != nil || inside.Load() != 0 {
						t.Errorf("%v, and %d workers are inside", err, inside.Load())
					}
					for i := range counts {
						if c := counts[i].Load(); int(c) != run+1 {
							t.Errorf("item %d was run %d times, expected %d", i, c, run+1)
						}
					}
				}
				for i := range calls {
					if c := calls[i].Load(); c > 50 || i == 0 && c != 50 {
						t.Errorf("worker %d of %d was called %d times in 50 runs", i, n, c)
					}
				}
			})
		}
		callers.Wait()
		tm.release()
	}
}

// TestAllWorkersCome: a job that waits for all of its workers gets them.
func TestAllWorkersCome(t *testing.T) {
	const n = 5
	tm := newTeam()
	tm.acquire(n)
	defer tm.release()
	for range 50 {
		var came atomic.Int32
		err := tm.join(t.Context(), n, func(int) {
			for came.Add(1); came.Load() < n; {
				runtime.Gosched()
			}
		})
		if err != nil || came.Load() != n {
			t.Fatalf("%v, %d of %d workers", err, came.Load(), n)
		}
	}
}

// TestLateMember holds the last member of a run up after it has counted
// itself out: its wake-up then meets a later run, which must not take it for
// its own.
func TestLateMember(t *testing.T) {
	const n = 4
	tm := newTeam()
	tm.counted = func() { time.Sleep(300 * time.Microsecond) }
	tm.acquire(n)
	defer tm.release()
	for run := range 60 {
		var done atomic.Int32
		workers := 2 + run%(n-1)
		var began atomic.Int32
		err := tm.join(t.Context(), workers, func(int) {
			began.Add(1)
			time.Sleep(100 * time.Microsecond)
			done.Add(1)
		})
		if got := done.Load(); got != began.Load() || err != nil {
			t.Fatalf("run %d returned %v with %d of %d workers done", run, err, got, began.Load())
		}
	}
}

// TestTeamGoesHome: after the last release no goroutine is left.
func TestTeamGoesHome(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		b, err := New(Options{Workers: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.team.join(t.Context(), 4, func(int) {}); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// TestIdleTeamParks: soon after a run every member is parked, so an idle
// process does not spin.
func TestIdleTeamParks(t *testing.T) {
	tm := newTeam()
	tm.acquire(3)
	defer tm.release()
	if err := tm.join(t.Context(), 3, func(int) {}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for _, m := range tm.members {
		for !m.parked.Load() {
			if time.Now().After(deadline) {
				t.Fatalf("worker %d still spins", m.index)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

type noWeights struct{}

func (noWeights) Weight(string) (weights.Tensor, error) {
	return weights.Tensor{}, errors.New("no weights")
}
func (noWeights) Drop(weights.Tensor) {}

const chainWidth, chainSteps = 192, 12

// chain is a session over steps that all need a barrier.
func chain(t *testing.T, be plan.Backend) (*plan.Session, *graph.Value, tensor.Bind) {
	t.Helper()
	bind := tensor.Bind{T: 512, S: 1, R: 1}
	b := graph.NewBuilder(bind)
	x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), chainWidth))
	w := b.Input("w", tensor.F32, tensor.Static(chainWidth, chainWidth))
	y := x
	for range chainSteps {
		y = b.Linear("l", y, w, nil)
	}
	g, err := b.Freeze(y)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile("chain", g, be, []tensor.Bind{bind}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, noWeights{}), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s, y, bind
}

// TestCancelStopsAtAStep cancels runs at every moment: either the run is
// complete or it returns the cause, and the next run is right again.
func TestCancelStopsAtAStep(t *testing.T) {
	be, err := New(Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	s, _, bind := chain(t, be)
	defer s.Close()
	cause := errors.New("enough")
	stopped := 0
	for i := range 40 {
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() {
			time.Sleep(time.Duration(i) * 20 * time.Microsecond)
			cancel(cause)
		}()
		err := s.Run(ctx, bind)
		if err != nil && !errors.Is(err, cause) {
			t.Fatalf("run %d: %v", i, err)
		}
		if err != nil {
			stopped++
		}
		cancel(nil)
		if err := s.Run(context.Background(), bind); err != nil {
			t.Fatal(err)
		}
	}
	if stopped == 0 {
		t.Error("no run was stopped")
	}
}

// TestPanicBecomesError: a failing kernel ends the run with an error on every
// worker, and the team survives.
func TestPanicBecomesError(t *testing.T) {
	be, err := New(Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	b := graph.NewBuilder(tensor.Bind{T: 4, S: 1, R: 1})
	x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), 8))
	rows := b.Input("rows", tensor.I32, tensor.Rows(tensor.Of(tensor.R, 1)))
	g, err := b.Freeze(b.Gather("g", x, rows))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile("bad", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, noWeights{}), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.I32(rows)[0] = 1 << 30 // a row that the engine would have refused
	if err := s.Run(context.Background(), g.Max); err == nil || !strings.Contains(err.Error(), "failed") {
		t.Errorf("got %v", err)
	}
	s.I32(rows)[0] = 1
	if err := s.Run(context.Background(), g.Max); err != nil {
		t.Errorf("after the failure: %v", err)
	}
}

// TestLedgerCloses asserts that what the workers stamp adds up. A processor
// taken away between two stamps shows as residual, so on a busy machine the
// best quarter of the runs counts: a stamp that is missing shows in all.
func TestLedgerCloses(t *testing.T) {
	if testing.Short() {
		t.Skip("short runs are those of the race detector, whose own work lies between the stamps")
	}
	for _, workers := range []int{1, 2} {
		be, err := New(Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		s, _, bind := chain(t, be)
		var residuals []float64
		for range 80 {
			rec := profile.NewRecorder(profile.Options{})
			if err := s.Attach(rec, plan.ProfileLabels{Model: "chain"}); err != nil {
				t.Fatal(err)
			}
			if err := s.Run(context.Background(), bind); err != nil {
				t.Fatal(err)
			}
			p := rec.Snapshot().Plans[0]
			residuals = append(residuals, math.Abs(p.Ledger.ResidualPercent()))
			var flops int64
			for _, st := range p.Stats {
				flops += st.FLOPs
			}
			if want := int64(2 * 512 * chainWidth * chainWidth * chainSteps); flops != want || p.Ledger.Runs != 1 || p.Ledger.Compute <= 0 {
				t.Errorf("%d FLOPs, expected %d; ledger %+v", flops, want, p.Ledger)
			}
			if workers == 1 && p.Ledger.Barrier != 0 {
				t.Errorf("one worker waited %d ns for nobody", p.Ledger.Barrier)
			}
		}
		slices.Sort(residuals)
		if r := residuals[len(residuals)/4]; r > 2 {
			t.Errorf("%d workers: residual is %.2f%% of lane time in the best quarter of the runs", workers, r)
		}
		s.Close()
		be.Close()
	}
}
