package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// The names of the documents work after 'make models', from any folder, and a
// second checkout does not take them over.
func TestNamesAfterFetch(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash here")
	}
	pretendHub(t)
	cache := filepath.Join(t.TempDir(), "cache")
	t.Setenv("HOTPATH_CACHE", cache)
	fixtures := map[string]string{"all-MiniLM-L6-v2": testmodels.Dir(t, "bert"), "SmolLM2-135M-Instruct.Q4_1.gguf": testmodels.Dir(t, "gguf/llama-q8_0.gguf")}
	script := filepath.Join(repositoryRoot(t), "scripts", "fetch_models.sh")
	fetch := func(home string) string {
		t.Helper()
		models := filepath.Join(home, "models")
		if err := os.MkdirAll(models, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, fixture := range fixtures {
			if err := os.Symlink(fixture, filepath.Join(models, name)); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "bash", script, models)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return models
	}
	config := trainConfig(t, "llama", map[string]any{"model": "SmolLM2-135M-Instruct.Q4_1.gguf", "objective": map[string]any{"type": "distill", "teacher": "SmolLM2-135M-Instruct.Q4_1"}, "steps": 1})
	first := fetch(t.TempDir())
	t.Chdir(t.TempDir())
	for _, line := range []string{
		"embed -m all-MiniLM-L6-v2 text",
		"inspect all-MiniLM-L6-v2",
		"convert all-MiniLM-L6-v2 -o minilm.gguf",
		"run -m SmolLM2-135M-Instruct.Q4_1.gguf -n 1 -p text",
		"score -m SmolLM2-135M-Instruct.Q4_1 text",
		"quantize SmolLM2-135M-Instruct.Q4_1.gguf small.gguf Q8_0",
	} {
		ok(t, strings.Fields(line)...)
	}
	ok(t, "train", config, "-o", "trained")
	ok(t, "train", config, "--dry-run")
	for _, more := range [][]string{{"-o", "more"}, {"--dry-run"}} {
		fails(t, exitFailed, append([]string{"train", config, "--set", "model=absent"}, more...), "absent: not a model", "no pulled model has that name")
	}
	if got := ok(t, "list"); strings.Count(got, "\n") != 4 || !strings.Contains(got, filepath.Join(cache, "models", "all-MiniLM-L6-v2")) {
		t.Errorf("list: %q", got)
	}
	// What the name means stays what it was, until that is gone.
	link := filepath.Join(cache, "models", "all-MiniLM-L6-v2")
	means := func() string {
		to, err := os.Readlink(link)
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(to)
	}
	fetch(t.TempDir())
	if means() != first {
		t.Errorf("%s, expected %s", means(), first)
	}
	if err := os.RemoveAll(first); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, []string{"embed", "-m", "all-MiniLM-L6-v2", "text"}, "no pulled model has that name")
	third := fetch(t.TempDir())
	if means() != third {
		t.Errorf("%s, expected %s", means(), third)
	}
	ok(t, "embed", "-m", "all-MiniLM-L6-v2", "text")
	// A folder of that name here is a path; the name means it, as documented.
	if err := os.Mkdir("all-MiniLM-L6-v2", 0o700); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, []string{"embed", "-m", "all-MiniLM-L6-v2", "text"}, "all-MiniLM-L6-v2: not a model", "config.json")
}
