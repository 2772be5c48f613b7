package train

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The field validation.best chooses the best checkpoint, on both sides of a
// resume; evaluations of equal figures do not replace the first.
func TestBestByFigure(t *testing.T) {
	_, sts, pairs := readVectorGolden(t)
	of := map[string]func(e Evaluation) float64{
		"loss":     func(e Evaluation) float64 { return -e.Loss },
		"spearman": func(e Evaluation) float64 { return e.Spearman },
		"pearson":  func(e Evaluation) float64 { return e.Pearson },
		"mrr":      func(e Evaluation) float64 { return e.MRR },
		"ndcg10":   func(e Evaluation) float64 { return e.NDCG10 },
	}
	chosen := map[int]bool{}
	for word, value := range of {
		c := fixture(t, "bert")
		c.Data, c.Objective.Type, c.LR = List{pairs}, "contrastive", 3e-3
		c.Warmup, c.BatchTokens, c.SeqLen, c.Keep = 0, 512, 32, 1
		c.Validation.Data, c.Validation.STS, c.Validation.Every, c.Validation.Best = List{pairs}, List{sts}, 1, word
		c.Schedule = "constant"
		var seen losses
		for _, steps := range []int{3, 8} {
			c.Steps = steps
			_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), OnStep: seen.add, Resume: "auto"})
			must(t, err)
		}
		top := slices.MaxFunc(seen, func(a, b Step) int { return cmp.Or(cmp.Compare(value(a.Eval), value(b.Eval)), b.Step-a.Step) })
		steps, err := checkpoints(c.Out)
		must(t, err)
		text, err := os.ReadFile(filepath.Join(c.Out, bestFile))
		must(t, err)
		var named struct {
			Step       int
			Checkpoint string
			Loss       float64 `json:"validation_loss"`
		}
		must(t, json.Unmarshal(text, &named))
		if !slices.Contains(steps, top.Step) || named.Step != top.Step || named.Loss != top.Eval.Loss || !strings.Contains(string(text), `"val_`+word+`":`) {
			t.Errorf("best by %s: %s, checkpoints %v, expected step %d of %v", word, text, steps, top.Step, seen)
		}
		chosen[top.Step] = true
	}
	if len(chosen) < 2 {
		t.Errorf("all figures choose the same step %v: this run tells nothing", chosen)
	}
}

// A figure that evaluations lack is refused before the first step, and so is
// another figure than that of the checkpoint.
func TestBestFigureRefused(t *testing.T) {
	_, sts, pairs := readVectorGolden(t)
	c := still(t, "bert", "contrastive", pairs)
	c.Validation.Data, c.Validation.Best = List{pairs}, "spearman"
	for what, change := range map[string]func(c *Config){
		"validation.best: expected a figure that evaluations of these data have (loss, mrr, ndcg10)": func(*Config) {},
		"validation.best: expected one of loss, ppl, bpb":                                            func(c *Config) { c.Validation.Best = "speerman" },
		"validation.best: expected loss without validation.data":                                     func(c *Config) { c.Validation.Data = nil },
	} {
		c := c
		c.Out = filepath.Join(t.TempDir(), "out")
		change(&c)
		_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), OnStep: func(Step) error { t.Error("a step was made"); return nil }})
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, expected %q", err, what)
		}
	}
	c.Validation.STS = List{sts}
	_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 2)})
	must(t, err)
	c.Steps, c.Validation.Best = 4, "mrr"
	_, err = Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), Resume: "auto"})
	if !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), "validation.best") {
		t.Errorf("error %v of another figure than the checkpoint's", err)
	}
}

// The best checkpoint, its figure and its name outlast a run without evaluations,
// and a run in another folder names no checkpoint that its folder lacks.
func TestBestOutlastsARunWithoutEvaluations(t *testing.T) {
	_, sts, pairs := readVectorGolden(t)
	c := still(t, "bert", "contrastive", pairs)
	c.Keep, c.Steps = 1, 1
	c.Validation = ValidationConfig{Data: List{pairs}, STS: List{sts}, Every: 1, Best: "spearman", KeepBest: true}
	first, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 2)})
	must(t, err)
	name := filepath.Join(c.Out, bestFile)
	before, err := os.ReadFile(name)
	must(t, err)

	without := c
	without.Steps, without.Validation = 2, ValidationConfig{KeepBest: true}
	res, err := Run(t.Context(), without, Options{Backend: cpuBackend(t, 2), Resume: "auto"})
	must(t, err)
	now, err := os.ReadFile(name)
	must(t, err)
	if string(now) != string(before) || res.BestFigure != first.BestFigure || res.BestValue != first.BestValue {
		t.Errorf("best %s became %s, result %+v", before, now, res)
	}
	steps, err := checkpoints(c.Out)
	must(t, err)
	if !slices.Equal(steps, []int{1, 2}) {
		t.Errorf("checkpoints %v", steps)
	}

	fork := without
	fork.Out, fork.Steps = t.TempDir(), 3
	_, err = Run(t.Context(), fork, Options{Backend: cpuBackend(t, 2), Resume: res.Checkpoint})
	must(t, err)
	if text, err := os.ReadFile(filepath.Join(fork.Out, bestFile)); err == nil {
		t.Errorf("%s of another folder's checkpoint: %s", bestFile, text)
	}

	c.Steps = 3
	_, err = Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), Resume: "auto"})
	must(t, err)
}
