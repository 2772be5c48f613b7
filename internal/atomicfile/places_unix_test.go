//go:build unix

package atomicfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Pipes and devices are written directly and stay what they are.
func TestPipesAndDevices(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here")
	}
	if err := errors.Join(Check(pipe), os.Symlink("pipe", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, filepath.Join(dir, "link")} {
		got := make(chan []byte)
		go func() {
			data, _ := os.ReadFile(pipe)
			got <- data
		}()
		want := bytes.Repeat([]byte("text"), 1<<16)
		if err := WriteFile(path, want); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(<-got, want) {
			t.Error("the pipe gave something else")
		}
	}
	only(t, dir, "link", "pipe")
	if err := errors.Join(Check(os.DevNull), WriteFile(os.DevNull, []byte("x"))); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Fatalf("%s was replaced: %v, %v", os.DevNull, info.Mode(), err)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		if err := WriteFile("/dev/full", []byte("x")); !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "/dev/full: ") {
			t.Errorf("%v, expected that there is no space", err)
		}
	}
	if err := Replace(pipe, []byte("x")); err != nil {
		t.Fatal(err)
	}
	holds(t, pipe, "x")
}
