package hotpath

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

func TestWindows(t *testing.T) {
	for _, c := range []struct {
		n, size, stride int
		want            []stretch
	}{
		{10, 4, 0, []stretch{{0, 4, 3}, {4, 8, 3}}},
		{4, 4, 0, []stretch{{0, 4, 3}}},
		{10, 4, 2, []stretch{{0, 4, 1}, {2, 6, 2}, {4, 8, 2}, {6, 10, 2}}},
		{9, 4, 3, []stretch{{0, 4, 1}, {3, 7, 1}, {6, 9, 1}}},
		{4, 4, 1, []stretch{{0, 4, 1}}},
	} {
		if got := windowsOf(c.n, c.size, c.stride); !slices.Equal(got, c.want) {
			t.Errorf("%d tokens, windows of %d, stride %d: %v, expected %v", c.n, c.size, c.stride, got, c.want)
		}
	}
	for n := 4; n < 60; n++ { // with a stride, every token but the first is scored once
		for stride := 1; stride < 4; stride++ {
			scored := 0
			for _, w := range windowsOf(n, 4, stride) {
				scored += w.end - w.begin - w.score
			}
			if scored != n-1 {
				t.Errorf("%d tokens, stride %d: %d are scored", n, stride, scored)
			}
		}
	}
}

// The perplexity is that of the same windows scored one by one.
func TestPerplexity(t *testing.T) {
	text := strings.Repeat("the quick brown fox jumps over <unk> lazy dogs, and then again. ", 10)
	for _, name := range []string{"llama", "gpt2"} {
		m := open(t, testmodels.Dir(t, name), Options{Ctx: 32, Precision: "f32"})
		for _, stride := range []int{0, 12} {
			calls := 0
			got, err := m.Perplexity(t.Context(), text, PerplexityOptions{Ctx: 32, Stride: stride, Windows: 3, Progress: func(Perplexity) { calls++ }})
			if err != nil {
				t.Fatal(err)
			}
			ids := m.Tokenize(text, true)
			begin, has := m.beginning()
			if plain := m.Tokenize(text, false); has != (len(ids) > len(plain)) || has && begin != ids[0] {
				t.Errorf("%s: begins with %d, %v", name, begin, has)
			}
			var sum float64
			n := 0
			for _, w := range windowsOf(len(ids), 32, stride)[:3] {
				seq := slices.Clone(ids[w.begin:w.end])
				if has {
					seq[0] = begin
				}
				s, err := m.ScoreIDs(t.Context(), [][]int32{seq})
				if err != nil {
					t.Fatal(err)
				}
				for i := w.score; i < len(seq); i++ {
					sum += float64(s[0].NLL[i-1])
					n++
				}
			}
			if want := math.Exp(sum / float64(n)); math.Abs(got.PPL-want) > 1e-6*want || got.Scored != n || got.Windows != 3 || calls != 3 || got.Tokens != 96 {
				t.Errorf("%s, stride %d: %+v, expected %g of %d tokens", name, stride, got, want, n)
			}
		}
		for _, o := range []PerplexityOptions{{Ctx: 3}, {Ctx: 32, Stride: 32}, {Ctx: 32, Stride: -1}, {Ctx: 32, Windows: -1}} {
			if _, err := m.Perplexity(t.Context(), text, o); !errors.Is(err, ErrInput) {
				t.Errorf("%+v: %v", o, err)
			}
		}
		if _, err := m.Perplexity(t.Context(), "short", PerplexityOptions{Ctx: 32}); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "at least a window of 32") {
			t.Error(err)
		}
	}
}

// llamaCppPerplexity is of the first window of 512 tokens of WikiText-2's test
// text with SmolLM2's weights in F32, from llama.cpp's logits.
const llamaCppPerplexity = 10.075975

func TestRealPerplexity(t *testing.T) {
	if testing.Short() {
		t.Skip("a real model takes seconds")
	}
	path := testmodels.Real(t, "SmolLM2-135M-Instruct.Q4_1.gguf")
	text, err := os.ReadFile(filepath.Join("..", "shared", "corpus", "wikitext2-test.txt"))
	if err != nil {
		t.Skip("no corpus in ../shared")
	}
	m := open(t, path, Options{Precision: "f32"})
	// The beginning is enough: it is tokenized as it is in the whole.
	got, err := m.Perplexity(t.Context(), string(text[:20_000]), PerplexityOptions{Windows: 1})
	if err != nil || math.Abs(got.PPL-llamaCppPerplexity) > 1e-3*llamaCppPerplexity {
		t.Errorf("%+v (%v), expected %g to 0.1 %%", got, err, llamaCppPerplexity)
	}
}
