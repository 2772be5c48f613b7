package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// oddNames are file names that mean something else to a pattern, a format
// string, a regular expression or JSON.
var oddNames = []string{"o[1", "o*", `o\`, "%d%s", "(", "123", "null", `"x"`, "\xff"}

// trainConfig writes a configuration of a short run.
func trainConfig(t *testing.T, model string, more map[string]any) string {
	t.Helper()
	fields := map[string]any{
		"model": testmodels.Dir(t, model), "data": testmodels.Dir(t, "shakespeare.txt"),
		"steps": 2, "batch_tokens": 64, "seq_len": 32, "out": "elsewhere",
	}
	for name, value := range more {
		fields[name] = value
	}
	config, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "config.json", string(config))
}

func TestTrainIntoOddNames(t *testing.T) {
	config := trainConfig(t, "llama", map[string]any{"steps": 1})
	t.Chdir(t.TempDir())
	for _, name := range oddNames {
		left := filepath.Join(name, ".tmp-step-00000007") // of a run that was killed
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Logf("%q: no such name here: %v", name, err)
			continue
		}
		r := run(t, "train", config, "-o", name)
		if r.status != exitDone {
			t.Errorf("-o %q: exit %d: %s", name, r.status, r.err)
			continue
		}
		if _, err := os.Stat(filepath.Join(name, "step-00000001")); err != nil {
			t.Errorf("-o %q: %v", name, err)
		}
		if _, err := os.Stat(left); err == nil {
			t.Errorf("-o %q: what a killed run left is still there", name)
		}
	}
	fails(t, exitUsage, []string{"train", config, "-o", ""}, "expected the name")
}

func TestFoldersOfOddNames(t *testing.T) {
	recording := filepath.Join(t.TempDir(), "a.json")
	ok(t, "score", "-m", testmodels.Dir(t, "llama"), "some words", "--profile="+recording)
	data, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range oddNames {
		folder := filepath.Join(dir, name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Logf("%q: no such name here: %v", name, err)
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, "weights.gguf"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := run(t, "tokenize", "-m", folder, "x"); r.status != exitFailed || !strings.Contains(r.err, "it holds weights.gguf") {
			t.Errorf("%q: exit %d: %s", name, r.status, r.err)
		}
		if err := os.WriteFile(filepath.Join(folder, "a.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		ok(t, "profile", "compare", folder, folder)
	}
}
