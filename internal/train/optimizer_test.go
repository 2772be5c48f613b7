package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/testmodels"
)

func TestDecayGroups(t *testing.T) {
	for name, c := range map[string]struct {
		none List
		with map[string]bool // by key
	}{
		"usual":         {List{"bias", "norm"}, map[string]bool{"token_embd.weight": true, "blk.0.attn_q.weight": true, "blk.0.attn_q.bias": false, "blk.0.attn_norm.weight": false, "position_embd.weight": true}},
		"no embeddings": {List{"bias", "norm", "embedding", "position"}, map[string]bool{"token_embd.weight": false, "blk.0.attn_q.weight": true, "position_embd.weight": false}},
		"none":          {List{}, map[string]bool{"token_embd.weight": true, "blk.0.attn_q.bias": false}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fixture(t, "gpt2")
			cfg.NoDecay = c.none
			tr, err := New(t.Context(), cfg, Options{Backend: cpuBackend(t, 1)})
			must(t, err)
			defer func() { must(t, tr.Close()) }()
			seen := 0
			for _, p := range tr.runner.parts.Params {
				if want, ok := c.with[p.Key]; ok {
					seen++
					if p.Decay != want {
						t.Errorf("%s: decay %v, want %v", p.Key, p.Decay, want)
					}
				}
			}
			if seen != len(c.with) {
				t.Errorf("%d of %d parameters were found", seen, len(c.with))
			}
		})
	}
}

// SGD trains, resumes bit for bit, and its checkpoint is none of AdamW's.
func TestSGDResumes(t *testing.T) {
	for _, precision := range []cpu.Precision{cpu.F32, cpu.BF16} {
		t.Run(fmt.Sprint(precision), func(t *testing.T) {
			be := backendOf(t, 2, precision)
			c := fixture(t, "llama")
			c.Optimizer, c.LR, c.Nesterov, c.CheckpointEvery, c.WeightDecay = "sgd", 0.05, true, 5, 0.01
			var whole, parts losses
			_, err := Run(context.Background(), c, Options{Backend: be, OnStep: whole.add})
			must(t, err)
			if first, last := whole[0].Loss, whole[len(whole)-1].Loss; last >= first {
				t.Errorf("loss went from %g to %g", first, last)
			}
			c.Out, c.Steps = t.TempDir(), 5
			half := c
			_, err = Run(context.Background(), half, Options{Backend: be})
			must(t, err)
			c.Steps = 10
			wrong := c
			wrong.Optimizer, wrong.Nesterov = "adamw", false
			if _, err := New(t.Context(), wrong, Options{Backend: be, Resume: "auto"}); !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), "field optimizer: the checkpoint has sgd, this run adamw") {
				t.Errorf("error %v of another optimizer", err)
			}
			_, err = Run(context.Background(), c, Options{Backend: be, Resume: "auto", OnStep: parts.add})
			must(t, err)
			// The schedule of the first half was another one: only its end counts.
			if len(parts) != 5 || parts[0].Step != 6 {
				t.Errorf("resumed with %v", parts)
			}
		})
	}
}

func TestRunningAverageOfNorms(t *testing.T) {
	var n norms
	c := Config{SkipAbove: 3, StopAbove: 9}
	for range normSteps {
		if n.limit(&c) != 0 {
			t.Fatalf("limit %g after %d steps", n.limit(&c), n.Steps)
		}
		n.addNorm(2, 0)
	}
	if got := n.average(); math.Abs(got-2) > 1e-12 {
		t.Errorf("average %g of equal norms, want 2", got)
	}
	if got := n.limit(&c); math.Abs(got-6) > 1e-12 {
		t.Errorf("limit %g, want 6", got)
	}
	n.addNorm(1e9, 6)
	if got := n.average(); got < 2 || got > 2.5 {
		t.Errorf("average %g after an outlier that counts as 6", got)
	}
	c.SkipAbove = 0
	if got, want := n.limit(&c), 9*n.average(); got != want {
		t.Errorf("limit %g, want %g", got, want)
	}
}

// A step beyond the limit changes no weight and no moment, is marked in the log,
// and the run goes on; with stop_above it ends the run, and names tensor and text.
func TestOutlierSteps(t *testing.T) {
	c := fixture(t, "llama")
	c.Steps, c.SkipAbove = 30, 4
	tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 2)})
	must(t, err)
	defer func() { must(t, tr.Close()) }()
	for range normSteps {
		s, err := tr.Step(context.Background())
		must(t, err)
		if s.Skipped {
			t.Fatalf("%v", s)
		}
	}
	average := tr.norms
	tr.norms.Sum /= 1000 // as if all norms before had been a thousandth
	before, _ := everything(t, tr)
	s, err := tr.Step(context.Background())
	must(t, err)
	after, _ := everything(t, tr)
	if !s.Skipped || !slices.Equal(before, after) || !strings.Contains(s.String(), "skipped: an outlier") {
		t.Errorf("%v: skipped %v, the same weights %v", s, s.Skipped, slices.Equal(before, after))
	}
	tr.norms = average
	if s, err = tr.Step(context.Background()); err != nil || s.Skipped || s.Step != normSteps+2 {
		t.Errorf("%v, %v", s, err)
	}
	tr.norms.Sum /= 1000
	tr.cfg.StopAbove = 5
	before, at := everything(t, tr)
	_, err = tr.Step(context.Background())
	after, now := everything(t, tr)
	if !slices.Equal(before, after) || at != now {
		t.Error("a step that ended the run changed weights or the place in the data")
	}
	for _, want := range []string{"step 13: loss ", "above stop_above (5)", `gradient of tensor "`, "the largest", "; batch of ", "example ", " of epoch "} {
		if err == nil || !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want ErrDiverged with %q", err, want)
		}
	}
}

// Gradients that are no numbers leave the weights as they were, and the error
// names one and the texts.
func TestNaNNamesTensorAndBatch(t *testing.T) {
	c := fixture(t, "llama")
	c.Data = List{testmodels.Dir(t, "shakespeare.txt")}
	tr, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	defer func() { must(t, tr.Close()) }()
	key := "blk.1.ffn_norm.weight"
	for _, p := range tr.runner.parts.Params {
		if p.Key == key {
			f := make([]float32, p.Value.Shape.RowLen()*32)[:32]
			for i := range f {
				f[i] = 1e30 // the product behind it overflows
			}
			must(t, tr.runner.sess.WriteState(p.Value, f))
		}
	}
	_, err = tr.Step(context.Background())
	for _, want := range []string{"step 1: loss ", "gradient of tensor \"", "; batch of 3 examples; example ", " of epoch 0: \""} {
		if err == nil || !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want ErrDiverged with %q", err, want)
		}
	}
	if err := tr.runner.finite(); err != nil {
		t.Errorf("a step without finite gradients changed weights: %v", err)
	}
}
