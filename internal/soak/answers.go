package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hotpath"
)

// subject is a model that is soaked, with what it answers when it is asked
// alone.
type subject struct {
	name, path string
	precision  string
	info       hotpath.Info

	ids     [][]int32 // of each text
	vectors [][]float32
	scores  []hotpath.Score
	greedy  [][]int32 // completions of each text
	drawn   [][]int32 // the same with a temperature and seeds
	ranks   []float32 // of the texts for the first of them
}

// texts are what models are asked: short and long, several scripts, none at
// all.
var texts = append([]string{
	"rain", "a man plays guitar on the street", "", "The quick brown fox jumps over the lazy dog.", "今日は天気がいいですね。",
	"Der Zug nach München fährt heute von Gleis neun ab.", "def add(a, b):\n    return a + b", "🙂🙃 emoji and \u00a0 spaces", "1, 1, 2, 3, 5, 8",
	"to be or not to be, that is the question", "\t\n", "UPPER lower MiXeD",
}, strings.Repeat("a longer text that is made of the same words again and again, ", 6), strings.Repeat("word ", 300))

const (
	answerTokens = 6
	drawSeed     = 11
	temperature  = 0.9
)

// fixtures are the models that are in every checkout, by what they compute in.
var fixtures = []struct{ path, precision string }{
	{"internal/testmodels/testdata/bert", "f32"},
	{"internal/testmodels/testdata/modernbert", "auto"},
	{"internal/testmodels/testdata/gguf/bert-q8_0.gguf", "auto"},
	{"internal/testmodels/testdata/embeddinggemma", "auto"},
	{"internal/testmodels/testdata/llama", "f32"},
	{"internal/testmodels/testdata/gguf/llama-q4_0.gguf", "auto"},
	{"internal/testmodels/testdata/gpt2", "auto"},
	{"internal/model/testdata/encoders/rerank-bert", "f32"},
}

// reals are used where they were fetched.
var reals = []string{"all-MiniLM-L6-v2", "SmolLM2-135M-Instruct.Q4_1.gguf"}

// newSubjects opens every model once, alone, for its answers.
func newSubjects(s *settings) ([]*subject, error) {
	var out []*subject
	for _, f := range fixtures {
		out = append(out, &subject{name: filepath.Base(f.path), path: filepath.Join(s.root, f.path), precision: f.precision})
	}
	for _, name := range reals {
		if path := filepath.Join(s.models, name); exists(path) {
			out = append(out, &subject{name: name, path: path, precision: "auto"})
		}
	}
	for _, one := range out {
		if err := one.learn(); err != nil {
			return nil, fmt.Errorf("%s: %w", one.path, err)
		}
	}
	return out, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (s *subject) options(invariant bool) hotpath.Options {
	return hotpath.Options{Precision: s.precision, Invariant: invariant}
}

// prompts are the texts that are generated from and scored: those that the
// context has room for.
func (s *subject) prompt(i int) bool { return len(s.ids[i]) > 0 && len(s.ids[i]) < 100 }

// learn asks a model of its own, one text at a time, as nothing else runs.
func (s *subject) learn() error {
	m, err := hotpath.Open(s.path, s.options(true))
	if err != nil {
		return err
	}
	defer m.Close()
	ctx := context.Background()
	if s.info, err = m.Info(); err != nil {
		return err
	}
	for i, text := range texts {
		s.ids = append(s.ids, m.Tokenize(text, false))
		var vector []float32
		if s.info.CanEmbed {
			v, err := m.Embed(ctx, []string{text}, hotpath.EmbedOptions{})
			if err != nil {
				return fmt.Errorf("text %d: %w", i, err)
			}
			vector = v[0]
		}
		s.vectors = append(s.vectors, vector)
		var score hotpath.Score
		var greedy, drawn hotpath.Completion
		if s.info.CanGenerate && s.prompt(i) {
			all, err := m.Score(ctx, []string{text}, hotpath.ScoreOptions{})
			if err != nil {
				return fmt.Errorf("text %d: %w", i, err)
			}
			score = all[0]
			if greedy, err = m.Complete(ctx, text, generation(false)); err != nil {
				return fmt.Errorf("text %d: %w", i, err)
			}
			if drawn, err = m.Complete(ctx, text, generation(true)); err != nil {
				return fmt.Errorf("text %d: %w", i, err)
			}
		}
		s.scores, s.greedy, s.drawn = append(s.scores, score), append(s.greedy, greedy.IDs), append(s.drawn, drawn.IDs)
		var rank [1]float32
		if s.info.CanRerank {
			if err := m.RerankInto(ctx, rank[:], texts[0], []string{text}, hotpath.RerankOptions{}); err != nil {
				return fmt.Errorf("text %d: %w", i, err)
			}
		}
		s.ranks = append(s.ranks, rank[0])
	}
	return nil
}

func generation(drawn bool) hotpath.GenerateOptions {
	o := hotpath.GenerateOptions{MaxTokens: answerTokens, Raw: true}
	if drawn {
		o.Temperature, o.Seed, o.TopK = temperature, drawSeed, 20
	}
	return o
}

// likeness is how close numbers have to be that were computed beside others in
// one batch, where no bits are promised.
const likeness = 0.999

func sameVector(got, want []float32, bits bool) error {
	if bits {
		if !slices.Equal(got, want) {
			return fmt.Errorf("other bits than alone: %v, expected %v (cosine %.9f)", head(got), head(want), cosine(got, want))
		}
		return nil
	}
	if c := cosine(got, want); !(c >= likeness) {
		return fmt.Errorf("a cosine of %.6f with the answer alone, expected %g", c, likeness)
	}
	return nil
}

func sameNumbers(got, want []float32, bits bool) error {
	if bits && !slices.Equal(got, want) || len(got) != len(want) {
		return fmt.Errorf("%v, expected %v", head(got), head(want))
	}
	for i := range got {
		if a, b := float64(got[i]), float64(want[i]); !(math.Abs(a-b) <= 0.05*(1+math.Abs(b))) {
			return fmt.Errorf("%g at %d, expected about %g", a, i, b)
		}
	}
	return nil
}

func head(v []float32) []float32 { return v[:min(4, len(v))] }

func cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 && bb == 0 {
		return 1
	}
	return ab / math.Sqrt(aa*bb)
}
