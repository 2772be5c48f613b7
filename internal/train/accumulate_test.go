package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAccumulation: several runs whose gradients are summed make the step of one
// run over all of them, with the same bits at any number of workers, and a step
// that is cancelled between two runs leaves nothing behind.
func TestAccumulation(t *testing.T) {
	const steps = 5
	curve := func(micro, workers int) (got []float32, weights []float32) {
		c := fixture(t, "llama")
		c.MicroTokens = micro
		tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, workers)})
		must(t, err)
		defer func() { must(t, tr.Close()) }()
		for i := range steps {
			if micro > 0 && i == 2 {
				before, at := everything(t, tr)
				ctx := &countdown{Context: t.Context()}
				ctx.left.Store(40)
				if _, err := tr.Step(ctx); !errors.Is(err, context.Canceled) {
					t.Fatalf("error %v of a cancelled step", err)
				}
				if now, place := everything(t, tr); !slices.Equal(now, before) || place != at {
					t.Fatal("a cancelled step left something behind")
				}
			}
			s, err := tr.Step(t.Context())
			must(t, err)
			if want := 3; micro > 0 && len(tr.data.runs) < want {
				t.Fatalf("%d runs of a step, want at least %d", len(tr.data.runs), want)
			}
			got = append(got, s.Loss, s.GradNorm)
		}
		weights, _ = everything(t, tr)
		return got, weights
	}
	whole, _ := curve(0, 1)
	split, weights := curve(32, 1)
	for i, v := range whole {
		if d := math.Abs(float64(split[i]/v - 1)); !(d <= 1e-4) {
			t.Errorf("value %d is %g in parts, %g in one run", i, split[i], v)
		}
	}
	for _, workers := range []int{2, 4} {
		again, w := curve(32, workers)
		if !slices.Equal(again, split) || !slices.Equal(w, weights) {
			t.Errorf("%d workers give other bits than one", workers)
		}
	}
}

// TestGradientCache: a contrastive step of several runs is that of one run over
// all of them, wrong answers included, with the same bits at any number of
// workers.
func TestGradientCache(t *testing.T) {
	const steps = 4
	curve := func(micro, workers int) (got, weights []float32) {
		c := fixture(t, "bert")
		c.Objective = ObjectiveConfig{Type: "contrastive", Symmetric: true, Dims: []int{32, 8}, Batch: 6}
		c.BatchTokens, c.MicroTokens, c.SeqLen, c.LR = 300, micro, 30, 1e-3
		src, err := NewMemory(Pairs, encoderExamples(12, 3))
		must(t, err)
		tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, workers), Source: src})
		must(t, err)
		defer func() { must(t, tr.Close()) }()
		for range steps {
			s, err := tr.Step(t.Context())
			must(t, err)
			if n := len(tr.data.runs); (n > 2) != (micro > 0) {
				t.Fatalf("%d runs of a step", n)
			}
			if s.Sequences != 18 {
				t.Errorf("%d sequences, want 18", s.Sequences)
			}
			got = append(got, s.Loss, s.GradNorm)
		}
		weights, _ = everything(t, tr)
		return got, weights
	}
	whole, _ := curve(0, 1)
	split, weights := curve(60, 1)
	for i, v := range whole {
		if d := math.Abs(float64(split[i]/v - 1)); !(d <= 1e-3) {
			t.Errorf("value %d is %g with the cache, %g in one run", i, split[i], v)
		}
	}
	for _, workers := range []int{2, 4} {
		again, w := curve(60, workers)
		if !slices.Equal(again, split) || !slices.Equal(w, weights) {
			t.Errorf("%d workers give other bits than one", workers)
		}
	}
}

// TestGradientCacheOfEvaluations: an evaluation may have more sequences than all of
// the training data.
func TestGradientCacheOfEvaluations(t *testing.T) {
	pairs := func(name string, n int) List {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "{\"anchor\":\"number %d\",\"positive\":\"it is %d\"}\n", i, i)
		}
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, []byte(b.String()), 0o600))
		return List{path}
	}
	var last []Evaluation
	for _, micro := range []int{0, 200} {
		c := fixture(t, "bert")
		c.Data, c.Validation.Data, c.Validation.Every = pairs("few.jsonl", 3), pairs("many.jsonl", 40), 2
		c.Objective.Type, c.Steps, c.Warmup, c.BatchTokens, c.MicroTokens = "contrastive", 2, 0, 400, micro
		var seen losses
		_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), OnStep: seen.add})
		must(t, err)
		last = append(last, seen[1].Eval)
	}
	if !last[0].Done || !last[1].Done || !last[1].Retrieval {
		t.Errorf("evaluations %+v", last)
	}
}
