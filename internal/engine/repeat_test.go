package engine

import (
	"fmt"
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/ref"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/kv"
	"hotpath/internal/plan"
	"hotpath/internal/sample"
	"hotpath/internal/testmodels"
)

// trace is a generation with the logits that its tokens were picked from.
type trace struct {
	tokens []int32
	logits [][]float32
	cached int
}

// traced runs generations side by side, stepping the loop itself. Those from
// late on arrive after the first step.
func traced(t testing.TB, e *Engine, late int, reqs ...Request) []trace {
	t.Helper()
	g, err := e.openGenerator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hold(g)
	var streams []*Stream
	start := func(reqs []Request) {
		for _, r := range reqs {
			s, err := e.Generate(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
		}
	}
	start(reqs[:late])
	out := make([]trace, len(reqs))
	for step := 0; g.gather(); step++ {
		g.step()
		for i, s := range streams {
			if s.composed && s.row >= 0 && len(out[i].logits) < len(s.ids) {
				out[i].logits = append(out[i].logits, slices.Clone(g.at.row(s.row)))
			}
		}
		if step == 0 {
			start(reqs[late:])
		}
	}
	for i, s := range streams {
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
		out[i].tokens, out[i].cached = slices.Clone(s.ids), s.Timing().Cached
	}
	return out
}

func alone(t testing.TB, e *Engine, req Request) trace {
	t.Helper()
	return traced(t, e, 1, req)[0]
}

// differs says where two traces part, or "".
func (a trace) differs(b trace) string {
	if !slices.Equal(a.tokens, b.tokens) {
		return fmt.Sprintf("tokens %v and %v", a.tokens, b.tokens)
	}
	for i := range a.logits {
		for k, v := range a.logits[i] {
			if v != b.logits[i][k] {
				return fmt.Sprintf("logit %d of token %d is %v and %v", k, i, v, b.logits[i][k])
			}
		}
	}
	return ""
}

// onTiers runs f at the default precision on every tier that computes in
// another way; a short test has that of the machine.
func onTiers(t *testing.T, workers int, f func(t *testing.T, be *cpu.Backend)) {
	for _, tier := range []isa.Tier{isa.Generic, isa.AVX2, isa.VNNI, isa.AMX, isa.AMXFP16} {
		if !slices.Contains(isa.Available(), tier) || testing.Short() && tier != isa.Active() {
			continue
		}
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			be, err := cpu.New(cpu.Options{Workers: workers, Test: true})
			if err != nil {
				t.Fatal(err)
			}
			defer be.Close()
			f(t, be)
		})
	}
}

// text is n tokens that depend on a seed.
func text(e *Engine, n, seed int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i*7 + i*13 + seed*31 + 5) % e.cfg.Vocab)
	}
	return ids
}

// repeatable are fixtures whose products take different ways for few rows and
// for many: the file's blocks of several kinds, floats in panels, and experts.
func repeatable(t *testing.T) map[string]string {
	return map[string]string{
		"q4_1": testmodels.Dir(t, "gguf/llama-q4_1"), "q8_0": testmodels.Dir(t, "gguf/llama-q8_0"), "q5_0": testmodels.Dir(t, "gguf/llama-q5_0"),
		"f16": testmodels.Dir(t, "gguf/llama-f16"), "wide": wideLlama(t), "experts": "../model/testdata/qwen3-moe", "window": "../model/testdata/gemma3",
	}
}

// drawn is a request of n tokens, every other one with a seed.
func drawn(e *Engine, n, seed int) Request {
	req := Request{Prompt: text(e, n, seed), MaxTokens: 4}
	if seed%2 == 1 {
		req.Sample = sample.Params{Temperature: 0.9, TopK: 40, Seed: 42}
	}
	return req
}

// TestRepeatedCallsAreExact: the same call, alone on the engine, gives the same
// tokens from the same logits, whatever the KV cache holds of its prompt.
func TestRepeatedCallsAreExact(t *testing.T) {
	for name, path := range repeatable(t) {
		t.Run(name, func(t *testing.T) {
			onTiers(t, 2, func(t *testing.T, be *cpu.Backend) {
				batches := []int{512}
				if name == "q4_1" && !testing.Short() {
					batches = []int{512, 65, 48, 2}
				}
				for _, batch := range batches {
					// One engine sees a prompt twice, another finds its first block only,
					// by a prompt that begins alike.
					o := Options{MaxBatchTokens: batch}
					e, f := openOn(t, path, be, o), openOn(t, path, be, o)
					lengths := []int{2, 17, 63, 64, 65, 66, 100, 128, 129, 130, 193}
					if batch == 2 {
						lengths = []int{65, 67, 129}
					}
					for i, n := range lengths {
						req := drawn(e, min(n, e.opts.Ctx-6), i)
						first, again := alone(t, e, req), alone(t, e, req)
						if d := first.differs(again); d != "" {
							t.Errorf("batches of %d, prompt of %d, %d tokens cached: %s", batch, n, again.cached, d)
						}
						if (again.cached > 0) != (n > kv.BlockTokens+1) {
							t.Errorf("batches of %d, prompt of %d: %d tokens were cached", batch, n, again.cached)
						}
						if n <= kv.BlockTokens {
							continue
						}
						other := append(slices.Clone(req.Prompt[:kv.BlockTokens]), text(e, 9, i+1)...)
						alone(t, f, Request{Prompt: other[:min(len(other), e.opts.Ctx-2)], MaxTokens: 1})
						if again = alone(t, f, req); first.differs(again) != "" {
							t.Errorf("batches of %d, prompt of %d after one that begins alike, %d tokens cached: %s", batch, n, again.cached, first.differs(again))
						}
						if n > kv.BlockTokens+1 && again.cached != kv.BlockTokens {
							t.Errorf("batches of %d, prompt of %d after one that begins alike: %d tokens were cached", batch, n, again.cached)
						}
					}
				}
			})
		})
	}
}

// TestRepeatedCallsAreExactAfterEviction: blocks of a prompt that were given to
// others are computed as before.
func TestRepeatedCallsAreExactAfterEviction(t *testing.T) {
	onTiers(t, 2, func(t *testing.T, be *cpu.Backend) {
		e := openOn(t, testmodels.Dir(t, "gguf/llama-q4_1"), be, Options{Ctx: 256, KVBlocks: 4, MaxBatchTokens: 100})
		req := drawn(e, 200, 1)
		first := alone(t, e, req)
		seen := map[int]bool{}
		for n := 10; n < 250; n += 60 {
			alone(t, e, Request{Prompt: text(e, n, n), MaxTokens: 1})
			again := alone(t, e, req)
			if d := first.differs(again); d != "" {
				t.Errorf("after a prompt of %d, %d tokens cached: %s", n, again.cached, d)
			}
			seen[again.cached] = true
		}
		if len(seen) < 3 {
			t.Errorf("prompts found %v tokens cached, expected several numbers", seen)
		}
	})
}

// TestRepeatedCallsAreExactInEveryPrecision: so are calls in the classes that
// have to be asked for.
func TestRepeatedCallsAreExactInEveryPrecision(t *testing.T) {
	for _, tier := range []isa.Tier{isa.AVX2, isa.VNNI, isa.AMX, isa.AMXFP16} {
		if !slices.Contains(isa.Available(), tier) {
			continue
		}
		for _, precision := range []cpu.Precision{cpu.F32, cpu.BF16, cpu.I16G32, cpu.I8G32} {
			for _, name := range []string{"gguf/llama-q8_0", "gguf/llama-f16"} {
				t.Run(fmt.Sprint(tier, " ", precision, " ", name), func(t *testing.T) {
					defer isa.Use(tier)()
					be, err := cpu.New(cpu.Options{Workers: 2, Precision: precision})
					if err != nil {
						t.Fatal(err)
					}
					defer be.Close()
					e := openOn(t, testmodels.Dir(t, name), be, Options{})
					for i, n := range []int{65, 67, 75, 129, 140, 150} {
						req := drawn(e, n, i)
						first, again := alone(t, e, req), alone(t, e, req)
						if d := first.differs(again); d != "" {
							t.Errorf("prompt of %d, %d tokens cached: %s", n, again.cached, d)
						}
					}
				})
			}
		}
	}
}

// TestAnswersAreNotTakenForPrompts: what one call generated is part of the next
// one's prompt, as in a conversation, and is computed as a prompt there.
func TestAnswersAreNotTakenForPrompts(t *testing.T) {
	onTiers(t, 2, func(t *testing.T, be *cpu.Backend) {
		path := testmodels.Dir(t, "gguf/llama-q8_0")
		e := openOn(t, path, be, Options{})
		req := Request{Prompt: text(e, 70, 3), MaxTokens: 80}
		turn := alone(t, e, req)
		req = Request{Prompt: slices.Concat(req.Prompt, turn.tokens, text(e, 9, 4)), MaxTokens: 4}
		second := alone(t, e, req)
		if second.cached != kv.BlockTokens {
			t.Errorf("%d tokens cached, expected the block of the first prompt", second.cached)
		}
		if d := second.differs(alone(t, openOn(t, path, be, Options{}), req)); d != "" {
			t.Errorf("after the first turn and without it: %s", d)
		}
	})
}

// preempted runs generations, prompts and answers of so many tokens, with many
// blocks and with so few that the youngest has to yield, and holds that one to
// the same logits.
func preempted(t *testing.T, path string, be plan.Backend, ctx, blocks int, sizes ...[2]int) {
	t.Helper()
	var want []trace
	for _, blocks := range []int{16, blocks} {
		e := openOn(t, path, be, Options{Ctx: ctx, KVBlocks: blocks})
		var reqs []Request
		for i, n := range sizes {
			reqs = append(reqs, Request{Prompt: text(e, n[0], i), MaxTokens: n[1]})
		}
		got := traced(t, e, len(reqs), reqs...)
		if want == nil {
			want = got
			continue
		}
		if e.Stats().Preemptions == 0 {
			t.Error("nobody had to yield: the test shows nothing")
		}
		if last := len(sizes) - 1; want[last].differs(got[last]) != "" {
			t.Error(want[last].differs(got[last]))
		}
	}
}

// TestPreemptedGenerationsAreExact: tokens that were generated are computed
// again one at a time. Two rows and three take the same kernels for these types,
// so that company changes nothing here, and there are always two.
func TestPreemptedGenerationsAreExact(t *testing.T) {
	for _, name := range []string{"gguf/llama-q4_1", "gguf/llama-q8_0", "gguf/llama-f16"} {
		t.Run(name, func(t *testing.T) {
			onTiers(t, 2, func(t *testing.T, be *cpu.Backend) {
				preempted(t, testmodels.Dir(t, name), be, 256, 5, [2]int{8, 180}, [2]int{8, 92}, [2]int{66, 61})
			})
		})
	}
	// Where rotation depends on the length of the text so far, so does that of
	// tokens that are run again.
	for _, name := range []string{"llama-dynamic", "llama-longrope", "phi3"} {
		t.Run(name, func(t *testing.T) {
			preempted(t, "../model/testdata/"+name, ref.New(), 120, 3, [2]int{4, 100}, [2]int{4, 70}, [2]int{20, 60})
		})
	}
}

// TestRealModelRepeats: a real model gives the same logits twice.
func TestRealModelRepeats(t *testing.T) {
	path := testmodels.RealOrInside(t, "SmolLM2-135M-Instruct.Q4_1.gguf")
	if testing.Short() {
		t.Skip("a real model takes long")
	}
	be, err := cpu.New(cpu.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	e := openOn(t, path, be, Options{})
	for i, n := range []int{65, 70, 129, 140, 190, 400, 513, 600} {
		if n+64 > e.cfg.MaxSeq {
			continue // the model inside the program has 512
		}
		req := drawn(e, n, i)
		first, again := alone(t, e, req), alone(t, e, req)
		if d := first.differs(again); d != "" {
			t.Errorf("prompt of %d, %d tokens cached: %s", n, again.cached, d)
		}
	}
}
