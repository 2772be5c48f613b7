package weights

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
)

func TestOpenShards(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), []byte(`{}`))
	index := filepath.Join(dir, "model.safetensors.index.json")
	write(t, index, []byte(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`))
	write(t, filepath.Join(dir, "1.safetensors"), tensorsFile(t, "a"))
	second := filepath.Join(dir, "2.safetensors")
	for _, c := range []struct {
		make func()
		is   error
		says string
	}{
		{func() {}, os.ErrNotExist, "names 2.safetensors, which is missing"},
		{func() { must(0, os.Symlink("gone", second)) }, os.ErrNotExist, "2.safetensors: a link to gone, which is missing"},
		{func() { must(0, os.Remove(second)); write(t, second, tensorsFile(t, "c")) }, ErrInvalid, `tensor "b" is not in 2.safetensors`},
		{func() { write(t, second, tensorsFile(t, "b", "a")) }, ErrInvalid, `tensor "a" is in`},
		{func() { write(t, second, tensorsFile(t, "b")[:100]) }, ErrTruncated, "2.safetensors"},
		{func() { write(t, index, []byte(`{"weight_map":{"a":"../1.safetensors"}}`)) }, ErrInvalid, "a file beside the index"},
	} {
		c.make()
		if _, err := Open(dir); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, expected %q", err, c.says)
		}
	}
	write(t, index, []byte(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`))
	write(t, second, tensorsFile(t, "b", "unlisted"))
	s := open(t, dir)
	if !slices.Equal(s.Names(), []string{"a", "b", "unlisted"}) {
		t.Error(s.Names())
	}
	checkRamp(t, s, "a")
	checkRamp(t, s, "b")
}

// In the cache of a model hub every file is a link into a folder beside.
func TestOpenLinks(t *testing.T) {
	target, root := hfDir(t), t.TempDir()
	snapshot := filepath.Join(root, "snapshots", "0123")
	n := 0
	err := filepath.WalkDir(target, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel := must(filepath.Rel(target, path))
		blob := filepath.Join(root, "blobs", fmt.Sprint(n))
		n++
		write(t, blob, must(os.ReadFile(path)))
		link := filepath.Join(snapshot, rel)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return err
		}
		return os.Symlink(must(filepath.Rel(filepath.Dir(link), blob)), link)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, snapshot)
	if want := []string{"2_Dense/linear.weight", "a", "b"}; !slices.Equal(s.Names(), want) || s.HF().Pooling() == nil {
		t.Errorf("%v, expected %v", s.Names(), want)
	}
	checkRamp(t, s, "2_Dense/linear.weight")
}

// A static embedding is a table beside a tokenizer, without a config.json.
func TestOpenStatic(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "modules.json"), []byte(`[{"path":"0_StaticEmbedding","type":"sentence_transformers.models.StaticEmbedding"}]`))
	write(t, filepath.Join(dir, "0_StaticEmbedding", "tokenizer.json"), []byte(`{}`))
	write(t, filepath.Join(dir, "0_StaticEmbedding", "model.safetensors"), tensorsFile(t, "embedding.weight"))
	s := open(t, dir)
	if !slices.Equal(s.Names(), []string{"embedding.weight"}) || string(s.HF().TokenizerJSON) != "{}" || len(s.HF().Config.Keys()) != 0 {
		t.Error(s.Names())
	}
	if again := must(s.HF().Read("tokenizer.json")); &again[0] != &s.HF().TokenizerJSON[0] {
		t.Error("tokenizer.json was read twice")
	}
}

// ggufPart is one file of a split model.
func ggufPart(t *testing.T, no, count int, names ...string) []byte {
	t.Helper()
	var w gguf.Writer
	for key, v := range map[string]any{"split.no": uint16(no), "split.count": uint16(count), "split.tensors.count": int32(2)} {
		if err := w.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if err := w.Add(name, tensor.BF16, []int{4, 64}, ramp(t, tensor.BF16, 256)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOpenSplitGGUF(t *testing.T) {
	dir := t.TempDir()
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", i)) }
	write(t, name(1), ggufPart(t, 0, 3))
	write(t, name(2), ggufPart(t, 1, 3, "b"))
	third := func(data []byte) func() { return func() { write(t, name(3), data) } }
	for _, c := range []struct {
		make func()
		path string
		is   error
		says string
	}{
		{func() {}, name(1), os.ErrNotExist, "m-00003-of-00003.gguf is missing"},
		{third(ggufPart(t, 2, 4, "a")), name(1), ErrInvalid, `key "split.count": 4, expected 3`},
		{third(ggufPart(t, 1, 3, "a")), name(1), ErrInvalid, `key "split.no": 1, expected 2`},
		{third(ggufPart(t, 2, 3, "a", "b")), name(1), ErrInvalid, `tensor "b" is in`},
		{third(ggufPart(t, 2, 3, "a", "c")), name(1), ErrInvalid, `key "split.tensors.count": 2, but its 3 files have 3 tensors`},
		{third(ggufPart(t, 2, 3, "a")), name(2), ErrNotModel, "part 2 of 3, expected the first, m-00001-of-00003.gguf"},
	} {
		c.make()
		if _, err := Open(c.path); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, expected %q", err, c.says)
		}
	}
	s := open(t, name(1))
	if !slices.Equal(s.Names(), []string{"a", "b"}) || s.Format() != GGUF {
		t.Error(s.Names())
	}
	checkRamp(t, s, "a")
	checkRamp(t, s, "b")
	// Who looks for tensors in the description sees those of all files.
	f := s.GGUF()
	if x, ok := f.Tensor("a"); !ok || !slices.Equal(x.Dims(), []int{4, 64}) || len(f.Tensors()) != 2 {
		t.Errorf("%v %v", x, f.Tensors())
	}
	if _, ok := f.Tensor("absent"); ok {
		t.Error("a tensor that is in no file was found")
	}
}

// counted is a file that counts the searches in it.
type counted struct {
	tensorFile
	searches *int
}

func (c counted) Dims(name string) ([]int, bool) {
	*c.searches++
	return c.tensorFile.Dims(name)
}

// A tensor of a split model was looked for in one file after the other.
func TestShardsAreNotSearchedInTurn(t *testing.T) {
	const n = 50
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), []byte(`{}`))
	var where []string
	for i := range n {
		where = append(where, fmt.Sprintf(`"t%d":"%d.safetensors"`, i, i))
		write(t, filepath.Join(dir, fmt.Sprintf("%d.safetensors", i)), tensorsFile(t, fmt.Sprintf("t%d", i)))
	}
	write(t, filepath.Join(dir, "model.safetensors.index.json"), []byte(`{"weight_map":{`+strings.Join(where, ",")+`}}`))
	s := open(t, dir)
	searches := 0
	for i := range s.parts {
		s.parts[i].file = counted{s.parts[i].file, &searches}
	}
	for _, name := range s.Names() {
		if encoding, dims, ok := s.Describe(name); !ok || encoding != "BF16" || len(dims) != 2 {
			t.Errorf("%s: %s %v %v", name, encoding, dims, ok)
		}
	}
	if s.Has("absent") || searches > 0 {
		t.Errorf("%d searches in files for %d tensors and one that is absent", searches, n)
	}
}
