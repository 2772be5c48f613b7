package engine

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"hotpath/internal/backend/ref"
	"hotpath/internal/plan"
	"hotpath/internal/sample"
)

// Whatever number comes from outside, a call ends, and Close does.
func TestExtremeNumbers(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		name string
		req  Request
		err  error // nil: it generates
	}{
		{"most tokens", Request{Prompt: []int32{1, 2}, MaxTokens: math.MaxInt}, nil},
		{"nearly most tokens", Request{Prompt: []int32{1, 2}, MaxTokens: math.MaxInt - 2}, nil},
		{"fewest tokens", Request{Prompt: []int32{1, 2}, MaxTokens: math.MinInt}, ErrInput},
		{"most top-k", Request{Prompt: []int32{1}, MaxTokens: 2, Sample: sample.Params{Temperature: 1, TopK: math.MaxInt, Seed: math.MaxUint64}}, nil},
		{"fewest top-k", Request{Prompt: []int32{1}, MaxTokens: 2, Sample: sample.Params{Temperature: 1, TopK: math.MinInt}}, ErrInput},
		{"infinite temperature", Request{Prompt: []int32{1}, MaxTokens: 2, Sample: sample.Params{Temperature: inf}}, ErrInput},
		{"least temperature", Request{Prompt: []int32{1}, MaxTokens: 2, Sample: sample.Params{Temperature: math.SmallestNonzeroFloat32}}, nil},
		{"most temperature", Request{Prompt: []int32{1}, MaxTokens: 2, Sample: sample.Params{Temperature: math.MaxFloat32}}, nil},
		{"top-p that is no number", Request{Prompt: []int32{1}, Sample: sample.Params{TopP: float32(math.NaN())}}, ErrInput},
		{"token below", Request{Prompt: []int32{math.MinInt32}}, ErrInput},
		{"token above", Request{Prompt: []int32{math.MaxInt32}}, ErrInput},
		{"nothing", Request{}, ErrInput},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := open(t, "llama", ref.New(), Options{Ctx: 8}) // whose Close the test waits for
			s, err := e.Generate(t.Context(), c.req)
			if err == nil {
				for _, ok := s.Next(); ok; _, ok = s.Next() {
				}
				err = s.Err()
			}
			if !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Errorf("%v, expected %v", err, c.err)
			}
		})
	}
	for _, o := range []Options{
		{Ctx: math.MaxInt}, {Ctx: math.MinInt}, {Ctx: 1}, {MaxBatchTokens: math.MinInt}, {MaxSeqs: -1}, {KVBlocks: math.MinInt}, {KVBlocks: 1, Ctx: 100}, {Workers: -1}, {CloseTimeout: -1},
	} {
		if _, err := o.withDefaults(open(t, "llama", ref.New(), Options{}).cfg, plan.RunSizes{}); !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v, expected ErrInput", o, err)
		}
	}
}

// Close gives up on a run that does not end, says which, and frees nothing.
// When the run has ended, the next Close frees all.
func TestCloseHasABound(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Engine) error{"embed": embedOne, "generate": generateOne, "score": scoreOne} {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			e := open(t, "llama", g, Options{CloseTimeout: time.Millisecond, Parallel: Fine})
			done := make(chan error, 1)
			go func() { done <- call(context.Background(), e) }()
			<-g.enter
			var group sync.WaitGroup
			for range 3 {
				group.Go(func() {
					if err := e.Close(); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), name+" (1)") {
						t.Errorf("Close while a run is in flight: %v", err)
					}
				})
			}
			group.Wait()
			if err := call(t.Context(), e); !errors.Is(err, ErrClosed) {
				t.Errorf("a call after Close: %v", err)
			}
			if e.runners[0].workers[0].Tokens == nil || e.runners[0].sess.Program() == nil {
				t.Error("the session is gone")
			}
			g.pass <- ""
			if err := <-done; err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("the call: %v", err)
			}
			<-e.idle
			for range 2 {
				if err := e.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
		})
	}
}

// coarsePanics is a backend whose workers do not start.
type coarsePanics struct {
	coarseRef
	left *int // so often
}

func (b coarsePanics) Caps() plan.Caps {
	c := b.coarseRef.Caps()
	run := c.Coarse
	c.Coarse = func(ctx context.Context, n int, f func(int)) error {
		if *b.left > 0 {
			*b.left--
			panic("no workers")
		}
		return run(ctx, n, f)
	}
	return c
}

// A panic in the engine's own code is an error of the calls that it met, and the
// next ones are served.
func TestPanicWhileEmbedding(t *testing.T) {
	once := 1
	for name, be := range map[string]plan.Backend{"coarse": coarsePanics{coarseRef{ref.New()}, &once}, "fine": ref.New(), "workers": coarseRef{ref.New()}} {
		t.Run(name, func(t *testing.T) {
			o := Options{Parallel: Coarse, MaxSeqs: 1}
			if name == "fine" {
				o.Parallel = Fine
			}
			e := open(t, "bert", be, o)
			m, err := e.embedder(t.Context(), e.pooling())
			if err != nil {
				t.Fatal(err)
			}
			seqs := [][]int32{{1, 2}, {3, 4}, {5, 6}}
			dst := make([]float32, len(seqs)*e.cfg.EmbedDim)
			if name != "coarse" {
				dst = nil // which nobody looks at below EmbedIDs
			}
			if err := m.embed(t.Context(), seqs, nil, dst, load{seqs: 3, tokens: 6, longest: 2}); !errors.Is(err, ErrInternal) {
				t.Fatalf("the call ended with %v", err)
			}
			if m.led || m.head != nil || len(m.slots[0].parts) > 0 {
				t.Error("the call left something behind")
			}
			if err := e.EmbedIDs(t.Context(), seqs, make([]float32, len(seqs)*e.cfg.EmbedDim), e.pooling()); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

func TestPanicInTheStepLoop(t *testing.T) {
	g := newGate()
	e := open(t, "llama", g, Options{})
	bad, err := e.Generate(t.Context(), Request{Prompt: []int32{1}, End: func(int32) bool { panic("no end") }})
	if err != nil {
		t.Fatal(err)
	}
	<-g.enter
	beside, err := e.Generate(t.Context(), Request{Prompt: []int32{2}})
	if err != nil {
		t.Fatal(err)
	}
	g.pass <- ""
	for _, s := range []*Stream{bad, beside} {
		for _, ok := s.Next(); ok; _, ok = s.Next() {
		}
		if err := s.Err(); !errors.Is(err, ErrInternal) {
			t.Errorf("the stream ended with %v", err)
		}
	}
	for range 16 {
		g.pass <- ""
	}
	if err := generateOne(t.Context(), e); err != nil {
		t.Errorf("the next generation: %v", err)
	}
	hold(e.generator)
	if p := e.generator.pool; p.Available() != p.Size() {
		t.Errorf("%d of %d blocks are free", p.Available(), p.Size())
	}
}

// A panic of the device is an error of the run, without its stack in the text.
func TestPanicOfTheDevice(t *testing.T) {
	g := newGate()
	e := open(t, "bert", g, Options{Parallel: Fine})
	g.pass <- "panic"
	err := embedOne(t.Context(), e)
	var p *PanicError
	if !errors.As(err, &p) || strings.Contains(err.Error(), "\n") || len(p.Stack) == 0 || !errors.Is(err, ErrInternal) {
		t.Errorf("the call ended with %v", err)
	}
	g.pass <- ""
	if err := embedOne(t.Context(), e); err != nil {
		t.Error(err)
	}
}
