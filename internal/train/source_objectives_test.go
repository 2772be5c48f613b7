package train

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// objectiveRun is data from which an objective is trained.
type objectiveRun struct {
	objective, model, name, text string
	set                          func(*Config)
}

func objectiveRuns(t *testing.T) []objectiveRun {
	rows := func(lines ...string) string { return strings.Repeat(strings.Join(lines, "\n")+"\n", 6) }
	return []objectiveRun{
		{"lm", "llama", "a.txt", strings.Repeat("some words of a text\n", 20), nil},
		{"lm", "llama", "a.jsonl", rows(`{"text":"a document","label":1}`), nil},
		{"sft", "llama", "a.jsonl", rows(`{"prompt":"What is it? ","completion":"An answer."}`), nil},
		{"sft", "llama", "b.jsonl", rows(`{"instruction":"Say it","input":"word","output":"word"}`), func(c *Config) { c.SeqLen, c.BatchTokens = 0, 512 }},
		{"sft", "gguf/llama-q8_0.gguf", "c.jsonl", rows(`{"prompt":"What is it? ","completion":"An answer."}`), func(c *Config) { c.LoRA = LoRAConfig{Rank: 4} }},
		{"dpo", "llama", "a.jsonl", rows(`{"prompt":"Hi ","chosen":"Good day","rejected":"What"}`), nil},
		{"distill", "llama", "a.txt", strings.Repeat("some words of a text\n", 20), func(c *Config) { c.Objective.Teacher = testmodels.Dir(t, "llama"); c.Init = "random" }},
		{"mlm", "bert", "a.txt", strings.Repeat("some words of a text ", 20), nil},
		{"contrastive", "bert", "a.jsonl", rows(`{"anchor":"one","positive":"two","negative":"three"}`, `{"anchor":"four","positive":"five","negative":"six"}`), nil},
		{"contrastive", "bert", "b.jsonl", rows(`{"anchor":"one","positive":"two"}`, `{"anchor":"four","positive":"five"}`), func(c *Config) { c.MicroTokens, c.SeqLen = 24, 12 }},
		{"regress", "bert", "a.jsonl", rows(`{"sentence1":"one","sentence2":"two","score":0.5}`), nil},
		{"classify", "bert", "a.jsonl", rows(`{"text":"one","label":0}`, `{"text":"two","label":1}`), func(c *Config) { c.Objective.Labels = 2 }},
		{"distill_embedding", "bert", "a.jsonl", rows(`{"text":"one"}`), func(c *Config) { c.Objective.Teacher = testmodels.Dir(t, "bert") }},
	}
}

// Every kind of data trains the objective that it is for, from a file, to the
// same bits at any number of workers.
func TestObjectivesFromFiles(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range objectiveRuns(t) {
		seen[c.objective] = true
		t.Run(c.objective+" "+c.name, func(t *testing.T) {
			var first losses
			var whole map[string]string
			data := write(t, t.TempDir(), c.name, c.text)
			for _, workers := range []int{1, 2, 4} {
				cfg := fixture(t, c.model)
				cfg.Data, cfg.Objective.Type = []string{data}, c.objective
				cfg.Steps, cfg.Warmup, cfg.Dropout = 3, 0, 0.1
				if c.set != nil {
					c.set(&cfg)
				}
				var steps losses
				res, err := Run(t.Context(), cfg, Options{Backend: cpuBackend(t, workers), OnStep: steps.add})
				must(t, err)
				if res.Steps != 3 || math.IsNaN(float64(res.Loss)) || res.Tokens == 0 {
					t.Errorf("%+v", res)
				}
				files := map[string]string{}
				for _, name := range []string{stateFile, "model.safetensors", "model.gguf"} {
					if text, err := os.ReadFile(filepath.Join(res.Checkpoint, name)); err == nil {
						files[name] = string(text)
					}
				}
				if first == nil {
					first, whole = steps, files
					continue
				}
				if !slices.Equal(first, steps) {
					t.Errorf("steps with %d workers\n%v, with 1\n%v", workers, steps, first)
				}
				for name := range whole {
					if files[name] != whole[name] {
						t.Errorf("%s with %d workers has other bits", name, workers)
					}
				}
			}
		})
	}
	for name := range objectives {
		if !seen[name] {
			t.Errorf("objective %s is not trained", name)
		}
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

// A label that the classifier has no class for is refused with its place before
// training, from validation data and from the cache of tokens too.
func TestLabelsOutOfRange(t *testing.T) {
	good := write(t, t.TempDir(), "good.jsonl", strings.Repeat("{\"text\":\"one\",\"label\":0}\n{\"text\":\"two\",\"label\":1}\n", 5))
	bad := write(t, t.TempDir(), "bad.jsonl", "{\"text\":\"one\",\"label\":0}\n{\"text\":\"two\",\"label\":2}\n")
	run := func(data, valid string, labels int) error {
		c := fixture(t, "bert")
		c.Data, c.Objective = List{data}, ObjectiveConfig{Type: "classify", Labels: labels}
		c.Steps, c.Warmup = 1, 0
		if valid != "" {
			c.Validation.Data = List{valid}
		}
		_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), OnStep: func(Step) error { t.Error("a step was made"); return nil }})
		return err
	}
	want := "bad.jsonl: line 2, column 23: field \"label\": expected a class, a whole number from 0 to 1, found 2"
	for name, err := range map[string]error{"data": run(bad, "", 2), "validation": run(good, bad, 2)} {
		if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	was := memoryData
	memoryData = 0
	defer func() { memoryData = was }()
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	c := fixture(t, "bert")
	c.Data, c.Objective, c.Steps, c.Warmup = List{bad}, ObjectiveConfig{Type: "classify", Labels: 3}, 1, 0
	_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	if err := run(bad, "", 2); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), want) {
		t.Errorf("cached: error %v, want %q", err, want)
	}
}

// What cannot be trained is refused in one line before the first step.
func TestRefusedBeforeTheFirstStep(t *testing.T) {
	text, bert := testmodels.Dir(t, "shakespeare.txt"), testmodels.Dir(t, "bert")
	pairs := write(t, t.TempDir(), "pairs.jsonl", `{"anchor":"a","positive":"b"}`+"\n"+`{"anchor":"c","positive":"d"}`)
	for want, change := range map[string]func(c *Config){
		"field lora.roles: " + testmodels.Dir(t, "gpt2") + " (gpt2) has no projection of the role [gate]": func(c *Config) {
			c.Model, c.LoRA = testmodels.Dir(t, "gpt2"), LoRAConfig{Rank: 2, Roles: []string{"up", "gate"}}
		},
		"(gpt2) has no projection of the role [gate]: ": func(c *Config) {
			c.Model, c.LoRA = testmodels.Dir(t, "gpt2"), LoRAConfig{Rank: 2, Roles: []string{"gate"}}
		},
		"field objective.freeze: no weight is left to train": func(c *Config) {
			c.Objective.Freeze = []string{"embedding", "q", "k", "v", "o", "gate", "up", "down", "head", "norm", "bias"}
		},
		`a.jsonl: line 1, column 1: fields "chosen" and "rejected" have the same tokens, expected different answers`: func(c *Config) {
			c.Data, c.Objective.Type = List{write(t, t.TempDir(), "a.jsonl", `{"chosen":"a","rejected":"a"}`)}, "dpo"
		},
		"field objective: reference: expected the file of a model, because a described model has no file": func(c *Config) {
			s := DefaultShape()
			s.DModel, s.NLayers, s.NHeads, s.Tokenizer = 32, 1, 2, "char"
			c.Model, c.Shape, c.Init, c.Objective.Type = "", &s, "random", "dpo"
			c.Data = List{write(t, t.TempDir(), "a.jsonl", `{"chosen":"a","rejected":"b"}`)}
		},
		"field objective: teacher: token ": func(c *Config) {
			c.Objective = ObjectiveConfig{Type: "distill", Teacher: otherTokens(t, "llama")}
		},
		"field sample.every: expected 0, because a bert model of this kind writes no texts, found 1": func(c *Config) {
			c.Model, c.Objective.Type, c.Sample.Every = testmodels.Dir(t, "bert"), "mlm", 1
		},
		"field objective: type contrastive: the data have 1 pair and no negatives, expected at least 2 pairs": func(c *Config) {
			c.Model, c.Objective.Type, c.Data = bert, "contrastive", List{write(t, t.TempDir(), "a.jsonl", `{"anchor":"a","positive":"b"}`)}
		},
		"field objective: batch: expected 0 or at least 2 for data without negatives": func(c *Config) {
			c.Model, c.Objective, c.Data = bert, ObjectiveConfig{Type: "contrastive", Batch: 1}, List{pairs}
		},
		"field objective: dim_weights: expected at least one above 0, found [0 0]": func(c *Config) {
			c.Model, c.Objective, c.Data = bert, ObjectiveConfig{Type: "contrastive", Dims: []int{8, 16}, DimWeights: []float64{0, 0}}, List{pairs}
		},
		"field objective: dims: expected 1 to 32, the width of embeddings, found 0": func(c *Config) {
			c.Model, c.Objective, c.Data = bert, ObjectiveConfig{Type: "contrastive", Dims: []int{0}}, List{pairs}
		},
		"expected a .npy file": func(c *Config) {
			c.Model, c.Objective = bert, ObjectiveConfig{Type: "distill_embedding", Vectors: t.TempDir()}
			c.Data = List{write(t, t.TempDir(), "a.jsonl", `{"text":"a"}`)}
		},
		"field lora.rank: ":                  func(c *Config) { c.LoRA.Rank = 65536 },
		"is inside of the folder of data ":   func(c *Config) { c.Data = List{filepath.Dir(c.Out)} },
		"which would take its logs for data": func(c *Config) { c.Validation.Data = List{c.Out} },
		"field validation.sts: ": func(c *Config) {
			c.Model, c.Objective.Type, c.Validation.Share, c.Validation.STS = bert, "mlm", 0.2, List{text}
		},
		"field validation.share: 0.5 of 1 pieces of text leaves nothing to train on": func(c *Config) {
			c.Validation.Share, c.Data = 0.5, List{write(t, t.TempDir(), "a.txt", "a b c")}
		},
		"examples of kind text, expected one of [answer] for objective sft": func(c *Config) { c.Objective.Type = "sft" },
		"field sample.prompt: ": func(c *Config) { c.Sample.Every, c.Sample.Prompt = 1, strings.Repeat("word ", 600) },
		"short.jsonl: no text to learn from": func(c *Config) {
			c.Data = List{write(t, t.TempDir(), "short.jsonl", `{"text":""}`)}
		},
		"field model.vocab: expected 257, as many tokens as bpe finds in the data, or up to 127 more, found 5000": func(c *Config) {
			s := DefaultShape()
			s.DModel, s.NLayers, s.NHeads, s.Tokenizer, s.Vocab = 32, 1, 2, "bpe", 5000
			c.Model, c.Shape, c.Init, c.Data = "", &s, "random", List{write(t, t.TempDir(), "a.txt", "abc")}
		},
	} {
		c := fixture(t, "llama")
		c.Data = List{text}
		change(&c)
		steps := 0
		_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), OnStep: func(Step) error { steps++; return nil }, OnSample: func(int, string) error { return nil }})
		if !errors.Is(err, ErrConfig) && !errors.Is(err, ErrData) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || steps > 0 {
			t.Errorf("error %v after %d steps, want one line with %q", err, steps, want)
		}
	}
}

// otherTokens is a fixture whose tokens 300 and 301 are exchanged.
func otherTokens(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(testmodels.Dir(t, name))))
	path := filepath.Join(dir, "tokenizer.json")
	text, err := os.ReadFile(path)
	must(t, err)
	var whole map[string]any
	must(t, json.Unmarshal(text, &whole))
	vocab := whole["model"].(map[string]any)["vocab"].(map[string]any)
	for token, id := range vocab {
		switch id.(float64) {
		case 300:
			vocab[token] = 301
		case 301:
			vocab[token] = 300
		}
	}
	text, err = json.Marshal(whole)
	must(t, err)
	must(t, os.WriteFile(path, text, 0o600))
	return dir
}
