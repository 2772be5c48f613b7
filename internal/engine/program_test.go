package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"hotpath/internal/backend/null"
	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
)

// slowBind is a backend that stops while it binds one program, until it may go
// on.
type slowBind struct {
	plan.Backend
	program string
	entered chan struct{} // it has begun
	pass    chan struct{} // closed: it goes on

	mu    sync.Mutex
	binds map[string]int // by program
}

func newSlowBind(be plan.Backend, program string) *slowBind {
	return &slowBind{Backend: be, program: program, entered: make(chan struct{}, 16), pass: make(chan struct{}), binds: map[string]int{}}
}

func (b *slowBind) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	b.mu.Lock()
	b.binds[o.Program]++
	b.mu.Unlock()
	if o.Program == b.program {
		b.entered <- struct{}{}
		<-b.pass
	}
	return b.Backend.Bind(p, m, o)
}

func scoreOne(ctx context.Context, e *Engine) error {
	_, err := e.ScoreIDs(ctx, [][]int32{{1, 2, 3}})
	return err
}

func generateOne(ctx context.Context, e *Engine) error {
	s, err := e.Generate(ctx, Request{Prompt: []int32{1}, MaxTokens: 1})
	if err != nil {
		return err
	}
	for _, ok := s.Next(); ok; _, ok = s.Next() {
	}
	return s.Err()
}

func embedOne(ctx context.Context, e *Engine) error {
	return e.EmbedIDs(ctx, [][]int32{{1, 2}}, make([]float32, e.cfg.EmbedDim), e.pooling())
}

// While one program is compiled, calls of programs that are compiled go through,
// and so do those that compile another one. The engine would wait for ever here
// if they needed what the first holds.
func TestCallsPassWhileAProgramCompiles(t *testing.T) {
	for _, c := range []struct {
		program   string
		slow      func(context.Context, *Engine) error
		warm, new func(context.Context, *Engine) error
	}{
		{"generate", generateOne, scoreOne, embedOne},
		{"score", scoreOne, embedOne, generateOne},
		{"embed", embedOne, generateOne, scoreOne},
	} {
		t.Run(c.program, func(t *testing.T) {
			be := newSlowBind(null.New(50*time.Microsecond), c.program)
			e := open(t, "llama", be, Options{})
			if err := c.warm(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			slow := make(chan error, 2)
			go func() { slow <- c.slow(t.Context(), e) }()
			<-be.entered
			if err := errors.Join(c.warm(t.Context(), e), c.new(t.Context(), e)); err != nil {
				t.Error(err)
			}
			if e.WeightBytes() == 0 || e.Stats() == (Stats{}) {
				t.Error("no weights and no runs were counted")
			}
			e.Pause(true)
			e.Pause(false)
			// Whoever wants the same program waits, as long as its context lasts.
			ctx, cancel := context.WithCancel(t.Context())
			waits := make(chan error, 1)
			go func() { waits <- c.slow(ctx, e) }()
			cancel()
			if err := <-waits; !errors.Is(err, context.Canceled) {
				t.Errorf("who waits for the program ended with %v", err)
			}
			go func() { slow <- c.slow(t.Context(), e) }()
			close(be.pass)
			for range cap(slow) {
				if err := <-slow; err != nil {
					t.Error(err)
				}
			}
			for _, r := range e.runners {
				if p := r.sess.Program(); be.binds[p.Name] != len(p.Plans)*r.sess.Slots() {
					t.Errorf("%s: %d buckets were bound, expected %d: a program is compiled once", p.Name, be.binds[p.Name], len(p.Plans)*r.sess.Slots())
				}
			}
		})
	}
}

// While one weight is packed for a program, another program whose weights are
// packed is compiled and run.
func TestCallsPassWhileAWeightIsPacked(t *testing.T) {
	entered, pass := make(chan struct{}, 16), make(chan struct{})
	slow := false
	be := &packing{Backend: ref.New(), at: func(int) {
		if slow {
			entered <- struct{}{}
			<-pass
		}
	}}
	e := open(t, "llama", be, Options{})
	if err := embedOne(t.Context(), e); err != nil { // packs all but the head
		t.Fatal(err)
	}
	slow = true
	done := make(chan error, 1)
	go func() { done <- generateOne(t.Context(), e) }()
	<-entered
	other := e.pooling()
	other.Pooling = graph.PoolCLS
	for _, o := range []bool{true, false} {
		other.Normalize = o
		if err := e.EmbedIDs(t.Context(), [][]int32{{1, 2}}, make([]float32, e.cfg.EmbedDim), other); err != nil {
			t.Error(err)
		}
	}
	if e.WeightBytes() == 0 {
		t.Error("no weights")
	}
	// Who needs the weight that is being packed leaves when its context ends.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := scoreOne(ctx, e); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits for the weight ended with %v", err)
	}
	close(pass)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Close ends a compilation between two weights.
func TestCloseEndsACompilation(t *testing.T) {
	entered, pass := make(chan struct{}), make(chan struct{})
	var once sync.Once
	be := &packing{Backend: ref.New(), at: func(int) {
		once.Do(func() {
			close(entered)
			<-pass
		})
	}}
	e := open(t, "bert", be, Options{})
	done, closed := make(chan error, 2), make(chan error, 1)
	for range cap(done) { // one compiles, the other waits for it
		go func() { done <- embedOne(context.Background(), e) }()
	}
	<-entered
	go func() { closed <- e.Close() }()
	for !e.closing.Load() {
		runtime.Gosched()
	}
	e.running() // waits for what Close does at once
	close(pass)
	for range cap(done) {
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("the call ended with %v", err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if be.n > 1 {
		t.Errorf("%d weights were packed after Close", be.n-1)
	}
}

// A compilation that panics is tried again by the next call.
func TestPanicWhileCompiling(t *testing.T) {
	be := &packing{Backend: ref.New(), at: func(n int) {
		if n == 2 {
			panic("out of paper")
		}
	}}
	e := open(t, "bert", be, Options{})
	if err := embedOne(t.Context(), e); !errors.Is(err, ErrInternal) {
		t.Fatalf("the call ended with %v", err)
	}
	if err := embedOne(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}
