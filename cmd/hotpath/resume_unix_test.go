//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hotpath/internal/testmodels"
)

// A pipe in the place of the output or of its state is refused, not waited for.
func TestResumeWaitsForNobody(t *testing.T) {
	bert, dir := testmodels.Dir(t, "bert"), t.TempDir()
	for _, pipe := range []string{"a.csv", "b.csv.resume"} {
		if err := syscall.Mkfifo(filepath.Join(dir, pipe), 0o600); err != nil {
			t.Skip("no pipes here")
		}
		out := filepath.Join(dir, strings.TrimSuffix(pipe, ".resume"))
		fails(t, exitFailed, []string{"embed", "-m", bert, "one", "-o", out, "--resume"}, pipe+": ", "regular file")
	}
}
