//go:build !nogpu

package cuda

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"hotpath"
	"hotpath/internal/backend/cuda"
	"hotpath/internal/testmodels"
)

// texts are of one token to about a hundred, so that every kind of kernel runs.
func texts() []string {
	words := strings.Fields("the quick brown fox jumps over a lazy dog while many small birds sing in old trees near cold water")
	var out []string
	for _, n := range []int{1, 3, 9, 20, 40} {
		var t []string
		for i := range n {
			t = append(t, words[(i*7+n)%len(words)])
		}
		out = append(out, strings.Join(t, " "))
	}
	return out
}

// open opens a model.
func open(t *testing.T, path, device, precision string) *hotpath.Model {
	t.Helper()
	m, err := hotpath.Open(path, hotpath.Options{Device: device, Precision: precision, NoCalibration: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestCUDAModels holds every fixture on a card to the CPU in f32: vectors,
// likelihoods and greedy texts. By default operands are rounded to bf16, which
// weighs more in models as narrow as the fixtures than in real ones.
func TestCUDAModels(t *testing.T) {
	if _, err := cuda.Cards(); err != nil {
		t.Skip(err)
	}
	ctx := context.Background()
	for _, name := range testmodels.All(t) {
		path := testmodels.Dir(t, name)
		encoder := slices.Contains(testmodels.Encoders(t), name)
		want := open(t, path, "cpu", "f32")
		for _, p := range []struct {
			precision string
			cosine    float64
		}{{"f32", 0.9999}, {"", 0.9995}} {
			t.Run(name+"/"+p.precision, func(t *testing.T) {
				got := open(t, path, "cuda", p.precision)
				if encoder {
					o := hotpath.EmbedOptions{}
					a, err := want.Embed(ctx, texts(), o)
					if err != nil {
						t.Fatal(err)
					}
					b, err := got.Embed(ctx, texts(), o)
					if err != nil {
						t.Fatal(err)
					}
					for i := range a {
						if c := cosine(a[i], b[i]); !(c >= p.cosine) {
							t.Errorf("text %d: cosine %.6f, expected %.4f", i, c, p.cosine)
						}
					}
					return
				}
				for i, text := range texts()[:4] {
					a, b := greedy(t, want, text), greedy(t, got, text)
					if p.precision == "f32" && a != b {
						t.Errorf("text %d: %q, the CPU wrote %q", i, b, a)
					}
				}
				a, err := want.Score(ctx, texts()[1:4], hotpath.ScoreOptions{})
				if err != nil {
					t.Fatal(err)
				}
				b, err := got.Score(ctx, texts()[1:4], hotpath.ScoreOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for i := range a {
					if x, y := a[i].Perplexity(), b[i].Perplexity(); !(math.Abs(x-y)/x < 20*(1-p.cosine)) {
						t.Errorf("text %d: perplexity %.5f, the CPU has %.5f", i, y, x)
					}
				}
			})
		}
	}
}

func greedy(t *testing.T, m *hotpath.Model, prompt string) string {
	t.Helper()
	var out strings.Builder
	for tok, err := range m.Generate(context.Background(), prompt, hotpath.GenerateOptions{MaxTokens: 24}) {
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(tok.Text)
	}
	return out.String()
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}
