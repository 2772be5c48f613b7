package weights

import (
	"path/filepath"
	"testing"

	"hotpath/internal/builtin"
)

// A model inside the program opens by its name, as its file does, and can be
// opened again after Close.
func TestOpenBuiltin(t *testing.T) {
	if len(builtin.Models()) == 0 {
		t.Skip("built with -tags nomodels")
	}
	for _, m := range builtin.Models() {
		file, err := Open(filepath.Join("..", "builtin", m.Name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := file.Digest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s, err := Open(m.Name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Digest(t.Context())
			if err != nil || got != want {
				t.Errorf("%s: digest %s, error %v, want that of the file, %s", m.Name, got, err, want)
			}
			for _, name := range s.Names() {
				x, err := s.Get(name)
				if err != nil {
					t.Fatal(err)
				}
				s.Drop(x)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}
