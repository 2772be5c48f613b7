package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
)

// TestInspectMemory holds inspect to the size of the file: it shows eight items
// of an array and must not make a value of each.
func TestInspectMemory(t *testing.T) {
	const n = 8 << 20
	blob := make([]uint8, n)
	nested := make([]any, n/64)
	for i := range nested {
		nested[i] = []any{}
	}
	for name, keys := range map[string]map[string]any{
		"an array of bytes":      {"test.blob": blob},
		"arrays in an array":     {"test.nested": nested},
		"a long string":          {"test.text": strings.Repeat("\x1b", n)},
		"types without tokens":   {"tokenizer.ggml.tokens": []string{"a", "b"}, "tokenizer.ggml.merges": []string{}, "tokenizer.ggml.token_type": blob},
		"types of a Unigram":     {"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": []string{"a", "b"}, "tokenizer.ggml.scores": []float32{0, 0}, "tokenizer.ggml.token_type": blob},
		"a charsmap":             {"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": []string{"a"}, "tokenizer.ggml.scores": []float32{0}, "tokenizer.ggml.token_type": []int32{1}, "tokenizer.ggml.precompiled_charsmap": blob},
		"scores without tokens":  {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": []string{"a"}, "tokenizer.ggml.scores": make([]float32, n/4)},
		"tokens without letters": {"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": make([]string, 3<<20)},
		"merges without tokens":  {"tokenizer.ggml.tokens": []string{"a", "b"}, "tokenizer.ggml.merges": make([]string, 1<<20)},
	} {
		var w gguf.Writer
		if keys["tokenizer.ggml.tokens"] != nil && keys["tokenizer.ggml.model"] == nil {
			keys["tokenizer.ggml.model"] = "gpt2"
		}
		keys["general.architecture"] = "future"
		for key, v := range keys {
			if err := w.Set(key, v); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Add("t", tensor.F32, []int{1}, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if _, err := w.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := ok(t, "inspect", path)
		runtime.ReadMemStats(&after)
		// A string is copied once; everything else is only looked at.
		if made, limit := after.TotalAlloc-before.TotalAlloc, uint64(2*file.Len()+8<<20); made > limit {
			t.Errorf("%s: %d bytes allocated for a file of %d, expected at most %d\n%.400s", name, made, file.Len(), limit, out)
		}
	}
}
