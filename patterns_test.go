package hotpath

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoNameIsAPattern: filepath.Glob reads the folder's name as a pattern too,
// so that a folder "o[1" is an error and "o*" is several. fs.Glob of os.DirFS
// has the folder apart from the pattern.
func TestNoNameIsAPattern(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), "filepath.Glob(") {
			t.Errorf("%s calls filepath.Glob, expected fs.Glob of os.DirFS", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
