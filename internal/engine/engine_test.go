package engine

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/null"
	"hotpath/internal/backend/ref"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// coarseRef is the reference backend with workers, so that the engine's coarse
// mode runs on it.
type coarseRef struct{ *ref.Backend }

func (b coarseRef) Caps() plan.Caps {
	c := b.Backend.Caps()
	c.Workers = 3
	c.Coarse = func(_ context.Context, n int, f func(int)) error {
		var wg sync.WaitGroup
		for i := 1; i < n; i++ {
			wg.Go(func() { f(i) })
		}
		f(0)
		wg.Wait()
		return nil
	}
	return c
}

// testBackends are what every test of answers loops over.
var testBackends = []struct {
	name string
	open func(t testing.TB) plan.Backend
}{
	{"ref", func(testing.TB) plan.Backend { return ref.New() }},
	{"null", func(testing.TB) plan.Backend { return null.New(200 * time.Microsecond) }},
	{"coarseref", func(testing.TB) plan.Backend { return coarseRef{ref.New()} }},
	{"cpu", func(t testing.TB) plan.Backend {
		be, err := cpu.New(cpu.Options{Workers: 2, Precision: cpu.F32, Test: true})
		if err != nil {
			t.Fatal(err)
		}
		return be
	}},
}

func onBackends(t *testing.T, f func(t *testing.T, be plan.Backend)) {
	for _, b := range testBackends {
		t.Run(b.name, func(t *testing.T) {
			be := b.open(t)
			t.Cleanup(func() { be.Close() })
			f(t, be)
		})
	}
}

// open opens a fixture for the length of a test.
func open(t testing.TB, name string, be plan.Backend, o Options) *Engine {
	t.Helper()
	return openOn(t, testmodels.Dir(t, name), be, o)
}

// openAt opens a model by its path, in f32 on two workers.
func openAt(t testing.TB, path string, o Options) *Engine {
	t.Helper()
	be, err := cpu.New(cpu.Options{Workers: 2, Precision: cpu.F32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	return openOn(t, path, be, o)
}

func openOn(t testing.TB, path string, be plan.Backend, o Options) *Engine {
	t.Helper()
	st, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Open(st)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(m, be, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *Engine) pooling() model.EmbedOptions {
	return model.EmbedOptions{Pooling: e.cfg.Pooling, Normalize: true}
}

func int32s(ids []int) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

func sequences(r testmodels.Reference) [][]int32 {
	var out [][]int32
	for _, c := range r.Cases {
		out = append(out, int32s(c.IDs))
	}
	return out
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// settleGoroutines waits until no more goroutines run than before.
func settleGoroutines(t *testing.T, before int) {
	t.Helper()
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	buf := make([]byte, 1<<16)
	t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}

func TestCloseLeavesNothingAndEndsCalls(t *testing.T) {
	for _, b := range testBackends {
		t.Run(b.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			be := b.open(t)
			enc := open(t, "bert", be, Options{})
			seqs := sequences(testmodels.Load(t, "bert"))
			dst := make([]float32, len(seqs)*enc.cfg.Dim)
			if err := enc.EmbedIDs(context.Background(), seqs, dst, enc.pooling()); err != nil {
				t.Fatal(err)
			}
			lm := open(t, "llama", be, Options{})
			s, err := lm.Generate(context.Background(), Request{Prompt: []int32{5, 6, 7}})
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := s.Next(); !ok {
				t.Fatal(s.Err())
			}
			if _, err := lm.ScoreIDs(context.Background(), [][]int32{{1, 2, 3}}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(enc.Close(), lm.Close()); err != nil {
				t.Fatal(err)
			}
			for {
				if _, ok := s.Next(); !ok {
					break
				}
			}
			if !errors.Is(s.Err(), ErrClosed) {
				t.Errorf("a stream cut short by Close ended with %v, reason %q", s.Err(), s.Reason())
			}
			if err := enc.EmbedIDs(context.Background(), seqs, dst, enc.pooling()); !errors.Is(err, ErrClosed) {
				t.Errorf("embed after Close: %v", err)
			}
			if _, err := lm.Generate(context.Background(), Request{Prompt: []int32{1}}); !errors.Is(err, ErrClosed) {
				t.Errorf("generate after Close: %v", err)
			}
			if _, err := lm.ScoreIDs(context.Background(), nil); !errors.Is(err, ErrClosed) {
				t.Errorf("score after Close: %v", err)
			}
			if err := be.Close(); err != nil {
				t.Fatal(err)
			}
			settleGoroutines(t, before)
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	st, err := weights.Open(testmodels.Dir(t, "llama"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	m, err := model.Open(st)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{MaxBatchTokens: -1}, {Ctx: 1 << 20}, {Ctx: 512, KVBlocks: 2}} {
		if _, err := Open(m, ref.New(), o); !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestWrongWorkIsRefused(t *testing.T) {
	enc := open(t, "bert", ref.New(), Options{})
	lm := open(t, "llama", ref.New(), Options{Ctx: 64})
	ctx, dst := context.Background(), make([]float32, 1000)
	if _, err := enc.Generate(ctx, Request{Prompt: []int32{1}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("generate with an encoder: %v", err)
	}
	if _, err := enc.ScoreIDs(ctx, [][]int32{{1, 2}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("score with an encoder: %v", err)
	}
	for _, c := range []struct {
		seq  []int32
		want error
	}{
		{nil, ErrInput}, {[]int32{-1}, ErrInput}, {[]int32{1 << 30}, ErrInput}, {make([]int32, 97), ErrTooLong},
	} {
		if err := enc.EmbedIDs(ctx, [][]int32{c.seq}, dst, enc.pooling()); !errors.Is(err, c.want) {
			t.Errorf("embedding of %d ids: %v, expected %v", len(c.seq), err, c.want)
		}
	}
	if err := enc.EmbedIDs(ctx, [][]int32{{1}}, dst[:3], enc.pooling()); !errors.Is(err, ErrInput) {
		t.Errorf("short dst: %v", err)
	}
	if _, err := lm.Generate(ctx, Request{Prompt: make([]int32, 64)}); !errors.Is(err, ErrTooLong) {
		t.Errorf("prompt as long as the context: %v", err)
	}
	if _, err := lm.ScoreIDs(ctx, [][]int32{make([]int32, 65)}); !errors.Is(err, ErrTooLong) {
		t.Errorf("score beyond the context: %v", err)
	}
}

func TestBackendRegistry(t *testing.T) {
	Register("test-registry", func(o BackendOptions) (plan.Backend, error) {
		if o.Device != "7" {
			t.Errorf("device %q, expected 7", o.Device)
		}
		return ref.New(), nil
	})
	if _, err := NewBackend("test-registry:7", BackendOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := NewBackend("none", BackendOptions{}); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "test-registry") {
		t.Errorf("unknown device: %v", err)
	}
}
