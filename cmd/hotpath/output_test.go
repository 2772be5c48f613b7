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

// An error names the file of -o, not what it is called until it is complete.
func TestFullDiskNamesTheFile(t *testing.T) {
	f := &outputFile{File: fullDisk(t), path: "vectors.npy"}
	_, err := f.Write([]byte("x"))
	if err == nil || err.Error() != "write vectors.npy: no space left on device" {
		t.Errorf("%v", err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil || !strings.Contains(err.Error(), "vectors.npy:") || strings.Contains(err.Error(), "tmp") {
		t.Errorf("%v", err)
	}
	// It cannot get its name in a folder that is not there.
	dir := filepath.Join(t.TempDir(), "none")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	plain, err := createOutput(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := plain.commit(); err == nil || strings.Contains(err.Error(), "tmp-") || !strings.Contains(err.Error(), plain.path) {
		t.Errorf("%v", err)
	}
}
