//go:build unix

package calib

import (
	"strings"
	"syscall"
	"testing"
)

// TestCacheWaitsForNobody: a pipe in the place of a file is not opened.
func TestCacheWaitsForNobody(t *testing.T) {
	dir, k := t.TempDir(), key()
	if err := syscall.Mkfifo(k.file(dir), 0o600); err != nil {
		t.Skip("no pipes here")
	}
	if _, err := Load(dir, k); err == nil || !strings.Contains(err.Error(), "expected a regular file") {
		t.Error(err)
	}
	if err := Store(dir, k, Default(2, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, k); err != nil {
		t.Errorf("it was not replaced: %v", err)
	}
}
