package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// Rows of the head for "yes" and "no" in the tokenizer of the fixtures.
var yesNoRows = []int{263, 262}

// rerankerGGUF is a fixture as llama.cpp converts such models: with a copy of the
// head's rows for yes and no. The token table has the first rows only, 0 for all.
func rerankerGGUF(t *testing.T, name string, first int) string {
	t.Helper()
	dir := t.TempDir()
	plain, out := filepath.Join(dir, "plain.gguf"), filepath.Join(dir, "reranker.gguf")
	ok(t, "convert", filepath.Join("../../internal/model/testdata/encoders", name), "-o", plain)
	in, err := weights.Open(plain)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var w gguf.Writer
	for _, key := range in.GGUF().Keys() {
		v, _ := in.GGUF().Value(key)
		err = errors.Join(err, w.SetValue(key, v))
	}
	err = errors.Join(err, w.Set("qwen3.classifier.output_labels", []string{"yes", "no"}), w.Set("qwen3.pooling_type", uint32(4)))
	for _, name := range in.Names() {
		d, getErr := in.Get(name)
		if first > 0 && name == "token_embd.weight" {
			d.Data = d.Data[:len(d.Data)/d.Dims[0]*first]
			d.Dims = []int{first, d.Dims[1]}
		}
		err = errors.Join(err, getErr, w.Add(name, d.DType, d.Dims, d.Data))
	}
	rows, width := answerRows(t, in)
	if err := errors.Join(err, w.Add("cls.output.weight", tensor.F32, []int{2, width}, tensor.Bytes(rows)), w.WriteFile(out)); err != nil {
		t.Fatal(err)
	}
	return out
}

// answerRows are the rows of the head of a model for yes and no.
func answerRows(t *testing.T, in *weights.Store) (rows []float32, width int) {
	t.Helper()
	name := "output.weight"
	if !in.Has(name) {
		name = "token_embd.weight"
	}
	head, err := in.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	all, err := head.F32()
	if err != nil {
		t.Fatal(err)
	}
	width = head.Dims[1]
	for _, i := range yesNoRows {
		rows = append(rows, all[i*width:(i+1)*width]...)
	}
	return rows, width
}

// A GGUF file of a reranker that answers yes or no has a copy of two rows of the head.
// Training changes the head, and the checkpoint's copy with it.
func TestTrainedRerankerAnswersByItsOwnHead(t *testing.T) {
	for _, name := range []string{"qwen3-reranker", "qwen3-reranker-untied"} {
		model := rerankerGGUF(t, name, 0)
		before := ok(t, "rerank", "-m", model, "one question", "some words")
		out := filepath.Join(t.TempDir(), "out")
		config := trainConfig(t, "llama", map[string]any{"model": model, "lr": 1e-2})
		ok(t, "train", config, "-o", out)
		checkpoint := filepath.Join(out, "step-00000002")
		st, err := weights.Open(checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		want, _ := answerRows(t, st)
		kept, err := st.Get("cls.output.weight")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := kept.F32(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: rows of yes and no are not those of the head (%v)", name, err)
		}
		if after := ok(t, "rerank", "-m", checkpoint, "one question", "some words"); after == before {
			t.Errorf("%s: the score is that of before training: %s", name, after)
		}
	}
}

// A tokenizer may have more tokens than the head has rows. If the tokens of yes or no
// are among them, training is refused before its first step.
func TestRerankerWithoutARowForItsAnswer(t *testing.T) {
	model := rerankerGGUF(t, "qwen3-reranker", yesNoRows[1])
	data := filepath.Join(t.TempDir(), "a.txt") // each digit is a token
	if err := os.WriteFile(data, []byte(strings.Repeat("0123456789\n", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	config := trainConfig(t, "llama", map[string]any{"model": model, "data": []string{data}})
	fails(t, exitFailed, []string{"train", config, "-o", filepath.Join(t.TempDir(), "out")}, `token "yes" has id 263, expected a row of the head, which has 262`)
}
