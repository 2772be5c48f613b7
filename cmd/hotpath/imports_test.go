package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// walk is the order of the design: a package imports only what stands before
// it, or its own folder. A package that is missing here fails the test.
var walk = []string{
	"profile",
	"internal/tensor", "internal/sample", "internal/tokenizer",
	"internal/kernel", "internal/format",
	"internal/weights",
	"internal/graph",
	"internal/model",
	"internal/plan", "internal/kv",
	"internal/backend",
	"internal/engine", "internal/train",
	"", // the module's root: package hotpath
	"cmd",
}

// alone are packages with a stricter rule than the walk's.
var alone = map[string][]string{
	"profile":            nil,
	"internal/tensor":    nil,
	"internal/tokenizer": nil,
	"internal/sample":    nil,
	"internal/kernel":    {"internal/tensor"},
	"internal/graph":     {"internal/tensor"},
}

// onlyTests are imported by tests and tools alone.
var onlyTests = []string{"internal/testmodels", "internal/optest"}

func within(pkg, folder string) bool {
	return pkg == folder || folder != "" && strings.HasPrefix(pkg, folder+"/")
}

func place(pkg string) int {
	for i, folder := range walk {
		if within(pkg, folder) {
			return i
		}
	}
	return -1
}

func TestImportsFollowTheWalk(t *testing.T) {
	root := repositoryRoot(t)
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "kernelgen" || name == "scripts") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		if pkg == "." {
			pkg = ""
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if imported == "hotpath" {
				checkImport(t, path, pkg, "")
			} else if ours, ok := strings.CutPrefix(imported, "hotpath/"); ok {
				checkImport(t, path, pkg, ours)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("only %d files were looked at; is %s the repository?", files, root)
	}
}

func checkImport(t *testing.T, file, pkg, imported string) {
	for _, only := range onlyTests {
		if within(pkg, only) {
			return
		}
		if within(imported, only) {
			t.Errorf("%s imports %s, which is for tests only", file, imported)
			return
		}
	}
	from, to := place(pkg), place(imported)
	if from < 0 || to < 0 {
		t.Errorf("%s: %q imports %q, and one of them has no place in the walk", file, pkg, imported)
		return
	}
	if from == to {
		return
	}
	if to > from {
		t.Errorf("%s: %q imports %q, which comes after it", file, pkg, imported)
	}
	for folder, may := range alone {
		if !within(pkg, folder) {
			continue
		}
		allowed := false
		for _, m := range may {
			allowed = allowed || within(imported, m)
		}
		if !allowed {
			t.Errorf("%s: %q imports %q; it may import only %v of ours", file, pkg, imported, may)
		}
	}
}
