package engine

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"hotpath/internal/backend/null"
	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/sample"
)

// aheadOf makes each run of a device wait until the next one is enqueued, up to the
// number of runs that are expected. A loop that waits for ids first fails.
func aheadOf(be *null.Backend, runs int) {
	var mu sync.Mutex
	more := sync.NewCond(&mu)
	enqueued, ran := 0, 0
	be.Fail = func(what string) error {
		mu.Lock()
		defer mu.Unlock()
		switch what {
		case "enqueue":
			enqueued++
			more.Broadcast()
		case "run":
			ran++
			late := false
			timer := time.AfterFunc(20*time.Second, func() {
				mu.Lock()
				defer mu.Unlock()
				late = true
				more.Broadcast()
			})
			defer timer.Stop()
			for enqueued < min(ran+1, runs) {
				if late {
					return errors.New("the next step was not enqueued while this one was in flight")
				}
				more.Wait()
			}
		}
		return nil
	}
}

// TestDecodeRunsAhead: a device gets the next decode step before the host has seen the
// ids of the one before it, and draws the same tokens. A text that its length ends has
// no step too many.
func TestDecodeRunsAhead(t *testing.T) {
	for name, s := range map[string]sample.Params{"greedy": {}, "sampled": {Temperature: 1.1, TopP: 0.9, Seed: 8}} {
		t.Run(name, func(t *testing.T) {
			const tokens = 70 // into a second block
			req := Request{Prompt: []int32{1, 2, 3}, MaxTokens: tokens, Sample: s}
			want, _ := generate(t, open(t, "llama", ref.New(), Options{}), req)
			be := null.New(0)
			aheadOf(be, tokens)
			e := open(t, "llama", be, Options{})
			got, _ := generate(t, e, req)
			if !slices.Equal(got, want) {
				t.Errorf("%v, expected %v", got, want)
			}
			if n := e.Stats().Steps; n != tokens || be.Flights() != 2 {
				t.Errorf("%d steps, expected %d, and %d in flight at most, expected 2", n, tokens, be.Flights())
			}
		})
	}
}

// TestStopLagsOneStep: a token that ends a text is seen one step late. The step too many
// is not read, and what it wrote serves nobody.
func TestStopLagsOneStep(t *testing.T) {
	prompt := make([]int32, 60)
	for i := range prompt {
		prompt[i] = int32(i % 11)
	}
	host := open(t, "llama", ref.New(), Options{})
	all, _ := generate(t, host, Request{Prompt: prompt, MaxTokens: 40})
	end := 0
	for slices.Index(all, all[end]) < end || end < 8 { // behind the end of a block
		if end++; end == len(all) {
			t.Fatal("no token that comes once")
		}
	}
	e := open(t, "llama", null.New(0), Options{})
	got, s := generate(t, e, Request{Prompt: prompt, MaxTokens: 40, End: func(id int32) bool { return id == all[end] }})
	if !slices.Equal(got, all[:end]) || s.Reason() != Stop {
		t.Errorf("%v, %v, expected %v and stop", got, s.Reason(), all[:end])
	}
	if n := e.Stats().Steps; n != int64(end)+2 {
		t.Errorf("%d steps, expected %d: one per token, one that ends it, and one too many", n, end+2)
	}
	// The block that the prompt and the first tokens fill serves the next text.
	longer := append(slices.Clone(prompt), all[:8]...)
	want, _ := generate(t, open(t, "llama", ref.New(), Options{NoPrefix: true}), Request{Prompt: longer, MaxTokens: 6})
	again, _ := generate(t, e, Request{Prompt: longer, MaxTokens: 6})
	if !slices.Equal(again, want) {
		t.Errorf("after it %v, expected %v", again, want)
	}
	hold(e.generator)
	if p := e.generator.pool; p.Available() != p.Size() {
		t.Errorf("%d of %d blocks are free at the end", p.Available(), p.Size())
	}
}

// TestAheadWithFewBlocks: streams that want more blocks than there are yield to each
// other while steps run ahead, as they do on a host.
func TestAheadWithFewBlocks(t *testing.T) {
	opts := Options{Ctx: 192, KVBlocks: 3, MaxBatchTokens: 64}
	reqs := []Request{{Prompt: []int32{5, 4, 3, 2}, MaxTokens: 100}, {Prompt: make([]int32, 30), MaxTokens: 90}}
	host := open(t, "llama", ref.New(), opts)
	e := open(t, "llama", null.New(0), opts)
	if _, err := e.openGenerator(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := e.generator
	hold(g)
	var streams []*Stream
	for _, r := range reqs {
		s, err := e.Generate(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	go g.loop()
	for i, s := range streams {
		want, _ := generate(t, host, reqs[i])
		if got := collect(t, s); !slices.Equal(got, want) {
			t.Errorf("stream %d: %v, alone %v: %v", i, got, want, s.Err())
		}
	}
	if e.Stats().Preemptions == 0 {
		t.Error("nobody had to yield: the test shows nothing")
	}
}

// TestDeviceThatCannotResume: a device without the ops that keep ids waits for each
// step, and draws the same.
func TestDeviceThatCannotResume(t *testing.T) {
	req := Request{Prompt: []int32{1, 2, 3}, MaxTokens: 12}
	want, _ := generate(t, open(t, "llama", ref.New(), Options{}), req)
	for _, lacks := range []*graph.OpDef{graph.OpResume, graph.OpKeep} {
		be := null.New(0)
		be.Lacks = func(n *graph.Node) bool { return n.Op == lacks }
		e := open(t, "llama", be, Options{})
		if got, _ := generate(t, e, req); !slices.Equal(got, want) {
			t.Errorf("without %s: %v, expected %v", lacks.Name, got, want)
		}
		if e.generator.sampled == nil || be.Flights() != 1 {
			t.Errorf("without %s: ids on the device %v, %d steps in flight, expected 1", lacks.Name, e.generator.sampled != nil, be.Flights())
		}
	}
}

// TestRunSizesOfTheDevice: a backend names how large runs are; what the caller asks for
// comes first, and a backend that names nothing has the sizes of a CPU.
func TestRunSizesOfTheDevice(t *testing.T) {
	sizes := plan.RunSizes{Tokens: 40, Texts: 9, Scored: 3}
	texts := make([][]int32, 18)
	for i := range texts {
		texts[i] = []int32{int32(i)}
	}
	for _, c := range []struct {
		name                     string
		runs                     plan.RunSizes
		opts                     Options
		tokens                   int
		embeds, scores, generate int // runs
	}{
		{"named by nobody", plan.RunSizes{}, Options{}, 512, 1, 1, 1},
		{"named by the device", sizes, Options{}, 40, 2, 2, 3},
		{"asked for", sizes, Options{MaxBatchTokens: 20, MaxSeqs: 6}, 20, 3, 2, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			be := null.New(0)
			be.Runs = c.runs
			var mu sync.Mutex
			runs := 0
			be.Fail = func(what string) error {
				mu.Lock()
				defer mu.Unlock()
				if what == "enqueue" {
					runs++
				}
				return nil
			}
			count := func(f func()) int {
				mu.Lock()
				runs = 0
				mu.Unlock()
				f()
				mu.Lock()
				defer mu.Unlock()
				return runs
			}
			e := open(t, "llama", be, c.opts)
			if got := e.Options().MaxBatchTokens; got != c.tokens {
				t.Errorf("runs of %d tokens, expected %d", got, c.tokens)
			}
			embed := count(func() {
				if err := e.EmbedIDs(t.Context(), texts, make([]float32, len(texts)*e.cfg.EmbedDim), e.pooling()); err != nil {
					t.Fatal(err)
				}
			})
			score := count(func() {
				if _, err := e.ScoreIDs(t.Context(), [][]int32{{1, 2, 3, 4, 5, 6, 7}}); err != nil {
					t.Fatal(err)
				}
			})
			prefill := count(func() { generate(t, e, Request{Prompt: make([]int32, 100), MaxTokens: 1}) })
			if embed != c.embeds || score != c.scores || prefill != c.generate {
				t.Errorf("%d, %d and %d runs, expected %d, %d and %d", embed, score, prefill, c.embeds, c.scores, c.generate)
			}
		})
	}
}
