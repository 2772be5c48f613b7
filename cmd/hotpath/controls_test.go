package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// evil steers a terminal: it sets a title, clears the screen, goes back over
// what was printed, in codes of one and two bytes, and turns text around.
const evil = "\x1b]0;owned\a\x1b[2J\r\u009b31mred\u202e\x7f"

// tame fails where a text has a control character but the ends of lines and
// tabs, which are ours.
func tame(t *testing.T, what, out string) {
	t.Helper()
	for i, r := range out {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			t.Errorf("%s: %q is printed raw:\n%q", what, r, out[max(0, i-60):min(len(out), i+40)])
			return
		}
	}
}

// shown is tame of both outputs of a command, one of which quotes evil.
func shown(t *testing.T, args ...string) {
	t.Helper()
	r := run(t, args...)
	tame(t, strings.Join(args, " "), r.out)
	tame(t, strings.Join(args, " "), r.err)
	if !strings.Contains(strings.ToLower(r.out+r.err), `\x1b]0;owned\a`) {
		t.Errorf("%q: the name is not quoted: %d\n%.600s%.600s", args, r.status, r.out, r.err)
	}
}

// evilGGUF is a file with evil in everything that a name can be in.
func evilGGUF(t *testing.T, arch, kind string) string {
	t.Helper()
	var w gguf.Writer
	for _, kv := range []struct {
		key   string
		value any
	}{
		{"general.architecture", arch}, {"general.name", evil}, {"key" + evil, "a"}, {"text", evil}, {"texts", []string{evil, evil}},
		{"tokenizer.ggml.model", kind}, {"tokenizer.ggml.tokens", []string{evil, "a", "b", "[UNK]", "[CLS]", "[SEP]", "▁x" + evil}},
		{"tokenizer.ggml.merges", []string{}}, {"tokenizer.ggml.pre", "default"}, {"tokenizer.ggml.token_type", []int32{4, 1, 1, 1, 3, 3, 4}},
	} {
		if err := w.Set(kv.key, kv.value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Add("tensor"+evil, tensor.F32, []int{1}, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return write(t, "m.gguf", b.String())
}

func TestControlCharactersAreQuoted(t *testing.T) {
	unknown := evilGGUF(t, "arch"+evil, "gpt2")
	shown(t, "inspect", unknown)
	shown(t, "inspect", unknown, "--tensors")
	shown(t, "embed", "-m", unknown, "a")           // an error that quotes the architecture
	shown(t, "inspect", evilGGUF(t, "x", "t"+evil)) // and one that quotes the kind of the tokenizer
	shown(t, "tokenize", "-m", unknown, evil)
	shown(t, "tokenize", "-m", evilGGUF(t, "x", "t"+evil), "a")

	// Of directories: keys and values of config.json, part types of tokenizer.json, tensors, chat templates.
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "llama"))); err != nil {
		t.Fatal(err)
	}
	config := map[string]any{}
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	config["key"+evil], config["_name_or_path"] = evil, []string{evil}
	save := func(name string, v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save("config.json", config)
	shown(t, "inspect", dir)
	save("tokenizer_config.json", map[string]any{"chat_template": "{{ raise_exception('" + strings.NewReplacer("\r", `\r`).Replace(evil) + "') }}"})
	shown(t, "run", "-m", dir, "-p", "a", "-n", "1")
	save("tokenizer.json", map[string]any{"normalizer": map[string]any{"type": evil}, "model": map[string]any{}})
	shown(t, "tokenize", "-m", dir, "a")
	config["model_type"] = evil
	save("config.json", config)
	shown(t, "inspect", dir)
	shown(t, "convert", dir, "-o", filepath.Join(t.TempDir(), "o.gguf"))

	// Files of other programs, and their names.
	shown(t, "inspect", write(t, evilName+".gguf", "GGUF"))
	shown(t, "profile", "show", write(t, "p.json", `{"format":`+quoted(evil)+`}`))
	shown(t, "bench", "compare", write(t, "b.txt", "Benchmark"+strings.ReplaceAll(evil, "\r", "")+" 1 1 ns/op\n"), write(t, "c.txt", ""))
	shown(t, "train", write(t, "t.json", `{`+quoted("field"+evil)+`:1}`))
	file := filepath.Join(t.TempDir(), "run.json")
	ok(t, "embed", "-m", testmodels.Dir(t, "bert"), "a text", "--format", "csv", "--profile="+file)
	p, err := profile.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.Facts.Model, p.Facts.CPU, p.Warnings = evil, evil, []string{evil}
	for i := range p.Plans {
		p.Plans[i].Name, p.Plans[i].Phase = evil, evil
		for j := range p.Plans[i].Steps {
			p.Plans[i].Steps[j].Kernel = evil
		}
	}
	if err := p.WriteFile(file); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"text", "md"} {
		shown(t, "profile", "show", file, "--format", format)
		shown(t, "profile", "compare", file, file, "--format", format)
	}
}

// evilName is what of evil a file's name can have.
var evilName = strings.ReplaceAll(evil, "/", "")

func quoted(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

func TestListQuotesNames(t *testing.T) {
	var b bytes.Buffer
	if err := printModels(&b, []pulledModel{{Name: evil, Format: "gguf", Path: "/" + evil}, {Name: "a", Path: "b"}}); err != nil {
		t.Fatal(err)
	}
	tame(t, "list", b.String())
	if !strings.Contains(b.String(), `\x1b]0;owned`) {
		t.Errorf("%q", b.String())
	}
}

func TestExcerptQuotes(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[31m\n b": `a\x1b[31m b`, "\xff": "\ufffd", strings.Repeat("ab ", 50): strings.Repeat("ab ", 6) + "a…",
	} {
		if got := excerpt(in, 20); got != want {
			t.Errorf("%q: %q, expected %q", in, got, want)
		}
	}
}
