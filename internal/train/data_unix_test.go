//go:build unix

package train

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe among the data is an error and not waited for.
func TestCorpusWaitsForNobody(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.txt"), 0o600); err != nil {
		t.Skip("no pipes here")
	}
	for _, path := range []string{dir, filepath.Join(dir, "pipe.txt")} {
		if _, err := opened(t, tok, vocab, sourceSpec{paths: []string{path}}); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "pipe.txt: expected a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
