package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"hotpath/internal/backend/null"
	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/sample"
)

// TestDrawsOfTheOp: the op draws the token that package sample draws, for any
// parameters, and refuses the logits that it refuses.
func TestDrawsOfTheOp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	pick := func(v ...float32) float32 { return v[rng.IntN(len(v))] }
	var w sample.Scratch
	for i := range 3000 {
		logits := make([]float32, 1+rng.IntN(300))
		scale := pick(0, 0.1, 1, 5, 40)
		for k := range logits {
			logits[k] = float32(rng.NormFloat64()) * scale
			if i%3 == 0 { // many that are equal
				logits[k] = float32(math.Round(float64(logits[k])))
			}
			if i%5 == 0 && rng.IntN(4) == 0 {
				logits[k] = float32(math.Inf(-1))
			}
		}
		if i%50 == 7 {
			logits[rng.IntN(len(logits))] = pick(float32(math.NaN()), float32(math.Inf(1)))
		}
		p := sample.Params{Temperature: pick(0, 0.01, 0.7, 1, 3), TopK: int(pick(0, 0, 1, 2, 7, 40, 1000)), TopP: pick(0, 0.1, 0.5, 0.9, 0.999, 1), MinP: pick(0, 0, 0.05, 0.5, 1), Seed: rng.Uint64()}
		var a, b sample.Sampler
		if err := errors.Join(a.Reset(p), b.Reset(p)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			want, err := a.Sample(logits, &w)
			if err != nil {
				want = -1
			}
			var bits uint64
			if !p.Greedy() && err == nil {
				bits = b.Random()
			}
			random := make([]int32, 2)
			graph.PutRandom(random, bits)
			how := []float32{p.Temperature, float32(p.TopK), p.TopP, p.MinP}
			c := graph.Call{In: []graph.Tensor{
				{Rows: 1, Cols: len(logits), F32: logits}, {Rows: 1, Cols: graph.SampleLen, F32: how}, {Rows: 1, Cols: 2, I32: random},
			}, Out: []graph.Tensor{{Rows: 1, Cols: 1, I32: make([]int32, 1)}}, Scratch: make([]float32, len(logits))}
			graph.OpSample.Ref(&c)
			if got := c.Out[0].I32[0]; got != want {
				t.Fatalf("case %d, %+v: the op draws %d, expected %d of %v", i, p, got, want, logits)
			}
		}
	}
}

// TestDeviceReturnsIDs: a device that has the op returns ids and no logits, and
// draws what the host draws elsewhere. Streams with penalties take the program
// with logits, over the same KV cache; a device without the op has that alone.
func TestDeviceReturnsIDs(t *testing.T) {
	reqs := []Request{
		{Prompt: []int32{1, 2, 3}, MaxTokens: 9},
		{Prompt: []int32{4, 5}, MaxTokens: 9, Sample: sample.Params{Temperature: 1.3, Seed: 5}},
		{Prompt: []int32{6}, MaxTokens: 9, Sample: sample.Params{Temperature: 0.9, TopK: 7, TopP: 0.9, MinP: 0.02, Seed: 6}},
	}
	punished := Request{Prompt: []int32{1, 2, 3}, MaxTokens: 5, Sample: sample.Params{Penalties: sample.Penalties{Repeat: 1.5}}}
	generate := func(e *Engine, reqs ...Request) (ids [][]int32) {
		t.Helper()
		streams := make([]*Stream, len(reqs))
		for i, r := range reqs {
			var err error
			if streams[i], err = e.Generate(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range streams {
			var got []int32
			for id, ok := s.Next(); ok; id, ok = s.Next() {
				got = append(got, id)
			}
			if s.Err() != nil {
				t.Fatal(s.Err())
			}
			ids = append(ids, got)
		}
		return ids
	}
	host := open(t, "llama", ref.New(), Options{})
	want, wantPunished := generate(host, reqs...), generate(host, punished)
	if host.generator.sampled != nil {
		t.Error("a backend that is not a device draws tokens")
	}
	equal := func(a, b [][]int32) bool {
		return slices.EqualFunc(a, b, func(a, b []int32) bool { return slices.Equal(a, b) })
	}
	for _, lacks := range []bool{false, true} {
		be := null.New(20 * time.Microsecond)
		be.Lacks = func(n *graph.Node) bool { return lacks && n.Op == graph.OpSample }
		e := open(t, "llama", be, Options{})
		if got := generate(e, reqs...); !equal(got, want) {
			t.Errorf("the device draws %v, expected %v", got, want)
		}
		if g := e.generator; (g.sampled == nil) != lacks || (g.logits == nil) == lacks {
			t.Errorf("without the op: %v, a program with ids: %v, one with logits: %v", lacks, g.sampled != nil, g.logits != nil)
		}
		if got := generate(e, punished); !equal(got, wantPunished) {
			t.Errorf("with penalties %v, expected %v", got, wantPunished)
		}
		if got := generate(e, append(slices.Clone(reqs), punished)...); !equal(got, append(slices.Clone(want), wantPunished...)) {
			t.Errorf("beside a stream with penalties: %v", got)
		}
		if g := e.generator; g.sampled != nil && g.sampled.sess.MemoryBytes() == g.logits.sess.MemoryBytes() {
			t.Error("the program with ids returns logits")
		}
	}
}

// TestRunsOverlapOnADevice: while a device computes a batch, the next one is
// composed and enqueued; the answers are those of the reference.
func TestRunsOverlapOnADevice(t *testing.T) {
	var seqs [][]int32
	for i := range 40 {
		seqs = append(seqs, []int32{int32(i % 7), 3, int32(i % 5), 1}[:1+i%4])
	}
	opts := Options{MaxBatchTokens: 16, MaxSeqs: 4}
	be := null.New(100 * time.Microsecond)
	e, want := open(t, "llama", be, opts), open(t, "llama", ref.New(), opts)
	var got, expected [2]any
	for i, x := range []*Engine{e, want} {
		v := make([]float32, len(seqs)*x.cfg.EmbedDim)
		if err := x.EmbedIDs(t.Context(), seqs, v, x.pooling()); err != nil {
			t.Fatal(err)
		}
		nll, err := x.ScoreIDs(t.Context(), seqs)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			got = [2]any{v, nll}
			if n := be.Flights(); n != 2 {
				t.Errorf("%d runs were in flight at most, expected 2", n)
			}
		} else {
			expected = [2]any{v, nll}
		}
	}
	if !slices.Equal(got[0].([]float32), expected[0].([]float32)) {
		t.Error("other vectors than the reference's")
	}
	for i, nll := range got[1].([][]float32) {
		if !slices.Equal(nll, expected[1].([][]float32)[i]) {
			t.Errorf("text %d: other likelihoods than the reference's", i)
		}
	}
}

// TestAFaultFailsItsCallsOnly: a run that fails on the device fails the calls that
// have a part in it. The next ones are served, and nothing is left behind.
func TestAFaultFailsItsCallsOnly(t *testing.T) {
	lost := errors.New("the device is lost")
	for name, call := range map[string]func(context.Context, *Engine) error{"embed": embedMany, "generate": generateOne, "score": scoreMany} {
		for _, stage := range []string{"enqueue", "run"} {
			t.Run(name+"/"+stage, func(t *testing.T) {
				be := null.New(20 * time.Microsecond)
				var mu sync.Mutex
				calls, fail := 0, 0
				be.Fail = func(what string) error {
					mu.Lock()
					defer mu.Unlock()
					if what != stage {
						return nil
					}
					if calls++; calls == fail {
						return lost
					}
					return nil
				}
				e := open(t, "llama", be, Options{MaxBatchTokens: 8, MaxSeqs: 4})
				if err := call(t.Context(), e); err != nil {
					t.Fatal(err)
				}
				runs := calls
				for k := 1; k <= runs; k++ {
					mu.Lock()
					calls, fail = 0, k
					mu.Unlock()
					if err := call(t.Context(), e); !errors.Is(err, lost) {
						t.Errorf("run %d of %d failed, and the call ended with %v", k, runs, err)
					}
					mu.Lock()
					fail = 0
					mu.Unlock()
					if err := call(t.Context(), e); err != nil {
						t.Errorf("the call after it: %v", err)
					}
				}
				if p := e.scorer.pool; p != nil && p.Available() != p.Size() {
					t.Errorf("%d of %d blocks of scoring are free", p.Available(), p.Size())
				}
				if s := e.Stats(); s.Waiting != 0 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

var manyTexts = [][]int32{{1, 2, 3, 4}, {2, 3, 4, 5, 6}, {3}, {4, 5}, {5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 1, 2}, {6, 7, 1}}

func embedMany(ctx context.Context, e *Engine) error {
	return e.EmbedIDs(ctx, manyTexts, make([]float32, len(manyTexts)*e.cfg.EmbedDim), e.pooling())
}

func scoreMany(ctx context.Context, e *Engine) error {
	_, err := e.ScoreIDs(ctx, manyTexts)
	return err
}

// TestScoresOfCallersMerge: calls of many callers share runs, and each gets the
// bits that it gets alone.
func TestScoresOfCallersMerge(t *testing.T) {
	g := newGate()
	e := open(t, "llama", g, Options{MaxBatchTokens: 16, MaxSeqs: 8})
	alone := open(t, "llama", ref.New(), Options{})
	want, err := alone.ScoreIDs(t.Context(), manyTexts)
	if err != nil {
		t.Fatal(err)
	}
	const callers = 9
	type answer struct {
		nll [][]float32
		err error
	}
	answers := make(chan answer, callers)
	start := func(n int) {
		for range n {
			go func() {
				nll, err := e.ScoreIDs(t.Context(), manyTexts)
				answers <- answer{nll, err}
			}()
		}
	}
	start(1)
	<-g.enter // its first run waits
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- scoreMany(ctx, e) }()
	start(callers - 1)
	for s := e.Stats(); s.Waiting < callers || s.Running < callers+1; s = e.Stats() { // one of them is under way, and one will leave
		time.Sleep(time.Millisecond)
	}
	if s := e.Stats(); s.Running != callers+1 {
		t.Errorf("%d calls run, expected %d", s.Running, callers+1)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	g.openWide(t)
	for range callers {
		a := <-answers
		if a.err != nil {
			t.Fatal(a.err)
		}
		for i := range want {
			if !slices.Equal(a.nll[i], want[i]) {
				t.Errorf("text %d: %v, alone %v", i, a.nll[i], want[i])
			}
		}
	}
	tokens := 0
	for _, ids := range manyTexts {
		tokens += len(ids) - 1
	}
	s := e.Stats()
	if s.MergedRuns == 0 || s.ScoreTokens < int64(callers*tokens) || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	if p := e.scorer.pool; p.Available() != p.Size() {
		t.Errorf("%d of %d blocks are free", p.Available(), p.Size())
	}
}

// TestRankingsOfCallersMerge: as TestScoresOfCallersMerge, for pairs of texts.
func TestRankingsOfCallersMerge(t *testing.T) {
	path := filepath.Join("..", "model", "testdata", "encoders", "rerank-bert")
	g := newGate()
	e := openOn(t, path, g, Options{})
	docs := []string{"a boat", "the hills and the rain", "no"}
	rank := func(e *Engine) ([]float32, error) {
		scores := make([]float32, len(docs))
		return scores, e.Rerank(t.Context(), "rain", docs, scores, nil)
	}
	want, err := rank(openOn(t, path, ref.New(), Options{}))
	if err != nil {
		t.Fatal(err)
	}
	const callers = 6
	type answer struct {
		scores []float32
		err    error
	}
	answers := make(chan answer, callers)
	start := func(n int) {
		for range n {
			go func() {
				s, err := rank(e)
				answers <- answer{s, err}
			}()
		}
	}
	start(1)
	<-g.enter
	start(callers - 1)
	for e.Stats().Waiting < callers-1 {
		time.Sleep(time.Millisecond)
	}
	g.openWide(t)
	for range callers {
		if a := <-answers; a.err != nil || !slices.Equal(a.scores, want) {
			t.Errorf("%v, %v; alone %v", a.scores, a.err, want)
		}
	}
	if s := e.Stats(); s.MergedRuns != 1 || s.RerankTokens == 0 {
		t.Errorf("%+v", s)
	}
}

// openWide lets all runs through from now on.
func (g *gate) openWide(t *testing.T) {
	close(g.pass)
	go func() {
		for {
			select {
			case <-g.enter:
			case <-t.Context().Done():
				return
			}
		}
	}()
}

// TestStatsOfTheCache: how many generations wait, and how many blocks those under
// way have, after each step.
func TestStatsOfTheCache(t *testing.T) {
	e := open(t, "llama", ref.New(), Options{MaxSeqs: 1, MaxBatchTokens: 16})
	g, err := e.openGenerator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hold(g)
	for range 3 {
		if _, err := e.Generate(t.Context(), Request{Prompt: []int32{1, 2, 3}, MaxTokens: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if s := e.Stats(); s.Waiting != 3 || s.Running != 3 || s.KVUsed != 0 {
		t.Errorf("before the first step: %+v", s)
	}
	for left := 3; g.gather(); {
		g.step()
		s := e.Stats()
		if s.Waiting != left-1 || s.Running != left || s.KVUsed != 1 || s.KVBlocks != g.pool.Size() {
			t.Errorf("with %d generations left: %+v", left, s)
		}
		if s.GeneratedTokens%2 == 0 {
			left--
		}
	}
	if s := e.Stats(); s.Waiting != 0 || s.Running != 0 || s.KVUsed != 0 || s.GeneratedTokens != 6 {
		t.Errorf("at the end: %+v", s)
	}
}
