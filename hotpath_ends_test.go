package hotpath

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hotpath/internal/convert"
	"hotpath/internal/quant"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// endingModel is the llama fixture with other files beside its own.
func endingModel(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "llama"))); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func greedy(t *testing.T, path string) Completion {
	t.Helper()
	m, err := Open(path, Options{Threads: 1, Precision: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c, err := m.Complete(context.Background(), "once upon", GenerateOptions{MaxTokens: 12, Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Generation ends where generation_config.json says, or without that file where
// config.json does, with a number or a list, as generate of transformers does; a converted file ends at
// the same tokens.
func TestGenerationEndsWhereTheFilesSay(t *testing.T) {
	free := greedy(t, testmodels.Dir(t, "llama"))
	if len(free.IDs) != 12 {
		t.Fatalf("%d tokens, expected no end among 12", len(free.IDs))
	}
	// The first token that was not there before it, so that its place is known.
	at := 4
	for slices.Contains(free.IDs[:at], free.IDs[at]) {
		at++
	}
	id := strconv.Itoa(int(free.IDs[at]))
	config, err := os.ReadFile(filepath.Join(testmodels.Dir(t, "llama"), "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(config), `"eos_token_id": 0`, `"eos_token_id": [`+id+`]`, 1)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int
	}{
		{"a number", map[string]string{"generation_config.json": `{"eos_token_id": ` + id + `}`}, at},
		{"a list", map[string]string{"generation_config.json": `{"eos_token_id": [0, ` + id + `, 3]}`}, at},
		{"without", map[string]string{"generation_config.json": `{"do_sample": false}`}, 12},
		{"config.json", map[string]string{"config.json": other}, at},
		{"both", map[string]string{"config.json": other, "generation_config.json": `{"eos_token_id": 0}`}, 12},
		{"only there", map[string]string{"config.json": other, "generation_config.json": `{"do_sample": false}`}, 12},
		{"null", map[string]string{"config.json": other, "generation_config.json": `{"eos_token_id": null}`}, 12},
		{"below 0", map[string]string{"generation_config.json": `{"eos_token_id": -1}`}, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := endingModel(t, c.files)
			file := filepath.Join(t.TempDir(), "out.gguf")
			convertFile(t, dir, file)
			for _, path := range []string{dir, file} {
				if got := greedy(t, path); len(got.IDs) != c.want {
					t.Errorf("%s: %d tokens, expected %d", path, len(got.IDs), c.want)
				}
			}
		})
	}
}

// A chat template that says eos_token means the tokenizer's, wherever generation
// ends: in the directory and in its file.
func TestTemplatesKeepTheEndOfTexts(t *testing.T) {
	for ends, kept := range map[string][]int32{"5": {0, 5}, "[5, 6, 7]": {0, 5, 6}, "[5, 0]": {0, 5}} {
		dir := endingModel(t, map[string]string{
			"generation_config.json": `{"eos_token_id": ` + ends + `}`,
			"chat_template.jinja":    `{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}`,
		})
		file := filepath.Join(t.TempDir(), "out.gguf")
		convertFile(t, dir, file)
		for _, path := range []string{dir, file} {
			m, err := Open(path, Options{Threads: 1, Precision: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			text, err := m.ChatPrompt([]Message{{Role: "user", Content: "a"}})
			if err != nil || text != "a<|endoftext|>" {
				t.Errorf("%s: %s: %q, %v", ends, path, text, err)
			}
			if got := m.tok.Ends(); path == file && !slices.Equal(got, kept) {
				t.Errorf("%s: generation of the file ends at %v, expected %v", ends, got, kept)
			}
			m.Close()
		}
	}
}

func convertFile(t *testing.T, dir, to string) {
	t.Helper()
	in, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	mix, err := quant.ParseMix("F32")
	if err == nil {
		_, err = convert.Directory(t.Context(), in, to, mix, quant.Options{Threads: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
}
