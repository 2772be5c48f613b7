package train

import (
	"errors"
	"math"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// Every kind of data trains the objective that it is for, from a file.
func TestObjectivesFromFiles(t *testing.T) {
	rows := func(line string) string { return strings.Repeat(line+"\n", 6) }
	for _, c := range []struct {
		objective, model, name, text string
		set                          func(*Config)
	}{
		{"lm", "llama", "a.txt", strings.Repeat("some words of a text\n", 20), nil},
		{"lm", "llama", "a.jsonl", rows(`{"text":"a document","label":1}`), nil},
		{"sft", "llama", "a.jsonl", rows(`{"prompt":"What is it? ","completion":"An answer."}`), nil},
		{"sft", "llama", "a.jsonl", rows(`{"instruction":"Say it","input":"word","output":"word"}`), func(c *Config) { c.SeqLen, c.BatchTokens = 0, 512 }},
		{"dpo", "llama", "a.jsonl", rows(`{"prompt":"Hi ","chosen":"Good day","rejected":"What"}`), nil},
		{"mlm", "bert", "a.txt", strings.Repeat("some words of a text ", 20), nil},
		{"contrastive", "bert", "a.jsonl", rows(`{"anchor":"one","positive":"two","negative":"three"}`), nil},
		{"regress", "bert", "a.jsonl", rows(`{"sentence1":"one","sentence2":"two","score":0.5}`), nil},
		{"distill_embedding", "bert", "a.jsonl", rows(`{"text":"one"}`), func(c *Config) { c.Objective.Teacher = testmodels.Dir(t, "bert") }},
	} {
		t.Run(c.objective+" "+c.model, func(t *testing.T) {
			cfg := fixture(t, c.model)
			cfg.Data, cfg.Objective.Type = []string{write(t, t.TempDir(), c.name, c.text)}, c.objective
			cfg.Steps, cfg.Warmup = 2, 0
			if c.set != nil {
				c.set(&cfg)
			}
			res, err := Run(t.Context(), cfg, Options{Backend: cpuBackend(t, 1)})
			must(t, err)
			if res.Steps != 2 || math.IsNaN(float64(res.Loss)) || res.Tokens == 0 {
				t.Errorf("%+v", res)
			}
		})
	}
}

// Data of another kind than the objective's are refused before training.
func TestWrongKind(t *testing.T) {
	c := fixture(t, "llama")
	c.Data = []string{write(t, t.TempDir(), "a.jsonl", `{"a":"one","b":"two"}`)}
	_, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "examples of kind pairs, expected one of [text answer] for objective lm") {
		t.Errorf("error %v", err)
	}
}
