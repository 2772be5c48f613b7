//go:build !nogpu

package opencl

import (
	"context"
	"encoding/json"
	"math"
	"os"
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

// TestOpenCLModelsInside holds the models inside the program on a device to the CPU.
func TestOpenCLModelsInside(t *testing.T) {
	onDevice(t)
	t.Parallel()
	texts := []string{"a text", "Another text, with a few words more than the first one has."}
	embed := func(device string) [][]float32 {
		v, err := open(t, "hotpath-embedder", device).Embed(context.Background(), texts, hotpath.EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	want, got := embed("cpu"), embed("opencl")
	for i := range texts {
		if c := cosine(got[i], want[i]); !(c > 0.99999) {
			t.Errorf("text %d: cosine %.7f with the CPU's vector", i, c)
		}
	}
	o := hotpath.GenerateOptions{MaxTokens: 48, Raw: true}
	if a, b := ids(t, open(t, "hotpath-generator", "cpu"), "One day, a little", o), ids(t, open(t, "hotpath-generator", "opencl"), "One day, a little", o); !slices.Equal(a, b) {
		t.Errorf("%v, the CPU has %v", b, a)
	}
}

func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	return dot / math.Sqrt(aa*bb)
}

// TestOpenCLMiniLM holds the vectors of 40 texts to those of sentence-transformers.
func TestOpenCLMiniLM(t *testing.T) {
	onDevice(t)
	t.Parallel()
	m := open(t, testmodels.Real(t, "all-MiniLM-L6-v2"), "opencl")
	cases, worst := testmodels.Load(t, "real/minilm").Cases, 1.0
	var texts []string
	for _, c := range cases {
		texts = append(texts, c.Text)
	}
	got, err := m.Embed(context.Background(), texts, hotpath.EmbedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		cos := cosine(got[i], c.Embedding)
		if worst = min(worst, cos); !(cos > 0.99999) {
			t.Errorf("text %d: cosine %.7f", i, cos)
		}
	}
	t.Logf("%d texts, worst cosine %.7f", len(cases), worst)
}

// greedy is what f32 transformers continues prompts with (smollm2_greedy.json).
type greedy struct {
	Cases []struct {
		Prompt string
		F32    struct {
			IDs []int32
			Top [][][2]float64 // [token] the best ids with their logits
		}
	}
}

// mostLead is how many logits worse a token may be than the best one: rounding decides
// between two that are closer.
const mostLead = 0.01

// TestOpenCLSmolLM2 holds 20 greedy continuations to those of f32 transformers, up to a
// near tie. CPUs have fewer and shorter ones, because they take a tenth of a second per
// token; make verify-opencl compares all of them there too.
func TestOpenCLSmolLM2(t *testing.T) {
	onDevice(t)
	t.Parallel()
	path := testmodels.Real(t, "SmolLM2-135M-Instruct.Q4_1.gguf")
	var want greedy
	data, err := os.ReadFile(testmodels.Dir(t, "real/smollm2_greedy.json"))
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	if err != nil || len(want.Cases) != 20 {
		t.Fatalf("%d prompts, expected 20: %v", len(want.Cases), err)
	}
	steps := len(want.Cases[0].F32.IDs)
	if devices, err := opencl.Devices(); err != nil || devices[0].CPU {
		steps, want.Cases = 8, want.Cases[:8]
	}
	m, whole := open(t, path, "opencl"), 0
	for _, c := range want.Cases {
		got := ids(t, m, c.Prompt, hotpath.GenerateOptions{MaxTokens: steps, Raw: true, IgnoreEOS: true})
		if len(got) != steps {
			t.Errorf("%q: %d tokens, expected %d", c.Prompt, len(got), steps)
			continue
		}
		at := 0
		for at < steps && got[at] == c.F32.IDs[at] {
			at++
		}
		if at == steps {
			whole++
			continue
		}
		lead := math.Inf(1)
		for _, top := range c.F32.Top[at] {
			if int32(top[0]) == got[at] {
				lead = c.F32.Top[at][0][1] - top[1]
			}
		}
		if lead > mostLead {
			t.Errorf("%q: token %d is %d, expected %d, which is better by %.4f", c.Prompt, at, got[at], c.F32.IDs[at], lead)
		}
	}
	t.Logf("%d of %d continuations of %d tokens as in f32", whole, len(want.Cases), steps)
}
