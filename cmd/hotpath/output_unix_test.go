//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hotpath/internal/testmodels"
)

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
	fails(t, exitFailed, []string{"embed", "-m", bert, "one", "-o", at("loop.npy")}, "loop.npy: cannot be written: too many levels of symbolic links")
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
	fails(t, exitFailed, []string{"embed", "-m", bert, "one", "-o", filepath.Join(dir, "none", "x.npy"), "--resume"}, "x.npy: cannot be written: no such")
	if bert, err = filepath.Abs(bert); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(dir))
	fails(t, exitUsage, []string{"embed", "-m", bert, "-f", filepath.Base(dir), "-o", at("out.jsonl")}, "out.jsonl")
}
