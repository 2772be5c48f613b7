package weights

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func digest(t *testing.T, path string) string {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.Digest(t.Context())
	if err != nil || len(d) != 64 {
		t.Fatalf("%q, %v", d, err)
	}
	return d
}

// Copies have one digest, and every file that the model is read from is in it.
func TestDigest(t *testing.T) {
	dir := hfDir(t)
	want := digest(t, dir)
	other := filepath.Join(t.TempDir(), "renamed")
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if got := digest(t, other+string(filepath.Separator)); got != want {
		t.Errorf("%s, expected that of a copy, %s", got, want)
	}
	seen := map[string]string{want: "the model itself"}
	for _, file := range []string{"config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json", "config_sentence_transformers.json", "sentence_bert_config.json", "tokenizer_config.json", "generation_config.json"} {
		path := filepath.Join(other, file)
		was, err := os.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			write(t, path, []byte(`{"x":1}`))
		case err != nil:
			t.Fatal(err)
		case file == "modules.json":
			write(t, path, bytes.Replace(was, []byte("Pooling"), []byte("Poolinx"), 1))
		default:
			write(t, path, bytes.Replace(was, []byte("{"), []byte(`{"another":1,`), 1))
		}
		d := digest(t, other)
		if first, ok := seen[d]; ok {
			t.Errorf("with another %s the digest is that of %s", file, first)
		}
		seen[d] = file
		if was == nil {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			write(t, path, was)
		}
	}
	// Every bit of the weights counts.
	for _, file := range []string{"model.safetensors", "2_Dense/model.safetensors"} {
		path := filepath.Join(other, file)
		was := must(os.ReadFile(path))
		changed := bytes.Clone(was)
		changed[len(changed)-3] ^= 1
		write(t, path, changed)
		d := digest(t, other)
		if first, ok := seen[d]; ok {
			t.Errorf("with another bit of %s the digest is that of %s", file, first)
		}
		seen[d] = file
		write(t, path, was)
	}
	if got := digest(t, other); got != want {
		t.Errorf("%s, expected %s again", got, want)
	}
}

// A GGUF file is known by its content alone, chunks and parts in order.
func TestDigestGGUF(t *testing.T) {
	dir := t.TempDir()
	name := func(base string, i int) string {
		return filepath.Join(dir, base+[]string{"-00001-of-00002.gguf", "-00002-of-00002.gguf"}[i])
	}
	a, b := ggufPart(t, 0, 2, "a"), ggufPart(t, 1, 2, "b")
	for _, base := range []string{"one", "two"} {
		write(t, name(base, 0), a)
		write(t, name(base, 1), b)
	}
	want := digest(t, name("one", 0))
	if got := digest(t, name("two", 0)); got != want {
		t.Errorf("%s under another name, expected %s", got, want)
	}
	b[len(b)-1] ^= 1
	write(t, name("two", 1), b)
	if digest(t, name("two", 0)) == want {
		t.Error("another bit of the second part, the same digest")
	}
	// Longer than a chunk, and cut short by its context.
	long := filepath.Join(dir, "long")
	write(t, long, make([]byte, 2*digestChunk+5))
	m := must(openMapping(long))
	defer m.close()
	sums := must(m.digest(t.Context()))
	if len(sums) != 3*32 || !bytes.Equal(sums[:32], sums[32:64]) || bytes.Equal(sums[:32], sums[64:]) {
		t.Errorf("%x", sums)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.digest(gone); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s := open(t, name("one", 0))
	s.Close()
	if _, err := s.Digest(t.Context()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
