package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/plan"
	"hotpath/internal/testmodels"
)

// hooked is a backend whose runs ask a function how they end.
type hooked struct {
	plan.Backend
	at atomic.Pointer[func() error]
}

type hookedExec struct {
	plan.Exec
	h *hooked
}

func (h *hooked) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	x, err := h.Backend.Bind(p, m, o)
	return hookedExec{x, h}, err
}

func (x hookedExec) Wait() error {
	err := x.Exec.Wait()
	if at := x.h.at.Load(); at != nil {
		err = errors.Join(err, (*at)())
	}
	return err
}

// shared opens an engine that shares texts out, and makes many texts with what
// they give.
func shared(t *testing.T) (e *Engine, h *hooked, seqs [][]int32, want []float32) {
	be, err := cpu.New(cpu.Options{Workers: 2, Precision: cpu.F32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	name := testmodels.Directories(testmodels.Encoders(t))[0]
	h = &hooked{Backend: be}
	costs := quiet(2)
	costs.FLOP, costs.Packed, costs.Fork, costs.Fine = 1e-8, 0, 0, 0.5
	e = open(t, name, h, Options{Costs: &costs})
	for i, n := range repeated(150, 20, 60, 40) {
		ids := make([]int32, n)
		for k := range ids {
			ids[k] = int32((11 + 17*i + 5*k) % e.cfg.Vocab)
		}
		seqs = append(seqs, ids)
	}
	want = make([]float32, len(seqs)*e.cfg.EmbedDim)
	if err := e.EmbedIDs(t.Context(), seqs, want, e.pooling()); err != nil {
		t.Fatal(err)
	}
	return e, h, seqs, want
}

// TestCallEndsInTheMiddle: a call whose runs fail, or whose context ends, in any
// run of a coarse round says so, is not measured, and costs the next nothing.
func TestCallEndsInTheMiddle(t *testing.T) {
	e, h, seqs, want := shared(t)
	m, tokens := e.embedders[e.pooling()], 0
	for _, ids := range seqs {
		tokens += len(ids)
	}
	lost := errors.New("device lost")
	embed := func(ctx context.Context) ([]float32, error) {
		got := make([]float32, len(want))
		return got, e.EmbedIDs(ctx, seqs, got, e.pooling())
	}
	for _, cancelled := range []bool{false, true} {
		for after := range int64(9) {
			before, runsBefore := *m.limits.Of(tokens), e.Stats().CoarseRuns
			ctx, cancel := context.WithCancel(t.Context())
			var runs atomic.Int64
			at := func() error {
				if runs.Add(1) <= after {
					return nil
				}
				if cancelled {
					cancel()
					return context.Cause(ctx)
				}
				return lost
			}
			h.at.Store(&at)
			_, err := embed(ctx)
			h.at.Store(nil)
			cancel()
			if expect := map[bool]error{false: lost, true: context.Canceled}[cancelled]; !errors.Is(err, expect) {
				t.Errorf("ended after %d runs: %v, expected %v", after, err, expect)
			}
			if measured := *m.limits.Of(tokens) != before; measured || e.Stats().CoarseRuns == runsBefore {
				t.Errorf("ended after %d runs: measured %t, %d coarse runs", after, measured, e.Stats().CoarseRuns-runsBefore)
			}
			if got, err := embed(t.Context()); err != nil || !slices.Equal(got, want) {
				t.Fatalf("the call after one that ended after %d runs: %v, or other vectors", after, err)
			}
			if *m.limits.Of(tokens) == before {
				t.Error("a call that ended well was not measured")
			}
		}
	}
}

// TestCallsEndAtOnce: calls of all sizes at the same time, some of which are
// cancelled or fail: each gets its own vectors or its own error.
func TestCallsEndAtOnce(t *testing.T) {
	e, h, seqs, want := shared(t)
	w := e.cfg.EmbedDim
	lost := errors.New("device lost")
	var runs atomic.Int64
	at := func() error {
		if runs.Add(1)%37 == 0 {
			return lost
		}
		return nil
	}
	h.at.Store(&at)
	var wg sync.WaitGroup
	var ended [3]atomic.Int64
	for g := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for call := range 12 {
				ctx, cancel := context.WithCancel(t.Context())
				from := r.IntN(len(seqs))
				n := 1 + r.IntN(len(seqs)-from)
				if call%4 == 0 {
					from, n = 0, len(seqs)
				}
				leave, later := r.IntN(3) == 0, int64(r.IntN(4))
				if leave {
					go func() {
						for k := runs.Load() + later; runs.Load() < k; {
							select {
							case <-ctx.Done():
								return
							default:
							}
						}
						cancel()
					}()
				}
				got := make([]float32, n*w)
				switch err := e.EmbedIDs(ctx, seqs[from:from+n], got, e.pooling()); {
				case err == nil:
					ended[0].Add(1)
					if !slices.Equal(got, want[from*w:(from+n)*w]) {
						t.Errorf("call %d of %d: other vectors", call, g)
					}
				case errors.Is(err, lost):
					ended[1].Add(1)
				case leave && errors.Is(err, context.Canceled):
					ended[2].Add(1)
				default:
					t.Error(fmt.Errorf("call %d of %d: %w", call, g, err))
				}
				cancel()
			}
		}()
	}
	wg.Wait()
	t.Logf("%d calls ended well, %d with errors and %d cancelled; %+v", ended[0].Load(), ended[1].Load(), ended[2].Load(), e.Stats())
	if ended[0].Load() == 0 {
		t.Error("no call ended well: nothing was compared")
	}
}
