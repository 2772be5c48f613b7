package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// fullDisk is a file that nothing can be written to.
func fullDisk(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// What prints to a full disk fails, whoever prints it.
func TestStandardOutputIsFull(t *testing.T) {
	full := fullDisk(t)
	bert, llama := testmodels.Dir(t, "bert"), testmodels.Dir(t, "llama")
	pretendHub(t)
	for _, line := range []string{
		"--help", "help", "help embed", "embed --help", "--version", "profile --help", "profile",
		"info", "inspect " + bert, "tokenize -m " + bert + " text", "embed -m " + bert + " text", "embed -m " + bert + " text --format npy",
		"similar -m " + bert + " query -f " + write(t, "texts.txt", "one\ntwo\n"),
		"score -m " + llama + " text", "run -m " + llama + " -p text -n 2",
		"perplexity -m " + llama + " --ctx 4 -f " + write(t, "corpus.txt", strings.Repeat("many words ", 20)),
		"pull " + hubModel, "list", "list --format json",
		"quantize " + testmodels.Dir(t, "gguf/llama-f32.gguf") + " " + filepath.Join(t.TempDir(), "out.gguf") + " Q8_0",
		"bench rope --list",
	} {
		var errs bytes.Buffer
		status := execute(context.Background(), strings.Fields(line), streams{nil, full, &errs})
		last := strings.Split(strings.TrimSpace(errs.String()), "\n")
		if text := last[len(last)-1]; status != exitFailed || !strings.Contains(text, "no space left") {
			t.Errorf("%s: status %d: %q", line, status, errs.String())
		}
	}
}
