package testmodels

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The fixtures hold together: every model has a reference with as many numbers as its
// ids call for, so that no comparison can pass by comparing nothing.
func TestReferencesAreWhole(t *testing.T) {
	names := []string{"llama", "llama-odd", "gpt2", "bert", "bert-odd", "embeddinggemma"}
	files, err := os.ReadDir(Dir(t, "gguf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".gguf"); ok {
			names = append(names, "gguf/"+name)
		}
	}
	if len(names) < 15 {
		t.Fatalf("%d fixtures, expected at least 15: %v", len(names), names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			r := Load(t, name)
			if len(r.Cases) < 6 {
				t.Fatalf("%d cases, expected at least 6", len(r.Cases))
			}
			if r.Hidden.Case >= len(r.Cases) || len(r.Hidden.LastToken) == 0 {
				t.Errorf("hidden states of case %d in %d layers", r.Hidden.Case, len(r.Hidden.LastToken))
			}
			for i, c := range r.Cases {
				switch r.Kind {
				case "lm":
					if len(c.NLL) != len(c.IDs)-1 || len(c.Greedy) == 0 || len(c.Greedy) != len(c.Margins) {
						t.Errorf("case %d: %d ids, %d nll, %d greedy, %d margins", i, len(c.IDs), len(c.NLL), len(c.Greedy), len(c.Margins))
					}
				case "embed":
					if len(c.IDs) > r.MaxTokens || len(c.FullIDs) != 0 && len(c.FullIDs) <= len(c.IDs) {
						t.Errorf("case %d: %d ids of %d, at most %d expected", i, len(c.IDs), len(c.FullIDs), r.MaxTokens)
					}
					for pooling, v := range c.Pooled {
						if n := norm(v); math.Abs(n-1) > 1e-5 || len(v) != len(c.Embedding) || c.Norms[pooling] == 0 {
							t.Errorf("case %d: %s pooling has %d values of norm %g", i, pooling, len(v), n)
						}
					}
					if len(c.Pooled) != 3 {
						t.Errorf("case %d: %d poolings, expected 3", i, len(c.Pooled))
					}
				default:
					t.Fatalf("kind %q", r.Kind)
				}
			}
		})
	}
}

func norm(v []float32) float64 {
	var s float64
	for _, x := range v {
		s += float64(x) * float64(x)
	}
	return math.Sqrt(s)
}

func TestRealIsFoundWhereTheVariableSays(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOTPATH_MODELS", dir)
	want := filepath.Join(dir, "model")
	if err := os.WriteFile(want, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Real(t, "model"); got != want {
		t.Errorf("Real = %q, expected %q", got, want)
	}
}

func TestTrainingRunsAreWhole(t *testing.T) {
	for _, name := range []string{"llama", "gpt2"} {
		r := LoadTraining(t, name)
		if r.Steps == 0 || len(r.Tokens) != r.Steps || len(r.Losses) != r.Steps || len(r.GradNorms) != r.Steps {
			t.Errorf("%s: %d steps, %d batches, %d losses, %d norms", name, r.Steps, len(r.Tokens), len(r.Losses), len(r.GradNorms))
		}
		if r.LR == 0 || r.Beta1 == 0 || r.Beta2 == 0 || r.Eps == 0 || r.WeightDecay == 0 || r.Clip == 0 || len(r.Decayed) == 0 || len(r.After) == 0 {
			t.Errorf("%s: the recipe has a hole: %+v", name, r)
		}
		Dir(t, "train/"+name+"-grads.safetensors")
		Dir(t, "train/"+name+"-after.safetensors")
	}
}
