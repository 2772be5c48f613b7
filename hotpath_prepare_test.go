package hotpath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"hotpath/internal/testmodels"
)

// TestPrepare: a prepared model has its program and weights when Open returns, and
// answers as another one does. What is wrong with a file is an error of Open.
func TestPrepare(t *testing.T) {
	path := testmodels.Dir(t, "gguf/llama-q4_0.gguf")
	ctx := context.Background()
	o := GenerateOptions{MaxTokens: 8, Raw: true, IgnoreEOS: true}
	plain, ready := open(t, path, Options{}), open(t, path, Options{Prepare: true})
	if n := plain.eng.WeightBytes(); n != 0 {
		t.Errorf("%d bytes of weights are packed before the first call, expected none without Prepare", n)
	}
	packed := ready.eng.WeightBytes()
	want, err := plain.Complete(ctx, "A stitch in time", o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ready.Complete(ctx, "A stitch in time", o)
	if err != nil || got.Text != want.Text {
		t.Errorf("%q, %v, expected %q", got.Text, err, want.Text)
	}
	if n := ready.eng.WeightBytes(); packed == 0 || n != packed {
		t.Errorf("%d bytes of weights are packed after Open and %d after the first call, expected the same", packed, n)
	}
	if _, err := Open(testmodels.Dir(t, "bert"), Options{Prepare: true}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a model that does not generate: %v, expected ErrUnsupported", err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "llama"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, prepare := range []bool{false, true} {
		if m, err := Open(dir, Options{Prepare: prepare}); err == nil || m != nil {
			t.Errorf("a damaged tokenizer, prepare %v: %v, expected an error", prepare, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := OpenContext(cancelled, path, Options{Prepare: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
