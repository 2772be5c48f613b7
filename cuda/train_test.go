//go:build !nogpu

package cuda

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hotpath"
	"hotpath/internal/backend/cuda"
	"hotpath/internal/testmodels"
)

// losses trains 100 steps of a small decoder and returns the loss of each, and the
// weights at the end.
func losses(t *testing.T, device, precision string, width int) (out []float64, weights []byte) {
	t.Helper()
	dir := t.TempDir()
	cfg, err := hotpath.ReadTrainConfig("shakespeare-char", "steps=100", "warmup=10", "lr=1e-4", "min_lr=1e-5", "batch_tokens=2048", fmt.Sprintf("model.d_model=%d", width),
		fmt.Sprintf("data=%q", testmodels.Dir(t, "shakespeare.txt")), fmt.Sprintf("out=%q", filepath.Join(dir, "run")))
	if err != nil {
		t.Fatal(err)
	}
	res, err := hotpath.Train(context.Background(), cfg, hotpath.TrainOptions{Device: device, Precision: precision, OnStep: func(s hotpath.TrainStep) error {
		out = append(out, float64(s.Loss))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	weights, err = os.ReadFile(filepath.Join(res.Checkpoint, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return out, weights
}

// TestCUDATraining holds the losses of 100 steps on a card to those of the CPU in
// f32. The text is short and learnt by heart, so differences grow with each step.
// Products of 256 values and more have operands in bf16 by default. Two runs on a
// card give the same bits.
func TestCUDATraining(t *testing.T) {
	if _, err := cuda.Cards(); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		width     int
		precision string
		most      float64
	}{{128, "", 1e-3}, {256, "f32", 1e-3}, {256, "", 2e-2}} {
		t.Run(fmt.Sprint(c.width, c.precision), func(t *testing.T) {
			want, _ := losses(t, "cpu", "f32", c.width)
			got, weights := losses(t, "cuda", c.precision, c.width)
			if len(got) != 100 || len(want) != 100 {
				t.Fatalf("%d and %d steps, expected 100", len(got), len(want))
			}
			worst := 0.0
			for i := range got {
				worst = max(worst, math.Abs(got[i]-want[i])/want[i])
			}
			for _, i := range []int{0, 1, 9, 49, 99} {
				t.Logf("step %d: loss %.5f, the CPU has %.5f", i+1, got[i], want[i])
			}
			if !(worst <= c.most) {
				t.Errorf("losses differ by %.2g, expected %.2g at most", worst, c.most)
			}
			if again, same := losses(t, "cuda", c.precision, c.width); !slices.Equal(again, got) || !slices.Equal(same, weights) {
				t.Error("two runs on a card differ in bits")
			}
		})
	}
}
