package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"hotpath/internal/backend/ref"
	"hotpath/internal/plan"
)

// packing is a backend that says when it packs a weight.
type packing struct {
	*ref.Backend
	at func(n int) // called before weight n, from 1
	n  int
}

func (p *packing) Pack(w plan.Weight, f *plan.Format) (plan.Packed, error) {
	p.n++
	p.at(p.n)
	return p.Backend.Pack(w, f)
}

// The first call of each kind packs the weights, which takes long: it ends
// between two of them, and the next call goes on where it ended.
func TestCancelWhilePacking(t *testing.T) {
	for _, c := range []struct {
		name, model string
		call        func(ctx context.Context, e *Engine) error
	}{
		{"embed", "bert", func(ctx context.Context, e *Engine) error {
			return e.EmbedIDs(ctx, [][]int32{{1, 2}}, make([]float32, e.cfg.EmbedDim), e.pooling())
		}},
		{"score", "llama", func(ctx context.Context, e *Engine) error {
			_, err := e.ScoreIDs(ctx, [][]int32{{1, 2}})
			return err
		}},
		{"generate", "llama", func(ctx context.Context, e *Engine) error {
			s, err := e.Generate(ctx, Request{Prompt: []int32{1}, MaxTokens: 1})
			if err != nil {
				return err
			}
			s.Next()
			s.Next()
			return s.Err()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			const cancelAt = 3
			be := &packing{Backend: ref.New(), at: func(n int) {
				if n == cancelAt {
					cancel()
				}
			}}
			e := open(t, c.model, be, Options{})
			if err := c.call(ctx, e); !errors.Is(err, context.Canceled) {
				t.Fatalf("the call ended with %v", err)
			}
			if be.n != cancelAt {
				t.Errorf("%d weights were packed after the context had ended", be.n-cancelAt)
			}
			if err := c.call(t.Context(), e); err != nil {
				t.Fatalf("the next call: %v", err)
			}
			all := be.n
			if err := c.call(t.Context(), e); err != nil || be.n != all {
				t.Errorf("a later call packed %d weights again (%v)", be.n-all, err)
			}
		})
	}
}

// Who waits while another call packs leaves when its context ends.
func TestCancelWhileAnotherPacks(t *testing.T) {
	entered, pass := make(chan struct{}), make(chan struct{})
	var once sync.Once
	be := &packing{Backend: ref.New(), at: func(int) {
		once.Do(func() {
			close(entered)
			<-pass
		})
	}}
	e := open(t, "bert", be, Options{})
	first := embedAsync(e, t.Context(), []int32{1, 2}, make([]float32, e.cfg.EmbedDim))
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	second := embedAsync(e, ctx, []int32{1, 2}, make([]float32, e.cfg.EmbedDim))
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("who waits ended with %v", err)
	}
	close(pass)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// Close ends a call in the middle of a coarse round, after the runs under way.
func TestCloseEndsACoarseRound(t *testing.T) {
	g := newGate()
	g.Backend = coarseRef{ref.New()}
	e := open(t, "bert", g, Options{Parallel: Coarse, Workers: 1, MaxBatchTokens: 8, MaxSeqs: 1})
	const texts = 5
	done := make(chan error, 1)
	go func() {
		done <- e.EmbedIDs(context.Background(), slices.Repeat([][]int32{{1, 2}}, texts), make([]float32, texts*e.cfg.EmbedDim), e.pooling())
	}()
	<-g.enter // the first of five runs
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	for !e.closing.Load() {
		runtime.Gosched()
	}
	for range texts {
		g.pass <- ""
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("the call ended with %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if n := e.Stats().CoarseRuns; n != 1 {
		t.Errorf("%d runs, %d of them begun after Close", n, n-1)
	}
}

// A round that failed says nothing about how fast its workers are.
func TestFailedRoundsAreNotMeasured(t *testing.T) {
	g := newGate()
	g.Backend = coarseRef{ref.New()}
	e := open(t, "bert", g, Options{Parallel: Coarse, Workers: 2})
	m, err := e.embedder(t.Context(), e.pooling())
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"device lost", ""} {
		g.pass <- what
		g.pass <- what
		before := *m.limits.Of(4)
		m.mu.Lock()
		m.push(&call{ctx: t.Context(), seqs: [][]int32{{1, 2}, {3, 4}}, order: []int32{0, 1}, dst: make([]float32, 2*e.cfg.EmbedDim), load: load{seqs: 2}, leading: true})
		m.coarseRound(m.load())
		m.mu.Unlock()
		for len(g.enter) > 0 {
			<-g.enter
		}
		for len(g.pass) > 0 {
			<-g.pass
		}
		if measured := *m.limits.Of(4) != before; measured != (what == "") {
			t.Errorf("a round that ended with %q was measured: %v", what, measured)
		}
	}
}
