package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

func TestQuantize(t *testing.T) {
	dir := t.TempDir()
	in, out := testmodels.Dir(t, "gguf/llama-q8_0.gguf"), filepath.Join(dir, "out.gguf")
	text := ok(t, "quantize", in, out, "q5_0")
	if !strings.HasPrefix(text, out+": ") || !strings.Contains(text, "Q5_0") {
		t.Errorf("%q", text)
	}
	var s struct {
		Tensors, Requantized int
		Types                map[string]int
	}
	if err := json.Unmarshal([]byte(ok(t, "quantize", out, out, "F32", "--format", "json")), &s); err != nil {
		t.Fatal(err)
	}
	if s.Types["F32"] != s.Tensors || s.Requantized != 0 {
		t.Errorf("%+v", s)
	}
	if got := ok(t, "score", "-m", out, "once upon a time", "--format", "jsonl"); !strings.Contains(got, `"ppl"`) {
		t.Errorf("%q", got)
	}
}

func TestQuantizeMistakes(t *testing.T) {
	dir := t.TempDir()
	in, out := testmodels.Dir(t, "gguf/llama-q8_0.gguf"), filepath.Join(dir, "out.gguf")
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[int][][]string{
		exitUsage: {
			{"quantize", in, out},
			{"quantize", in, out, "Q9_9"},
			{"quantize", in, out, "Q8_0", "--threads", "-1"},
			{"quantize", in, out, "Q8_0", "--output-type", "I32"},
		},
		exitFailed: {
			{"quantize", filepath.Join(dir, "none.gguf"), out, "Q8_0"},
			{"quantize", junk, out, "Q8_0"},
			{"quantize", testmodels.Dir(t, "llama"), out, "Q8_0"},
			{"quantize", in, filepath.Join(dir, "no", "such", "folder.gguf"), "Q8_0"},
			{"quantize", in, dir, "Q8_0"},
			{"quantize", in, out, "Q8_0", "--imatrix", junk},
			{"quantize", in, out, "Q8_0", "--imatrix", filepath.Join(dir, "none")},
		},
	} {
		for _, line := range c {
			fails(t, want, line)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestConvert(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	if text := ok(t, "convert", testmodels.Dir(t, "llama"), "-o", out); !strings.Contains(text, "F16") {
		t.Errorf("%q", text)
	}
	var r struct {
		Architecture string
		Types        map[string]int
	}
	if err := json.Unmarshal([]byte(ok(t, "convert", testmodels.Dir(t, "bert"), "-o", out, "--type", "q8_0", "--format", "json")), &r); err != nil {
		t.Fatal(err)
	}
	if r.Architecture != "bert" || r.Types["Q8_0"] == 0 {
		t.Errorf("%+v", r)
	}
	if got := ok(t, "embed", "-m", out, "a text", "--format", "jsonl"); !strings.Contains(got, `"embedding"`) {
		t.Errorf("%q", got)
	}
	fails(t, exitUsage, []string{"convert", testmodels.Dir(t, "llama")}, "-o")
	fails(t, exitUsage, []string{"convert", testmodels.Dir(t, "llama"), "-o", out, "--type", "q9"}, "Q8_0")
	fails(t, exitFailed, []string{"convert", out, "-o", out}, "Hugging Face directory")
	fails(t, exitFailed, []string{"convert", dir, "-o", out}, "config.json")
	own := t.TempDir()
	if err := os.CopyFS(own, os.DirFS(testmodels.Dir(t, "llama"))); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, []string{"convert", own, "-o", filepath.Join(own, "model.safetensors")}, "model.safetensors: is one of the files")
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
