package testmodels

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The fixtures hold together: every model has a reference with as many numbers as its
// ids call for, so that no comparison can pass by comparing nothing.
func TestReferencesAreWhole(t *testing.T) {
	for _, name := range All(t) {
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

// Every fixture is an encoder or a decoder, and the kinds are those that are there.
func TestFixturesAreFound(t *testing.T) {
	all, lms, encoders := All(t), Decoders(t), Encoders(t)
	if len(all) < 19 || len(lms)+len(encoders) != len(all) {
		t.Errorf("%d fixtures, expected at least 19; %d decoders and %d encoders", len(all), len(lms), len(encoders))
	}
	for _, name := range []string{"llama", "gpt2", "gguf/llama-q4_0"} {
		if !slices.Contains(lms, name) || slices.Contains(encoders, name) {
			t.Errorf("%s is no decoder, or an encoder", name)
		}
	}
	for _, name := range []string{"bert", "embeddinggemma", "gguf/bert-f16"} {
		if !slices.Contains(encoders, name) || slices.Contains(lms, name) {
			t.Errorf("%s is no encoder, or a decoder", name)
		}
	}
	if got := Directories(all); !slices.Contains(got, "bert") || slices.Contains(got, "gguf/bert-f16") {
		t.Errorf("the directories are %v", got)
	}
	if got := Trained(t); len(got) < 2 || !slices.Contains(got, "llama") {
		t.Errorf("trained are %v", got)
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
	for _, name := range Trained(t) {
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

// Processes share a list: each case has one.
func TestCasesOfProcesses(t *testing.T) {
	t.Setenv("HOTPATH_TEST_PART", "")
	for i := range 5 {
		if !Mine(t, i) {
			t.Errorf("case %d belongs to nobody", i)
		}
	}
	var got [5]int
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		t.Setenv("HOTPATH_TEST_PART", part)
		for i := range got {
			if Mine(t, i) {
				got[i]++
			}
		}
	}
	if got != [5]int{1, 1, 1, 1, 1} {
		t.Errorf("cases ran %v times, expected each once", got)
	}
}
