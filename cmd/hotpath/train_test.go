package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/format/gguf"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// splitModel is a fixture as a set of two GGUF files.
func splitModel(t *testing.T, name string) string {
	t.Helper()
	in, err := weights.Open(testmodels.Dir(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	dir, names := t.TempDir(), in.Names()
	part := func(i int) string { return filepath.Join(dir, fmt.Sprintf("m-%05d-of-00002.gguf", i+1)) }
	for i := range 2 {
		var w gguf.Writer
		err := errors.Join(w.Set("split.no", uint16(i)), w.Set("split.count", uint16(2)), w.Set("split.tensors.count", int32(len(names))))
		if i == 0 {
			for _, key := range in.GGUF().Keys() {
				v, _ := in.GGUF().Value(key)
				err = errors.Join(err, w.SetValue(key, v))
			}
		}
		for j, name := range names {
			if j%2 == i {
				d, getErr := in.Get(name)
				err = errors.Join(err, getErr, w.Add(name, d.DType, d.Dims, d.Data))
			}
		}
		if err := errors.Join(err, w.WriteFile(part(i))); err != nil {
			t.Fatal(err)
		}
	}
	return part(0)
}

// nested is a sentence-transformers model whose transformer has its own folder.
func nested(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(dir, "0_Transformer")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "sentence_bert_config.json"} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(inner, name)); err != nil {
			t.Fatal(err)
		}
	}
	modules := filepath.Join(dir, "modules.json")
	text, err := os.ReadFile(modules)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(modules, []byte(strings.Replace(string(text), `"path": ""`, `"path": "0_Transformer"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Whichever kind of model training began with, every command opens the
// checkpoint's folder, with the tokenizer, pooling and prompts of that model.
func TestCheckpointOpensAsTheModelDid(t *testing.T) {
	sentence, err := filepath.Abs("../../internal/model/testdata/encoders/qwen3-embedding")
	if err != nil {
		t.Fatal(err)
	}
	for name, model := range map[string]string{
		"directory": testmodels.Dir(t, "llama"), "gguf": testmodels.Dir(t, "gguf/llama-q8_0.gguf"), "gpt2 gguf": testmodels.Dir(t, "gguf/gpt2-f16.gguf"),
		"split gguf": splitModel(t, "gguf/llama-f16.gguf"), "sentence": sentence, "nested": nested(t, sentence),
	} {
		t.Run(name, func(t *testing.T) {
			// With this rate no weight changes, so that answers are the same.
			config := trainConfig(t, "llama", map[string]any{"model": model, "lr": 1e-30, "seq_len": 16})
			out := filepath.Join(t.TempDir(), "out")
			ok(t, "train", config, "-o", out, "--set", "steps=1")
			ok(t, "train", config, "-o", out, "--resume", "auto")
			checkpoint := filepath.Join(out, "step-00000002")
			ok(t, "inspect", checkpoint)
			if a, b := ok(t, "tokenize", "-m", model, "some words"), ok(t, "tokenize", "-m", checkpoint, "some words"); a != b {
				t.Errorf("tokens %q, of the model %q", b, a)
			}
			embed := []string{"embed", "some words", "--precision", "f32", "--format", "jsonl", "-m"}
			if name == "sentence" || name == "nested" {
				embed = append([]string{"embed", "--prompt", "query"}, embed[1:]...)
			}
			type answer struct{ Embedding []float64 }
			was, is := lines[answer](t, ok(t, append(embed, model)...)), lines[answer](t, ok(t, append(embed, checkpoint)...))
			if len(was) != 1 || len(is) != 1 || len(was[0].Embedding) != len(is[0].Embedding) {
				t.Fatalf("%v, of the model %v", is, was)
			}
			for i, x := range is[0].Embedding {
				if math.Abs(x-was[0].Embedding[i]) > 1e-3 {
					t.Fatalf("element %d of the vector is %g, of the model %g", i, x, was[0].Embedding[i])
				}
			}
			generate := []string{"run", "--raw", "-p", "some words", "-n", "3", "--temp", "0", "--precision", "f32", "-m"}
			if a, b := ok(t, append(generate, model)...), ok(t, append(generate, checkpoint)...); a != b {
				t.Errorf("goes on with %q, the model with %q", b, a)
			}
			if left, err := fs.Glob(os.DirFS(out), ".*"); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
