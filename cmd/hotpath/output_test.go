package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/schollz/progressbar/v3"

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
	f := &outputFile{File: fullDisk(t), path: "vectors.npy", temp: ".vectors.npy.tmp-1"}
	_, err := f.Write([]byte("x"))
	if err == nil || err.Error() != "write vectors.npy: no space left on device" {
		t.Errorf("%v", err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil || !strings.Contains(err.Error(), "vectors.npy:") || strings.Contains(err.Error(), "tmp") {
		t.Errorf("%v", err)
	}
	// It cannot be renamed to a folder that is not there.
	plain, err := createOutput(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	plain.path = filepath.Join(t.TempDir(), "none", "out")
	if err := plain.commit(); err == nil || strings.Contains(err.Error(), "tmp-") || !strings.Contains(err.Error(), plain.path) {
		t.Errorf("%v", err)
	}
}

// The rate counts from the beginning of the work, although the first answers
// come all at once.
func TestProgressRate(t *testing.T) {
	var shown bytes.Buffer
	now := time.Unix(100, 0)
	p := &progress{now: func() time.Time { return now }, bar: progressbar.NewOptions64(10, progressbar.OptionSetWriter(&shown), progressbar.OptionShowBytes(true))}
	p.begin()
	if !p.bar.IsStarted() {
		t.Error("the bar's own clock has not begun")
	}
	now = now.Add(10 * time.Second)
	p.rate(5000)
	p.rate(5000)
	if got := shown.String(); !strings.Contains(got, "1000 tok/s") || strings.Contains(got, "10000 tok/s") {
		t.Errorf("shown: %q", got)
	}
}

// Pipes and devices take every format, links lead to what is written, and
// nobody writes over what is read.
func TestOutputPlaces(t *testing.T) {
	bert := testmodels.Dir(t, "bert")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	ok(t, "embed", "-m", bert, "one", "two", "-o", at("plain.npy"))
	want, err := os.ReadFile(at("plain.npy"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Skip("no pipes here")
	}
	got := make(chan []byte)
	go func() {
		data, _ := os.ReadFile(at("pipe"))
		got <- data
	}()
	ok(t, "embed", "-m", bert, "one", "two", "-o", at("pipe"), "--format", "npy")
	if !bytes.Equal(<-got, want) {
		t.Error("a pipe got another file")
	}
	for _, link := range []string{"link.npy", "again.npy"} { // its target is not there, then it is
		if link == "link.npy" {
			err = os.Symlink("target.npy", at(link))
		} else {
			err = os.Symlink("link.npy", at(link))
		}
		if err != nil {
			t.Fatal(err)
		}
		ok(t, "embed", "-m", bert, "one", "two", "-o", at(link))
		if to, err := os.Readlink(at(link)); err != nil || !strings.HasSuffix(to, ".npy") {
			t.Errorf("%s is no link any more (%v)", link, err)
		}
		if data, err := os.ReadFile(at("target.npy")); err != nil || !bytes.Equal(data, want) {
			t.Errorf("%s: %v", link, err)
		}
	}
	// A file that grows in place does so where the link leads, and is gone on with there.
	if err := errors.Join(os.Symlink("grown.npy", at("grows.npy")), os.Symlink("loop.npy", at("loop.npy"))); err != nil {
		t.Fatal(err)
	}
	for _, input := range [][]string{{"one"}, {"one", "two"}} {
		ok(t, append([]string{"embed", "-m", bert, "--invariant", "-o", at("grows.npy"), "--resume"}, input...)...)
	}
	if _, err := os.Readlink(at("grows.npy")); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(at("grown.npy")); err != nil || len(data) != len(want) {
		t.Errorf("%d bytes, want %d (%v)", len(data), len(want), err)
	}
	fails(t, exitFailed, []string{"embed", "-m", bert, "one", "-o", at("loop.npy")}, "loop.npy: too many levels of symbolic links")
	// A link's .. is that of the folder it lies in, not of a link to that folder.
	if err := errors.Join(os.MkdirAll(at("a/b"), 0o700), os.Symlink("../up.npy", at("a/b/link.npy")), os.Symlink("a/b", at("short"))); err != nil {
		t.Fatal(err)
	}
	ok(t, "embed", "-m", bert, "one", "two", "-o", at("short/link.npy"))
	if data, err := os.ReadFile(at("a/up.npy")); err != nil || !bytes.Equal(data, want) {
		t.Errorf("a link beside a link: %v", err)
	}
	texts := at("texts.jsonl")
	if err := os.WriteFile(texts, []byte(`{"text": "one"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, exitUsage, []string{"embed", "-m", bert, "-f", texts, "-o", texts}, "texts.jsonl")
	fails(t, exitUsage, []string{"embed", "-m", bert, "-f", dir, "-o", at("out.jsonl"), "--resume"}, "out.jsonl")
	folder := filepath.Join(t.TempDir(), "folder") // the same by another name
	if err := os.Symlink(dir, folder); err != nil {
		t.Fatal(err)
	}
	fails(t, exitUsage, []string{"embed", "-m", bert, "-f", folder, "-o", at("out.jsonl")}, "out.jsonl")
	ok(t, "embed", "-m", bert, "-f", dir, "-o", at("out.npy"))
	fails(t, exitFailed, []string{"embed", "-m", bert, "one", "-o", filepath.Join(dir, "none", "x.npy"), "--resume"}, "x.npy: no such")
	if bert, err = filepath.Abs(bert); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(dir))
	fails(t, exitUsage, []string{"embed", "-m", bert, "-f", filepath.Base(dir), "-o", at("out.jsonl")}, "out.jsonl")
}
