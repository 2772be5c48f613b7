package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/builtin"
)

// Without -m, commands take a model inside the program; list and inspect know
// it by name.
func TestDefaultModels(t *testing.T) {
	if len(builtin.Models()) == 0 {
		t.Skip("built with -tags nomodels")
	}
	folder := filepath.Join(t.TempDir(), "study")
	text := write(t, "prose.txt", strings.Repeat("The river was wide and the night was dark. ", 40))
	for _, c := range []struct{ args, word string }{
		{"embed a\u00a0cat --format jsonl", `"embedding":[`},
		{"tokenize hello", "[CLS]"},
		{"run -p The\u00a0river -n 4 --format json", `"completion_tokens":4`},
		{"score the\u00a0cat\u00a0sat", "perplexity"},
		{"perplexity -f " + text + " --ctx 64", "windows of 64"},
		{"inspect " + builtin.Embedder, "mean pooling"},
		{"inspect " + builtin.Generator, "llama"},
		{"list", builtin.Embedder},
		{"list --format json", insideProgram},
		{"bench decode --list", "model=" + builtin.Generator},
		{"bench embed --list", "model=" + builtin.Embedder},
		{"profile run --iterations 1 --tokens 4", strings.ToUpper(builtin.Embedder)},
		{"profile run --work generate --iterations 1 --tokens 4", strings.ToUpper(builtin.Generator)},
		{"study whatif --step linear --quick -o " + folder, "report.md"},
	} {
		args := strings.Fields(strings.ReplaceAll(c.args, "\u00a0", "\x00"))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "\x00", " ")
		}
		if out := ok(t, args...); !strings.Contains(out, c.word) {
			t.Errorf("%s: %q is not in %.300s", c.args, c.word, out)
		}
	}
	out := ok(t, "similar", "someone makes music", "-f", filepath.Join("..", "..", "examples", "texts.txt"))
	if best, _, _ := strings.Cut(out, "\n"); !strings.Contains(best, "music") && !strings.Contains(best, "guitar") {
		t.Errorf("the best is %s", best)
	}
}

// The configurations that the models inside were trained by are valid.
func TestDefaultConfigs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "configs", "*.json"))
	if err != nil || len(files) != 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		ok(t, "train", file, "--validate")
	}
}

// A file of the same name is meant, not the model inside.
func TestFileBeforeBuiltin(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile(builtin.Embedder, []byte("no model"), 0o644); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, []string{"inspect", builtin.Embedder}, "expected a GGUF file")
}
