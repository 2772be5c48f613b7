package hotpath

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers are the packages from the ground up, each with those below it. A
// package imports ours from lower layers only, or from its own folder's group.
// A new package needs a place here.
var layers = [][]string{
	{"hotpath/internal/term", "hotpath/internal/lockfile", "hotpath/internal/stats", "hotpath/internal/builtin"},
	{"hotpath/internal/atomicfile", "hotpath/internal/experiment"},
	{"hotpath/profile", "hotpath/internal/testmodels", "hotpath/internal/pull", "hotpath/internal/chat", "hotpath/internal/perf", "hotpath/internal/limit"},
	{"hotpath/internal/tensor"},
	{"hotpath/internal/format", "hotpath/internal/kernel"},
	{"hotpath/internal/dataset"},
	{"hotpath/internal/tokenizer", "hotpath/internal/weights"},
	{"hotpath/internal/graph", "hotpath/internal/quant"},
	{"hotpath/internal/convert"},
	{"hotpath/internal/graph/grad"},
	{"hotpath/internal/model"},
	{"hotpath/internal/plan"},
	{"hotpath/internal/backend"},
	{"hotpath/internal/optest", "hotpath/internal/calib", "hotpath/internal/kv", "hotpath/internal/sample"},
	{"hotpath/internal/batch"},
	{"hotpath/internal/engine"},
	{"hotpath/internal/machine"},
	{"hotpath/internal/precision"},
	{"hotpath/internal/train", "hotpath/internal/bench"},
	{"hotpath/internal/study"},
	{"hotpath"},
	{"hotpath/opencl", "hotpath/cuda", "hotpath/internal/server"},
	{"hotpath/cmd", "hotpath/internal/gpubench", "hotpath/internal/peerbench", "hotpath/internal/soak"},
}

// closed lists groups that import nothing of ours but what is said here.
var closed = map[string][]string{
	"hotpath/internal/term":       {},
	"hotpath/internal/builtin":    {},
	"hotpath/profile":             {"hotpath/internal/term", "hotpath/internal/atomicfile", "hotpath/internal/stats"},
	"hotpath/internal/testmodels": {},
	"hotpath/internal/chat":       {},
	"hotpath/internal/lockfile":   {},
	"hotpath/internal/atomicfile": {"hotpath/internal/lockfile"},
	"hotpath/internal/pull":       {"hotpath/internal/lockfile", "hotpath/internal/atomicfile"},
	"hotpath/internal/kernel":     {"hotpath/internal/tensor", "hotpath/internal/stats"},
	"hotpath/internal/kv":         {},
	"hotpath/internal/sample":     {"hotpath/internal/kernel"},
	"hotpath/internal/perf":       {},
	"hotpath/internal/stats":      {},
	"hotpath/internal/limit":      {},
	"hotpath/internal/experiment": {"hotpath/internal/stats"},
}

// only lists packages that nobody but those said here imports: what makes
// tokenizers has no place in what runs models.
var only = map[string][]string{
	"hotpath/internal/tokenizer/learn": {"hotpath/cmd/hotpath", "hotpath/internal/train"},
}

// layerOf finds the group with the longest name that a package is in.
func layerOf(pkg string) (group string, layer int) {
	layer = -1
	for i, groups := range layers {
		for _, g := range groups {
			in := pkg == g || g != "hotpath" && strings.HasPrefix(pkg, g+"/")
			if in && len(g) > len(group) {
				group, layer = g, i
			}
		}
	}
	return group, layer
}

// mayImport says what is wrong with an import, or "".
func mayImport(from, to string) string {
	group, layer := layerOf(from)
	target, below := layerOf(to)
	switch {
	case layer < 0:
		return from + " has no place in layers"
	case below < 0:
		return to + " has no place in layers"
	case only[to] != nil && !slices.Contains(only[to], from):
		return fmt.Sprintf("%s imports %s, but only %v may", from, to, only[to])
	case target == group:
		return ""
	case closed[group] != nil && !slices.Contains(closed[group], target):
		return fmt.Sprintf("%s imports %s, but %s imports only %v of ours", from, to, group, closed[group])
	case below >= layer:
		return fmt.Sprintf("%s imports %s, which is not below it", from, to)
	}
	return ""
}

func TestImportsGoOneWay(t *testing.T) {
	packages := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			own, _ := filepath.Glob(filepath.Join(path, "go.mod"))
			if path != "." && (len(own) > 0 || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := strings.TrimSuffix("hotpath/"+filepath.ToSlash(filepath.Dir(path)), "/.")
		packages[pkg] = true
		if _, layer := layerOf(pkg); layer < 0 {
			t.Errorf("%s: package %s has no place in layers", path, pkg)
		}
		for _, i := range f.Imports {
			to, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if to != "hotpath" && !strings.HasPrefix(to, "hotpath/") {
				continue
			}
			if wrong := mayImport(pkg, to); wrong != "" {
				t.Errorf("%s: %s", path, wrong)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 15 {
		t.Errorf("%d packages found: is the walk broken?", len(packages))
	}
}

// TestThePublicPackageNamesNoKernel: what a model runs on is the business of the
// packages below. The public one and the engine import neither kernels nor backends.
func TestThePublicPackageNamesNoKernel(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := filepath.Glob(filepath.Join("internal", "engine", "*.go"))
	if err != nil || len(engine) < 10 {
		t.Fatalf("%d files of the engine: %v", len(engine), err)
	}
	for _, path := range append(files, engine...) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if to, _ := strconv.Unquote(i.Path.Value); strings.HasPrefix(to, "hotpath/internal/kernel") || strings.HasPrefix(to, "hotpath/internal/backend") {
				t.Errorf("%s imports %s", path, to)
			}
		}
	}
}

func TestWrongImportsAreFound(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"hotpath", "hotpath/internal/engine", true},
		{"hotpath/internal/engine", "hotpath", false},
		{"hotpath/internal/graph", "hotpath/internal/graph/grad", false},
		{"hotpath/internal/graph/grad", "hotpath/internal/graph", true},
		{"hotpath/internal/kernel/gemm", "hotpath/internal/kernel/isa", true},
		{"hotpath/internal/kernel/gemm", "hotpath/internal/tensor", true},
		{"hotpath/internal/kernel/gemm", "hotpath/profile", false},
		{"hotpath/internal/backend/null", "hotpath/internal/backend/ref", true},
		{"hotpath/internal/plan", "hotpath/internal/backend/cpu", false},
		{"hotpath/internal/weights", "hotpath/internal/tokenizer", false},
		{"hotpath/profile", "hotpath/internal/tensor", false},
		{"hotpath/internal/train", "hotpath/internal/engine", true},
		{"hotpath/internal/engine", "hotpath/internal/train", false},
		{"hotpath/cmd/hotpath", "hotpath", true},
		{"hotpath/internal/unknown", "hotpath/internal/tensor", false},
	} {
		if wrong := mayImport(c.from, c.to); (wrong == "") != c.ok {
			t.Errorf("%s imports %s: %q", c.from, c.to, wrong)
		}
	}
}
