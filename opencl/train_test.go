//go:build !nogpu

package opencl

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"hotpath"
	"hotpath/internal/testmodels"
)

// losses trains some steps of a small decoder.
func losses(t *testing.T, device string) (out []float64) {
	t.Helper()
	cfg, err := hotpath.ReadTrainConfig("shakespeare-char", "steps=5", "warmup=2", "lr=1e-3", "min_lr=1e-4", "batch_tokens=128", "seq_len=32", "model.d_model=64",
		fmt.Sprintf("data=%q", testmodels.Dir(t, "shakespeare.txt")), fmt.Sprintf("out=%q", filepath.Join(t.TempDir(), "run")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = hotpath.Train(context.Background(), cfg, hotpath.TrainOptions{Device: device, Precision: "f32", OnStep: func(s hotpath.TrainStep) error {
		out = append(out, float64(s.Loss))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOpenCLTrains holds the losses of a run on a device to those of the CPU.
func TestOpenCLTrains(t *testing.T) {
	onDevice(t)
	t.Parallel()
	want, got := losses(t, "cpu"), losses(t, "opencl")
	if len(want) != 5 || len(got) != 5 {
		t.Fatalf("%d and %d steps, expected 5", len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(got[i]-want[i]) / want[i]; !(d < 1e-3) {
			t.Errorf("step %d: loss %.5f, the CPU has %.5f", i+1, got[i], want[i])
		}
	}
}
