package hotpath

import (
	"cmp"
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

// layers are groups of packages, the lowest layer first. A group is a package and the
// packages in its folder. A package imports ours only from lower layers and from its
// own group, see inside. A new group needs a row here.
var layers = [][]string{
	{"hotpath/internal/term", "hotpath/internal/lockfile", "hotpath/internal/stats", "hotpath/internal/student", "hotpath/internal/builtin", "hotpath/internal/aligned", "hotpath/internal/group"},
	{"hotpath/internal/atomicfile", "hotpath/internal/experiment"},
	{"hotpath/profile", "hotpath/internal/testmodels", "hotpath/internal/pull", "hotpath/internal/chat", "hotpath/internal/perf", "hotpath/internal/limit"},
	{"hotpath/internal/tensor"},
	{"hotpath/internal/format", "hotpath/internal/kernel"},
	{"hotpath/internal/dataset", "hotpath/internal/shapes"},
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

// inside orders the packages within groups, the lowest row first; "." is the group's
// own package. A package imports others of its group only from lower rows, so that no
// backend imports another device and no kernel imports its users.
var inside = map[string][][]string{
	"hotpath/internal/backend":   {{"ref", "device"}, {"cpu", "cuda", "null", "opencl"}},
	"hotpath/internal/format":    {{"."}, {"jsonview"}, {"gguf", "safetensors"}},
	"hotpath/internal/kernel":    {{"isa", "fence"}, {"vec", "codes", "ceiling"}, {"gemm"}, {"bf16", "i16", "int8"}},
	"hotpath/internal/tokenizer": {{"."}, {"learn", "tokbench"}},
	"hotpath/profile":            {{"internal/table"}, {"."}, {"report"}, {"compare"}, {"export"}},
}

// closed lists the groups that import only these groups of ours.
var closed = map[string][]string{
	"hotpath/internal/term":       {},
	"hotpath/internal/builtin":    {},
	"hotpath/internal/aligned":    {},
	"hotpath/internal/group":      {},
	"hotpath/profile":             {"hotpath/internal/aligned", "hotpath/internal/term", "hotpath/internal/atomicfile", "hotpath/internal/stats", "hotpath/internal/student"},
	"hotpath/internal/testmodels": {},
	"hotpath/internal/chat":       {},
	"hotpath/internal/lockfile":   {},
	"hotpath/internal/atomicfile": {"hotpath/internal/lockfile"},
	"hotpath/internal/pull":       {"hotpath/internal/lockfile", "hotpath/internal/atomicfile"},
	"hotpath/internal/kernel":     {"hotpath/internal/tensor", "hotpath/internal/stats", "hotpath/internal/group"},
	"hotpath/internal/kv":         {},
	"hotpath/internal/sample":     {"hotpath/internal/kernel"},
	"hotpath/internal/perf":       {},
	"hotpath/internal/stats":      {},
	"hotpath/internal/student":    {},
	"hotpath/internal/limit":      {},
	"hotpath/internal/experiment": {"hotpath/internal/stats", "hotpath/internal/student"},
}

// only lists packages that may be imported only by these packages: a program that
// runs models does not need the code that trains tokenizers.
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

// rowOf finds the row of a package inside its group, -1 if it has none.
func rowOf(group, pkg string) int {
	name := strings.TrimPrefix(strings.TrimPrefix(pkg, group), "/")
	return slices.IndexFunc(inside[group], func(row []string) bool { return slices.Contains(row, cmp.Or(name, ".")) })
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
		switch row, under := rowOf(group, from), rowOf(group, to); {
		case row < 0:
			return from + " has no place inside " + group
		case under < 0:
			return to + " has no place inside " + group
		case under >= row:
			return fmt.Sprintf("%s imports %s, which is not below it inside %s", from, to, group)
		}
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

// TestThePublicPackageNamesNoKernel: the public package and the engine import neither
// kernels nor backends. Package machine and the packages of cards register devices.
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
		{"hotpath/internal/kernel/vec", "hotpath/internal/kernel/gemm", false},
		{"hotpath/internal/kernel/bf16", "hotpath/internal/kernel/int8", false},
		{"hotpath/internal/kernel/gemm", "hotpath/internal/tensor", true},
		{"hotpath/internal/kernel/gemm", "hotpath/profile", false},
		{"hotpath/internal/backend/null", "hotpath/internal/backend/ref", true},
		{"hotpath/internal/backend/opencl", "hotpath/internal/backend/cuda", false},
		{"hotpath/internal/backend/unknown", "hotpath/internal/backend/ref", false},
		{"hotpath/internal/plan", "hotpath/internal/backend/cpu", false},
		{"hotpath/profile/export", "hotpath/profile/compare", true},
		{"hotpath/profile", "hotpath/profile/report", false},
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
