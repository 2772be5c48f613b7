package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/testmodels"
)

func TestEmbeddingsAreTheReferences(t *testing.T) {
	for _, name := range testmodels.Directories(testmodels.Encoders(t)) {
		r := testmodels.Load(t, name)
		seqs := sequences(r)
		t.Run(name, func(t *testing.T) {
			onBackends(t, func(t *testing.T, be plan.Backend) {
				for _, mode := range []Mode{Auto, Fine, Coarse} {
					// A small batch, so that the texts take several runs.
					e := open(t, name, be, Options{MaxBatchTokens: 100, Parallel: mode})
					dst := make([]float32, len(seqs)*e.cfg.Dim)
					if err := e.EmbedIDs(context.Background(), seqs, dst, e.pooling()); err != nil {
						t.Fatal(err)
					}
					for i, c := range r.Cases {
						if cos := cosine(dst[i*e.cfg.Dim:(i+1)*e.cfg.Dim], c.Embedding); cos < 0.99999 {
							t.Errorf("%v, text %d: cosine %.7f", mode, i, cos)
						}
					}
					s := e.Stats()
					wrong := s.FineRuns+s.CoarseRuns == 0
					switch has := be.Caps().Coarse != nil; {
					case mode == Fine || !has:
						wrong = s.FineRuns == 0 || s.CoarseRuns > 0
					case mode == Coarse:
						wrong = s.CoarseRuns == 0 || s.FineRuns > 0
					}
					if wrong {
						t.Errorf("%v: %d fine and %d coarse runs", mode, s.FineRuns, s.CoarseRuns)
					}
				}
			})
		})
	}
}

// TestRoundsOfBusyEngines: what a round took counts although the next call waits
// by then, which under steady calls it always does.
func TestRoundsOfBusyEngines(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 2, Precision: cpu.F32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	name := testmodels.Directories(testmodels.Encoders(t))[0]
	ids := sequences(testmodels.Load(t, name))[:2]
	tokens := len(ids[0]) + len(ids[1])
	e := open(t, name, be, Options{Parallel: Coarse})
	embed := func() error {
		return e.EmbedIDs(context.Background(), ids, make([]float32, 2*e.cfg.EmbedDim), e.pooling())
	}
	if err := embed(); err != nil {
		t.Fatal(err)
	}
	m := e.embedders[e.pooling()]
	team := e.caps.Coarse
	joined := make(chan error)
	before := *m.limits.Of(tokens)
	e.caps.Coarse = func(ctx context.Context, n int, f func(int)) error {
		err := team(ctx, n, f)
		e.caps.Coarse = team
		go func() { joined <- embed() }()
		for waits := false; !waits; {
			runtime.Gosched()
			m.mu.Lock()
			waits = m.head != nil
			m.mu.Unlock()
		}
		return err
	}
	m.mu.Lock()
	m.push(&call{ctx: context.Background(), seqs: ids, order: []int32{0, 1}, dst: make([]float32, 2*e.cfg.EmbedDim), load: load{seqs: 2}, leading: true})
	m.led = true
	m.coarseRound(m.load())
	counted := *m.limits.Of(tokens) != before
	m.led = m.head != nil
	m.head.leading = true
	m.head.signal <- struct{}{}
	m.mu.Unlock()
	if err := <-joined; err != nil {
		t.Fatal(err)
	}
	if !counted {
		t.Error("a round was not counted because another call waited")
	}
}

// gate is a reference backend whose runs wait to be let through, and fail or
// panic on demand.
type gate struct {
	plan.Backend
	enter chan struct{} // a run has begun
	pass  chan string   // what it does: "", "panic" or an error
}

type gatedExec struct {
	plan.Exec
	g *gate
}

func newGate() *gate {
	return &gate{Backend: ref.New(), enter: make(chan struct{}, 16), pass: make(chan string, 16)}
}

func (g *gate) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	x, err := g.Backend.Bind(p, m, o)
	return gatedExec{x, g}, err
}

func (x gatedExec) Wait() error {
	x.g.enter <- struct{}{}
	switch what := <-x.g.pass; what {
	case "":
		return x.Exec.Wait()
	case "panic":
		panic("the device is on fire")
	default:
		_ = x.Exec.Wait()
		return errors.New(what)
	}
}

// embedAsync starts a call and returns where its error comes.
func embedAsync(e *Engine, ctx context.Context, ids []int32, dst []float32) chan error {
	done := make(chan error, 1)
	go func() { done <- e.EmbedIDs(ctx, [][]int32{ids}, dst, e.pooling()) }()
	return done
}

// queued waits until n calls are in the queue.
func queued(m *embedder, n int) {
	for {
		m.mu.Lock()
		l := m.load()
		m.mu.Unlock()
		if l.seqs == n {
			return
		}
	}
}

func TestWaitingCallsAreMerged(t *testing.T) {
	g := newGate()
	e := open(t, "bert", g, Options{})
	ctx, d := context.Background(), e.cfg.Dim
	ids := []int32{1, 2, 3}
	m, err := e.embedder(t.Context(), e.pooling())
	if err != nil {
		t.Fatal(err)
	}
	lead := embedAsync(e, ctx, ids, make([]float32, d))
	<-g.enter
	var results []chan error
	var dsts [][]float32
	for range 4 {
		dsts = append(dsts, make([]float32, d))
		results = append(results, embedAsync(e, ctx, ids, dsts[len(dsts)-1]))
	}
	leaving, cancel := context.WithCancel(ctx)
	left := embedAsync(e, leaving, ids, make([]float32, d))
	queued(m, 5)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled while waiting: %v", err)
	}
	g.pass <- ""
	if err := <-lead; err != nil {
		t.Fatal(err)
	}
	<-g.enter
	g.pass <- ""
	for i, r := range results {
		if err := <-r; err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(dsts[i], dsts[0]) || dsts[i][0] == 0 {
			t.Errorf("call %d got another answer", i)
		}
	}
	if s := e.Stats(); s.FineRuns != 2 || s.MergedRuns != 1 {
		t.Errorf("%+v, expected 2 runs, 1 of them merged", s)
	}
}

func TestCancellingOneCallSparesTheOthers(t *testing.T) {
	g := newGate()
	e := open(t, "bert", g, Options{})
	ctx, d := context.Background(), e.cfg.Dim
	ids := []int32{1, 2, 3}
	m, err := e.embedder(t.Context(), e.pooling())
	if err != nil {
		t.Fatal(err)
	}
	first := embedAsync(e, ctx, ids, make([]float32, d))
	<-g.enter
	// Two calls that will share the second run; the one that leads it and the
	// one that follows are both cancelled in the middle of it, a third is not.
	c1, cancel1 := context.WithCancel(ctx)
	leader := embedAsync(e, c1, ids, make([]float32, d))
	queued(m, 1)
	c2, cancel2 := context.WithCancel(ctx)
	follower := embedAsync(e, c2, ids, make([]float32, d))
	queued(m, 2)
	kept := make([]float32, d)
	third := embedAsync(e, ctx, ids, kept)
	queued(m, 3)
	g.pass <- ""
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	<-g.enter // the merged run
	cancel1()
	cancel2()
	// The run is held, and neither of them waits for it.
	if err := <-follower; !errors.Is(err, context.Canceled) {
		t.Fatalf("follower: %v", err)
	}
	if err := <-leader; !errors.Is(err, context.Canceled) {
		t.Fatalf("leader: %v", err)
	}
	late := embedAsync(e, ctx, ids, make([]float32, d))
	queued(m, 1)
	g.pass <- ""
	if err := <-third; err != nil || kept[0] == 0 {
		t.Fatalf("third: %v", err)
	}
	<-g.enter
	g.pass <- ""
	if err := <-late; err != nil {
		t.Fatal(err)
	}
}

func TestFailuresBelowAreErrorsOfTheCall(t *testing.T) {
	g := newGate()
	e := open(t, "bert", g, Options{})
	dst := make([]float32, e.cfg.Dim)
	for _, what := range []string{"panic", "device lost", ""} {
		g.pass <- what
		err := e.EmbedIDs(context.Background(), [][]int32{{1, 2}}, dst, e.pooling())
		if (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
		<-g.enter
	}
}

func TestManyCallersManyTexts(t *testing.T) {
	r := testmodels.Load(t, "bert")
	seqs := sequences(r)
	onBackends(t, func(t *testing.T, be plan.Backend) {
		e := open(t, "bert", be, Options{MaxBatchTokens: 150, MaxSeqs: 5})
		var wg sync.WaitGroup
		for k := range 6 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if k == 5 {
					cancel()
				}
				mine := slices.Concat(seqs, seqs[:k])
				dst := make([]float32, len(mine)*e.cfg.Dim)
				err := e.EmbedIDs(ctx, mine, dst, e.pooling())
				if k == 5 && errors.Is(err, context.Canceled) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				for i := range mine {
					if cos := cosine(dst[i*e.cfg.Dim:(i+1)*e.cfg.Dim], r.Cases[i%len(seqs)].Embedding); cos < 0.99999 {
						t.Errorf("caller %d, text %d: cosine %.7f", k, i, cos)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestPoolingIsChosenByTheCall(t *testing.T) {
	r := testmodels.Load(t, "bert")
	e := open(t, "bert", ref.New(), Options{})
	dst := make([]float32, e.cfg.Dim)
	for _, kind := range []graph.PoolKind{graph.PoolMean, graph.PoolCLS, graph.PoolLast} {
		c, o := r.Cases[0], model.EmbedOptions{Pooling: kind, Normalize: true}
		if err := e.EmbedIDs(context.Background(), [][]int32{int32s(c.IDs)}, dst, o); err != nil {
			t.Fatal(err)
		}
		if cos := cosine(dst, c.Pooled[kind.String()]); cos < 0.99999 {
			t.Errorf("%v: cosine %.7f", kind, cos)
		}
	}
}

func TestEmbedAllocatesNothing(t *testing.T) {
	seqs := sequences(testmodels.Load(t, "bert"))
	onBackends(t, func(t *testing.T, be plan.Backend) {
		for _, mode := range []Mode{Fine, Coarse} {
			if mode == Coarse && t.Name() == "TestEmbedAllocatesNothing/coarseref" {
				continue // its workers are goroutines made for the test
			}
			e := open(t, "bert", be, Options{MaxBatchTokens: 128, Parallel: mode})
			dst := make([]float32, len(seqs)*e.cfg.Dim)
			ctx := context.Background()
			if n := testing.AllocsPerRun(3, func() {
				if err := e.EmbedIDs(ctx, seqs, dst, e.pooling()); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%v: %v allocations", mode, n)
			}
		}
	})
}
