package hotpath

import (
	"context"
	"testing"

	"hotpath/internal/testmodels"
)

// TestStats: a server sees what a model has done, before, after and when it is
// closed. What the KV cache holds meanwhile is a test of the engine's.
func TestStats(t *testing.T) {
	m := open(t, testmodels.Dir(t, "llama"), Options{})
	if s := m.Stats(); s != (Stats{}) {
		t.Errorf("before the first call: %+v", s)
	}
	if _, err := m.Complete(context.Background(), "once upon a time", GenerateOptions{MaxTokens: 4, Raw: true, IgnoreEOS: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Score(context.Background(), []string{"rain in the hills"}, ScoreOptions{}); err != nil {
		t.Fatal(err)
	}
	s := m.Stats()
	if s.GeneratedTokens != 4 || s.PromptTokens == 0 || s.ScoreTokens == 0 || s.KVBlocks == 0 || s.Waiting != 0 {
		t.Errorf("after both calls: %+v", s)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if s := m.Stats(); s.Running != 0 || s.GeneratedTokens != 4 {
		t.Errorf("after Close: %+v", s)
	}
}
