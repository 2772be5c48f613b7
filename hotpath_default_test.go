package hotpath_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"hotpath"
	"hotpath/internal/builtin"
)

func openDefault(t *testing.T, name string) *hotpath.Model {
	t.Helper()
	if len(builtin.Models()) == 0 {
		t.Skip("built with -tags nomodels")
	}
	m, err := hotpath.Open(name, hotpath.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// The embedder inside the program finds the text that means the same.
func TestDefaultEmbedder(t *testing.T) {
	m := openDefault(t, hotpath.DefaultEmbedder)
	for _, c := range []struct {
		query, near string
		far         []string
	}{
		{"someone makes music", "A man is playing a guitar.", []string{"The bread is in the oven.", "Shares fell on Monday."}},
		{"a kitten", "a cat", []string{"a bridge", "the tax office"}},
		{"The stock market fell sharply.", "Shares lost value.", []string{"A dog runs on the beach.", "Bake it for forty minutes."}},
	} {
		vs, err := m.Embed(t.Context(), append([]string{c.query, c.near}, c.far...), hotpath.EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cosine := func(i int) (sum float32) {
			for k, x := range vs[0] {
				sum += x * vs[i][k]
			}
			return sum
		}
		for i, far := range c.far {
			if near, other := cosine(1), cosine(2+i); near <= other+0.1 {
				t.Errorf("%q: %q has %.2f, %q has %.2f", c.query, c.near, near, far, other)
			}
		}
	}
}

// The generator inside the program goes on with words, the same ones each time.
func TestDefaultGenerator(t *testing.T) {
	m := openDefault(t, hotpath.DefaultGenerator)
	write := func() string {
		var b strings.Builder
		for tok, err := range m.Generate(t.Context(), "The river", hotpath.GenerateOptions{MaxTokens: 40, Temperature: 0.8, Seed: 7}) {
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(tok.Text)
		}
		return b.String()
	}
	text := write()
	if again := write(); again != text {
		t.Errorf("%q, then %q", text, again)
	}
	if n := len(strings.Fields(text)); n < 15 {
		t.Errorf("%q has %d words, expected a line of prose", text, n)
	}
}

// OpenDefault is the embedder.
func TestOpenDefault(t *testing.T) {
	m, err := hotpath.OpenDefault()
	if len(builtin.Models()) == 0 {
		if !errors.Is(err, hotpath.ErrNotModel) {
			t.Fatalf("error %v without models, expected ErrNotModel", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if i, err := m.Info(); err != nil || !i.CanEmbed || i.CanGenerate {
		t.Errorf("%+v, %v", i, err)
	}
}

// The files keep to the sizes that they were given.
func TestDefaultSizes(t *testing.T) {
	var all int64
	for name, most := range map[string]int64{builtin.Embedder: 6_000_000, builtin.Generator: 3_000_000} {
		info, err := os.Stat("internal/builtin/" + name + ".gguf")
		if err != nil {
			t.Fatal(err)
		}
		if all += info.Size(); info.Size() > most {
			t.Errorf("%s has %d bytes, expected at most %d", name, info.Size(), most)
		}
	}
	if all > 8_400_000 {
		t.Errorf("%d bytes in all", all)
	}
}
