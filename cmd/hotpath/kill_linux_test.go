package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// A process that is killed while it writes its output leaves nothing beside it.
func TestKillLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := process(t, "embed", "-m", testmodels.Dir(t, "bert"), "-f", "-", "-o", filepath.Join(dir, "v.csv"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "one\ntwo\n"); err != nil { // and no end: it waits for more
		t.Fatal(err)
	}
	for !writesInto(t, cmd.Process.Pid, dir) { // until the time of process is over
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("it ended by itself")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// writesInto reports whether a process has a file of a folder open.
func writesInto(t *testing.T, pid int, dir string) bool {
	t.Helper()
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(fds)
	if err != nil {
		t.Fatalf("it ended too early: %v", err)
	}
	for _, fd := range open {
		if to, err := os.Readlink(filepath.Join(fds, fd.Name())); err == nil && strings.HasPrefix(to, dir+string(filepath.Separator)) {
			return true
		}
	}
	return false
}
