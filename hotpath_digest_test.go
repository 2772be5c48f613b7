package hotpath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"hotpath/internal/testmodels"
)

// A model is known by its content: not by its path, and to the last bit.
func TestModelDigest(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(testmodels.Dir(t, "llama"))); err != nil {
		t.Fatal(err)
	}
	digest := func(path string) string {
		t.Helper()
		m, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := m.Digest(t.Context())
		if err != nil || len(d) != 64 {
			t.Fatalf("%q, %v", d, err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.Digest(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Digest(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		return d
	}
	want := digest(testmodels.Dir(t, "llama"))
	if got := digest(copied); got != want {
		t.Errorf("%s of a copy, expected %s", got, want)
	}
	weights := filepath.Join(copied, "model.safetensors")
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(weights, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if digest(copied) == want {
		t.Error("another bit, the same digest")
	}
}
