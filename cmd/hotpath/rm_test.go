package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/pull"
	"hotpath/internal/testmodels"
)

// rm deletes a link in the folder of models and says so: the model stays.
func TestRmOfALink(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HOTPATH_CACHE", cache)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_HUB_CACHE", "")
	target := testmodels.Dir(t, "gguf/llama-q8_0.gguf")
	link := filepath.Join(cache, "models", "mine.gguf")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skip("no links here")
	}
	m, err := (&pull.Puller{Models: filepath.Dir(link)}).Find("mine")
	if err != nil {
		t.Fatal(err)
	}
	if q := deletionOf(m).question; !strings.Contains(q, "a link at "+link+"? The model at "+target+" stays.") {
		t.Errorf("the question is %q", q)
	}
	fails(t, exitUsage, []string{"rm", "mine"}, "mine.gguf is a link at "+link, "--yes deletes the link", target+" stays")
	r := run(t, "rm", "mine", "--yes")
	if want := "mine.gguf: link deleted, the model at " + target + " stays\n"; r.status != exitDone || r.err != want {
		t.Errorf("exit %d, %q, expected %q", r.status, r.err, want)
	}
	if _, err := os.Lstat(link); err == nil {
		t.Error("the link is still there")
	}
	if _, err := os.Stat(target); err != nil {
		t.Error(err)
	}
}
