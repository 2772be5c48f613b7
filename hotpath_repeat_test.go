package hotpath_test

import (
	"slices"
	"testing"

	"hotpath"
	"hotpath/internal/testmodels"
)

// TestTheSameCallTwice: a real model answers a prompt twice with the same tokens,
// greedy and drawn; the second time most of the prompt is in the KV cache.
func TestTheSameCallTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("a real model takes long")
	}
	m, err := hotpath.Open(testmodels.RealOrInside(t, "SmolLM2-135M-Instruct.Q4_1.gguf"), hotpath.Options{Ctx: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const how = " Answer in plain words, with one example from nature. Do not invent facts, and say so where you do not know. A pupil of ten asks."
	for _, prompt := range []string{
		"Why is the sky blue?", "How do birds find their way?", "Why do dogs bark?", "Where do clouds come from?",
		"Name three animals that sleep in winter.", "How tall is an oak?",
	} {
		for begin, o := range map[string]hotpath.GenerateOptions{"": {MaxTokens: 24}, "Tell me: ": {MaxTokens: 24, Temperature: 1, Seed: 1}} {
			var got [2]hotpath.Completion
			for i := range got {
				if got[i], err = m.Complete(t.Context(), begin+prompt+how+how, o); err != nil {
					t.Fatal(err)
				}
			}
			if got[0].CachedTokens != 0 || got[1].CachedTokens == 0 {
				t.Errorf("%s: of %d tokens %d were cached, then %d", prompt, got[0].PromptTokens, got[0].CachedTokens, got[1].CachedTokens)
			}
			if !slices.Equal(got[0].IDs, got[1].IDs) {
				t.Errorf("%s: temperature %g: %q and then, %d of %d tokens cached, %q", prompt, o.Temperature, got[0].Text, got[1].CachedTokens, got[1].PromptTokens, got[1].Text)
			}
		}
	}
}
