package hotpath

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
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

// TestNoBuiltinIsShadowed: a variable called max or error hides the builtin from the
// rest of its function, and from whoever edits it later.
func TestNoBuiltinIsShadowed(t *testing.T) {
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		check := func(name *ast.Ident) {
			if name.Name != "_" && types.Universe.Lookup(name.Name) != nil {
				t.Errorf("%s: %s hides the builtin, expected another name", files.Position(name.Pos()), name.Name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok == token.DEFINE {
					checkNames(n.Lhs, check)
				}
			case *ast.RangeStmt:
				if n.Tok == token.DEFINE {
					checkNames([]ast.Expr{n.Key, n.Value}, check)
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					check(name)
				}
			case *ast.FuncType:
				for _, list := range []*ast.FieldList{n.Params, n.Results} {
					for i := 0; list != nil && i < len(list.List); i++ {
						for _, name := range list.List[i].Names {
							check(name)
						}
					}
				}
			case *ast.FuncDecl:
				if n.Recv == nil {
					check(n.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkNames(names []ast.Expr, check func(*ast.Ident)) {
	for _, e := range names {
		if name, ok := e.(*ast.Ident); ok {
			check(name)
		}
	}
}
