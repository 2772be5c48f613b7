package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"hotpath/internal/backend/ref"
	"hotpath/internal/plan"
	"hotpath/internal/sample"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// collect reads a stream to its end.
func collect(t testing.TB, s *Stream) []int32 {
	t.Helper()
	var out []int32
	for {
		id, ok := s.Next()
		if !ok {
			return out
		}
		out = append(out, id)
	}
}

func generate(t testing.TB, e *Engine, req Request) ([]int32, *Stream) {
	t.Helper()
	s, err := e.Generate(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	out := collect(t, s)
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return out, s
}

// hold waits for the step loop to end and keeps another from starting.
func hold(g *generator) {
	for {
		g.mu.Lock()
		idle := !g.looping
		if idle {
			g.looping = true
		}
		g.mu.Unlock()
		if idle {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// sure is the part of a greedy continuation that rounding cannot change.
func sure(c testmodels.Case) []int32 {
	for i, m := range c.Margins {
		if m < 1e-3 {
			return int32s(c.Greedy[:i])
		}
	}
	return int32s(c.Greedy)
}

func TestGreedyIsTheReferences(t *testing.T) {
	for _, name := range testmodels.Directories(testmodels.Decoders(t)) {
		r := testmodels.Load(t, name)
		t.Run(name, func(t *testing.T) {
			onBackends(t, func(t *testing.T, be plan.Backend) {
				// Small batches: long prompts come in pieces beside others'
				// tokens. Few blocks: some sequences have to yield.
				e := open(t, name, be, Options{MaxBatchTokens: 48, MaxSeqs: 5, Ctx: 240, KVBlocks: 8})
				var wg sync.WaitGroup
				for i, c := range r.Cases {
					s, err := e.Generate(context.Background(), Request{Prompt: int32s(c.IDs), MaxTokens: len(c.Greedy)})
					if err != nil {
						t.Fatal(err)
					}
					wg.Go(func() {
						got, want := collect(t, s), sure(c)
						if s.Err() != nil || s.Reason() != Length || len(got) != len(c.Greedy) {
							t.Errorf("text %d: %d tokens, reason %v, error %v", i, len(got), s.Reason(), s.Err())
						} else if !slices.Equal(got[:len(want)], want) {
							t.Errorf("text %d: %v, expected %v", i, got, want)
						}
					})
				}
				wg.Wait()
				hold(e.generator)
				if p := e.generator.pool; p.Available() != p.Size() {
					t.Errorf("%d of %d blocks are free at the end", p.Available(), p.Size())
				}
			})
		})
	}
}

func TestPreemptedSequencesGoOn(t *testing.T) {
	e := open(t, "llama", ref.New(), Options{Ctx: 192, KVBlocks: 3, MaxBatchTokens: 64})
	long := Request{Prompt: make([]int32, 30), MaxTokens: 90}
	alone, _ := generate(t, e, long)
	// The younger one takes the last block before the older one needs it.
	g := e.generator
	hold(g)
	a, err := e.Generate(context.Background(), Request{Prompt: []int32{5, 4, 3, 2}, MaxTokens: 100})
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Generate(context.Background(), long)
	if err != nil {
		t.Fatal(err)
	}
	go g.loop()
	if n := len(collect(t, a)); n != 100 {
		t.Errorf("%d tokens, expected 100: %v", n, a.Err())
	}
	if got := collect(t, b); !slices.Equal(got, alone) {
		t.Errorf("the sequence that yielded gave %v, alone %v", got, alone)
	}
	if e.Stats().Preemptions == 0 {
		t.Error("nobody had to yield: the test shows nothing")
	}
}

func TestPrefixIsReused(t *testing.T) {
	onBackends(t, func(t *testing.T, be plan.Backend) {
		e := open(t, "llama", be, Options{})
		prompt := make([]int32, 150)
		for i := range prompt {
			prompt[i] = int32(i*13) % int32(e.cfg.Vocab)
		}
		first, s1 := generate(t, e, Request{Prompt: prompt, MaxTokens: 5})
		before := e.Stats().PromptTokens
		second, s2 := generate(t, e, Request{Prompt: prompt, MaxTokens: 5})
		if !slices.Equal(first, second) {
			t.Errorf("%v out of the cache, expected %v", second, first)
		}
		if s1.Timing().Cached != 0 || s2.Timing().Cached != 128 || e.Stats().PromptTokens-before != 22 {
			t.Errorf("%d and %d tokens cached, %d run again", s1.Timing().Cached, s2.Timing().Cached, e.Stats().PromptTokens-before)
		}
	})
}

func TestReasonsToEnd(t *testing.T) {
	e := open(t, "llama", ref.New(), Options{Ctx: 40})
	all, s := generate(t, e, Request{Prompt: []int32{3, 1, 4}})
	if len(all) != 37 || s.Reason() != Length {
		t.Errorf("%d tokens, reason %v, expected the context full at 37", len(all), s.Reason())
	}
	end := all[2]
	n := slices.Index(all, end)
	got, s := generate(t, e, Request{Prompt: []int32{3, 1, 4}, End: func(id int32) bool { return id == end }})
	if !slices.Equal(got, all[:n]) || s.Reason() != Stop {
		t.Errorf("%v, reason %v, expected %v and stop", got, s.Reason(), all[:n])
	}
	if tm := s.Timing(); n > 0 && !(tm.Queued <= tm.Started && tm.Started <= tm.FirstToken && tm.FirstToken <= tm.End) {
		t.Errorf("timing out of order: %+v", tm)
	}
}

func TestOneSequenceFailsAlone(t *testing.T) {
	e := open(t, "llama", ref.New(), Options{})
	ctx, cancel := context.WithCancel(context.Background())
	bad, err := e.Generate(ctx, Request{Prompt: []int32{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	good, err := e.Generate(context.Background(), Request{Prompt: []int32{1, 2}, MaxTokens: 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := bad.Next(); !ok {
		t.Fatal(bad.Err())
	}
	cancel()
	collect(t, bad)
	if !errors.Is(bad.Err(), context.Canceled) {
		t.Errorf("cancelled: %v", bad.Err())
	}
	if n := len(collect(t, good)); n != 20 || good.Err() != nil {
		t.Errorf("%d tokens beside it, %v", n, good.Err())
	}
	if _, err := e.Generate(context.Background(), Request{Prompt: []int32{1}, Sample: sample.Params{Temperature: -1}}); !errors.Is(err, ErrInput) {
		t.Errorf("bad temperature: %v", err)
	}
}

func TestFailedStepEndsItsSequencesOnly(t *testing.T) {
	g := newGate()
	e := open(t, "llama", g, Options{})
	g.pass <- "device lost"
	s, err := e.Generate(context.Background(), Request{Prompt: []int32{1, 2}, MaxTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	if out := collect(t, s); len(out) != 0 || s.Err() == nil {
		t.Errorf("%v, %v after a failed step", out, s.Err())
	}
	g.pass <- ""
	if out, _ := generate(t, e, Request{Prompt: []int32{1, 2}, MaxTokens: 1}); len(out) != 1 {
		t.Errorf("%v afterwards", out)
	}
}

func TestSeedsRepeatInAnyCompany(t *testing.T) {
	e := open(t, "llama", ref.New(), Options{})
	req := Request{Prompt: []int32{1, 2, 3}, MaxTokens: 12, Sample: sample.Params{Temperature: 0.8, TopK: 20, Seed: 42}}
	want, _ := generate(t, e, req)
	other, err := e.Generate(context.Background(), Request{Prompt: []int32{7}, MaxTokens: 30, Sample: sample.Params{Temperature: 1, Seed: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := generate(t, e, req); !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	collect(t, other)
}

// Sixteen streams sample in every way.
func TestDecodeStepAllocatesNothing(t *testing.T) {
	ways := []sample.Params{
		{Temperature: 1, TopK: 10, TopP: 0.9}, {Temperature: 0.8}, {Temperature: 5, TopP: 0.99}, {Temperature: 1, TopK: 200},
		{Temperature: 1, MinP: 0.001}, {Temperature: 1, TopK: 200, TopP: 0.9, MinP: 0.01}, {},
		{Temperature: 0.8, TopP: 0.9, Penalties: sample.Penalties{Repeat: 1.1, Presence: 0.5, Frequency: 0.1}},
	}
	onBackends(t, func(t *testing.T, be plan.Backend) {
		e := open(t, "llama", be, Options{KVBlocks: 2 * 16})
		// A generator that the test steps itself: no loop is started.
		g, err := e.openGenerator(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		hold(g)
		var streams []*Stream
		for i := range 16 {
			how := ways[i%len(ways)]
			how.Seed = uint64(i)
			s, err := e.Generate(context.Background(), Request{Prompt: []int32{1, 2, int32(i)}, MaxTokens: 100, Sample: how})
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
		}
		step := func() {
			if !g.gather() {
				t.Fatal("nothing to do")
			}
			g.step()
		}
		step()                                           // prompts
		if n := testing.AllocsPerRun(70, step); n != 0 { // into a second block
			t.Errorf("%v allocations a step", n)
		}
		for _, s := range streams {
			if len(s.ids) < 70 || s.Err() != nil {
				t.Errorf("%d tokens, %v", len(s.ids), s.Err())
			}
			s.Stop()
		}
		if g.gather() {
			t.Error("stopped streams go on")
		}
	})
}

func TestScoresAreTheReferences(t *testing.T) {
	for _, name := range testmodels.Directories(testmodels.Decoders(t)) {
		r := testmodels.Load(t, name)
		t.Run(name, func(t *testing.T) {
			onBackends(t, func(t *testing.T, be plan.Backend) {
				e := open(t, name, be, Options{MaxBatchTokens: 50, MaxSeqs: 3})
				seqs := slices.Concat([][]int32{{}, {5}}, sequences(r), [][]int32{{7}})
				got, err := e.ScoreIDs(context.Background(), seqs)
				if err != nil {
					t.Fatal(err)
				}
				if len(got[0])+len(got[1])+len(got[len(got)-1]) != 0 {
					t.Error("texts of fewer than two tokens have likelihoods")
				}
				worst := 0.0
				for i, c := range r.Cases {
					nll := got[i+2]
					if len(nll) != len(c.NLL) {
						t.Fatalf("text %d: %d likelihoods, expected %d", i, len(nll), len(c.NLL))
					}
					for k, want := range c.NLL {
						worst = max(worst, math.Abs(float64(nll[k])-want)/max(1, want))
					}
				}
				if worst > 1e-4 {
					t.Errorf("off by %.2e", worst)
				}
				if p := e.scorer.pool; p.Available() != p.Size() {
					t.Errorf("%d of %d blocks are free at the end", p.Available(), p.Size())
				}
			})
		})
	}
}

// patient is a reference backend whose runs end with their context.
type patient struct {
	plan.Backend
	enter chan struct{}
	left  chan error
}

type patientExec struct {
	plan.Exec
	b *patient
}

func (b *patient) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	x, err := b.Backend.Bind(p, m, o)
	return patientExec{x, b}, err
}

func (x patientExec) Enqueue(ctx context.Context, _ tensor.Bind, _ *profile.Run) error {
	x.b.enter <- struct{}{}
	err := errors.New("nobody ended this run")
	select {
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(10 * time.Second):
	}
	x.b.left <- err
	return err
}

// A step for one stream ends with its context: nobody else waits for it, and
// Close would.
func TestCancelledPromptEndsItsStep(t *testing.T) {
	be := &patient{Backend: ref.New(), enter: make(chan struct{}, 1), left: make(chan error, 1)}
	e := open(t, "llama", be, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	s, err := e.Generate(ctx, Request{Prompt: []int32{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	<-be.enter
	cancel()
	if _, ok := s.Next(); ok || !errors.Is(s.Err(), context.Canceled) {
		t.Errorf("the stream ended with %v", s.Err())
	}
	if err := <-be.left; !errors.Is(err, context.Canceled) {
		t.Errorf("the step ended with %v", err)
	}
}

// Tails alone, of many texts at once, are what each text gives by itself.
func TestScoreTails(t *testing.T) {
	e := openAt(t, testmodels.Dir(t, "llama"), Options{})
	r := testmodels.Load(t, "llama")
	var seqs [][]int32
	var first []int
	for i := range 60 { // more rows and tokens than one run has, and texts that are cut between two runs
		ids := slices.Clone(sequences(r)[i%len(r.Cases)])
		if len(ids) < 2 {
			continue
		}
		seqs, first = append(seqs, ids), append(first, 1+i%len(ids))
	}
	got, err := e.ScoreTails(t.Context(), seqs, first)
	if err != nil {
		t.Fatal(err)
	}
	for i, ids := range seqs {
		alone, err := e.ScoreIDs(t.Context(), [][]int32{ids})
		if err != nil {
			t.Fatal(err)
		}
		want := alone[0][first[i]-1:]
		if len(got[i]) != len(want) {
			t.Fatalf("text %d: %d likelihoods, expected %d", i, len(got[i]), len(want))
		}
		for k := range want {
			if d := math.Abs(float64(got[i][k] - want[k])); d > 1e-6*max(1, math.Abs(float64(want[k]))) {
				t.Errorf("text %d: token %d of %d: %g, alone %g", i, k+first[i], len(ids), got[i][k], want[k])
			}
		}
	}
	if p := e.scorer.pool; p.Available() != p.Size() {
		t.Errorf("%d of %d blocks are free at the end", p.Available(), p.Size())
	}
	for _, first := range [][]int{{0}, {-1}, {len(seqs[0]) + 1}, {}, {1, 1}} {
		if _, err := e.ScoreTails(t.Context(), seqs[:1], first); err == nil {
			t.Errorf("a text of %d tokens was scored from tokens %d", len(seqs[0]), first)
		}
	}
}
