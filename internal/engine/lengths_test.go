package engine

import (
	"testing"

	"hotpath/internal/sample"
)

// A text that grows beyond the length up to which its rope is the short one is
// run again with the long one: each token is what the text so far would give as
// a prompt. What the cache holds of short texts serves no long one.
func TestTextsOutgrowTheirRope(t *testing.T) {
	const prompt, answer = 20, 90 // context 32, blocks of 64
	e := openAt(t, "../model/testdata/llama-longrope", Options{Ctx: 256, MaxBatchTokens: 48})
	if e.cfg.RopeContext != 32 || !e.cfg.RopeRestarts {
		t.Fatalf("context %d, restarts %v", e.cfg.RopeContext, e.cfg.RopeRestarts)
	}
	var text []int32
	for i := range prompt {
		text = append(text, int32(i*7%50))
	}
	out, _ := generate(t, e, Request{Prompt: text, MaxTokens: answer, Sample: sample.Params{}})
	text = append(text, out...)
	if len(out) != answer {
		t.Fatalf("%d tokens, want %d", len(out), answer)
	}
	for n := prompt; n < len(text); n += 5 {
		again := openAt(t, "../model/testdata/llama-longrope", Options{Ctx: 256, MaxBatchTokens: 256})
		if next, _ := generate(t, again, Request{Prompt: text[:n], MaxTokens: 1}); next[0] != text[n] {
			t.Errorf("token %d is %d, as a prompt's next it is %d", n, text[n], next[0])
		}
	}
	// The same long text again: nothing of it may come out of the cache.
	if _, s := generate(t, e, Request{Prompt: text, MaxTokens: 1}); s.Timing().Cached != 0 {
		t.Errorf("%d tokens of a long text came out of the cache", s.Timing().Cached)
	}
}

// Texts that are scored in pieces know how long they are in all.
func TestScoresKnowTheLength(t *testing.T) {
	for _, name := range []string{"llama-longrope", "llama-dynamic", "phi3"} {
		var text []int32
		for i := range 110 {
			text = append(text, int32(i*i%50))
		}
		var want []float32
		for _, batch := range []int{128, 24} {
			e := openAt(t, "../model/testdata/"+name, Options{Ctx: 120, MaxBatchTokens: batch})
			got, err := e.ScoreIDs(t.Context(), [][]int32{text})
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got[0]
			}
			for i, x := range got[0] {
				if d := x - want[i]; !(d < 1e-4 && d > -1e-4) {
					t.Fatalf("%s: token %d in pieces of %d: %g, whole %g", name, i, batch, x, want[i])
				}
			}
		}
	}
}
