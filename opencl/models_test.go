//go:build !nogpu

package opencl

import (
	"context"
	"math"
	"slices"
	"testing"

	"hotpath"
	"hotpath/internal/backend/opencl"
	"hotpath/internal/testmodels"
)

// open opens a model in f32.
func open(t *testing.T, path, device string) *hotpath.Model {
	t.Helper()
	m, err := hotpath.Open(path, hotpath.Options{Device: device, Precision: "f32", NoCalibration: true, Ctx: 128})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// onDevice skips a test on a machine without a device.
func onDevice(t *testing.T) {
	t.Helper()
	if _, err := opencl.Devices(); err != nil {
		t.Skip(err)
	}
}

func ids(t *testing.T, m *hotpath.Model, prompt string, o hotpath.GenerateOptions) (out []int32) {
	t.Helper()
	for tok, err := range m.Generate(context.Background(), prompt, o) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, tok.ID)
	}
	return out
}

// TestOpenCLGenerates holds texts on a device to those of the CPU: greedy and drawn, where
// each step takes the ids of the step before from the device.
func TestOpenCLGenerates(t *testing.T) {
	onDevice(t)
	t.Parallel()
	path := testmodels.Dir(t, "llama")
	want, got := open(t, path, "cpu"), open(t, path, "opencl")
	for name, o := range map[string]hotpath.GenerateOptions{
		"greedy": {MaxTokens: 24, IgnoreEOS: true},
		"drawn":  {MaxTokens: 24, IgnoreEOS: true, Temperature: 0.9, TopP: 0.9, Seed: 5},
	} {
		if a, b := ids(t, want, "the quick brown", o), ids(t, got, "the quick brown", o); !slices.Equal(a, b) {
			t.Errorf("%s: %v, the CPU has %v", name, b, a)
		}
	}
}

// TestOpenCLRealModels holds MiniLM and SmolLM2 on a device to the CPU.
func TestOpenCLRealModels(t *testing.T) {
	onDevice(t)
	t.Parallel()
	t.Run("MiniLM", func(t *testing.T) {
		t.Parallel()
		path := testmodels.Real(t, "all-MiniLM-L6-v2")
		texts := []string{"a text", "Another text, with a few words more than the first one has."}
		a, err := open(t, path, "cpu").Embed(context.Background(), texts, hotpath.EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := open(t, path, "opencl").Embed(context.Background(), texts, hotpath.EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range a {
			dot := 0.0
			for j := range a[i] {
				dot += float64(a[i][j]) * float64(b[i][j])
			}
			if !(math.Abs(dot-1) < 1e-5) {
				t.Errorf("text %d: cosine %.7f with the CPU's vector", i, dot)
			}
		}
	})
	t.Run("SmolLM2", func(t *testing.T) {
		t.Parallel()
		path := testmodels.Real(t, "SmolLM2-135M-Instruct.Q4_1.gguf")
		o := hotpath.GenerateOptions{MaxTokens: 24, Raw: true}
		if a, b := ids(t, open(t, path, "cpu"), "The capital of France is", o), ids(t, open(t, path, "opencl"), "The capital of France is", o); !slices.Equal(a, b) {
			t.Errorf("%v, the CPU has %v", b, a)
		}
	})
}
