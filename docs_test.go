package hotpath_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var docFile = regexp.MustCompile("`([a-z_./0-9-]+\\.(?:go|s|sh|py|md))(?::[A-Za-z]+)?`")

// TestDocsNameFiles: each file that a page names exists. A bare name is looked
// for in the folder of the file named before it.
func TestDocsNameFiles(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	named := 0
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		dir := "."
		for _, m := range docFile.FindAllStringSubmatch(string(text), -1) {
			named++
			name := m[1]
			if _, err := os.Stat(name); err == nil {
				dir = filepath.Dir(name)
				continue
			}
			if strings.Contains(name, "/") {
				t.Errorf("%s names %s, which does not exist", page, name)
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s names %s, which is neither here nor in %s", page, name, dir)
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d names of files were found: has the page's style changed?", named)
	}
}
