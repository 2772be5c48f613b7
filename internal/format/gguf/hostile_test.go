package gguf

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"hotpath/internal/format"
)

// build makes a file by hand, so that every field can be wrong.
type build struct{ b []byte }

func header(version uint32, tensors, keys uint64) *build {
	b := binary.LittleEndian.AppendUint32([]byte(magic), version)
	b = binary.LittleEndian.AppendUint64(b, tensors)
	return &build{binary.LittleEndian.AppendUint64(b, keys)}
}

func (x *build) u32(vs ...uint32) *build {
	for _, v := range vs {
		x.b = binary.LittleEndian.AppendUint32(x.b, v)
	}
	return x
}

func (x *build) u64(vs ...uint64) *build {
	for _, v := range vs {
		x.b = binary.LittleEndian.AppendUint64(x.b, v)
	}
	return x
}

func (x *build) str(s string) *build {
	x.b = appendText(x.b, s)
	return x
}

// tensor appends a table entry; dims are innermost first, as in the file.
func (x *build) tensor(name string, typ uint32, offset uint64, dims ...uint64) *build {
	return x.str(name).u32(uint32(len(dims))).u64(dims...).u32(typ).u64(offset)
}

// data pads to the alignment and appends n bytes.
func (x *build) data(n int) *build {
	x.b = append(x.b, make([]byte, padding(len(x.b), 32)+n)...)
	return x
}

func TestHostile(t *testing.T) {
	nested := header(3, 0, 1).str("k").u32(uint32(Array))
	for range 40 {
		nested.u32(uint32(Array)).u64(1)
	}
	for name, c := range map[string]struct {
		b    *build
		is   error
		says string
	}{
		"magic":           {&build{[]byte("GGML....................")}, format.ErrInvalid, `expected "GGUF"`},
		"empty":           {&build{}, format.ErrTruncated, "0 bytes"},
		"version 1":       {header(1, 0, 0), format.ErrUnsupported, "version 1, expected 2 or 3"},
		"big-endian":      {header(3<<24, 0, 0), format.ErrUnsupported, "big-endian"},
		"key count":       {header(3, 0, 1<<63), format.ErrInvalid, "metadata count"},
		"tensor count":    {header(3, math.MaxUint64, 0), format.ErrInvalid, "tensor count"},
		"keys missing":    {header(3, 0, 60000), format.ErrTruncated, "key 1 of 60000"},
		"tensors missing": {header(3, 60000, 0), format.ErrTruncated, "tensor 1 of 60000"},
		"key length":      {header(3, 0, 1).u64(math.MaxInt64), format.ErrTruncated, "string of 9223372036854775807 bytes"},
		"key length top":  {header(3, 0, 1).u64(math.MaxUint64), format.ErrTruncated, "string of"},
		"empty key":       {header(3, 0, 1).str("").u32(0), format.ErrInvalid, "name of 0 bytes"},
		"value type":      {header(3, 0, 1).str("k").u32(13), format.ErrInvalid, `key "k": type 13`},
		"array type":      {header(3, 0, 1).str("k").u32(9, 99).u64(0), format.ErrInvalid, "array of type 99"},
		"array length":    {header(3, 0, 1).str("k").u32(9, uint32(Uint64)).u64(1 << 61), format.ErrTruncated, "array of 2305843009213693952 uint64"},
		"array of text":   {header(3, 0, 1).str("k").u32(9, uint32(String)).u64(2).str("a").u64(1 << 62), format.ErrTruncated, "element 1"},
		"nested":          {nested, format.ErrInvalid, "nested more than 8 deep"},
		"duplicate key":   {header(3, 0, 2).str("k").u32(4, 1).str("k").u32(4, 1), format.ErrInvalid, "appears twice"},
		"alignment 0":     {header(3, 0, 1).str(alignmentKey).u32(4, 0), format.ErrInvalid, "power of two"},
		"alignment 12":    {header(3, 0, 1).str(alignmentKey).u32(4, 12), format.ErrInvalid, "power of two"},
		"alignment huge":  {header(3, 0, 1).str(alignmentKey).u32(4, 1<<31), format.ErrInvalid, "power of two"},
		"alignment text":  {header(3, 0, 1).str(alignmentKey).u32(8).str("32"), format.ErrInvalid, "power of two"},
		"rank 0":          {header(3, 1, 0).tensor("t", 0, 0).data(64), format.ErrInvalid, "0 dimensions"},
		"rank 5":          {header(3, 1, 0).tensor("t", 0, 0, 1, 1, 1, 1, 1).data(64), format.ErrInvalid, "5 dimensions"},
		"zero dimension":  {header(3, 1, 0).tensor("t", 0, 0, 4, 0).data(64), format.ErrInvalid, "dimension 1 is 0"},
		"negative":        {header(3, 1, 0).tensor("t", 0, 0, math.MaxUint64).data(64), format.ErrInvalid, "dimension 0 is -1"},
		"product":         {header(3, 1, 0).tensor("t", 0, 0, 1<<32, 1<<32).data(64), format.ErrInvalid, "too many elements"},
		"bytes":           {header(3, 1, 0).tensor("t", 0, 0, 1<<62).data(64), format.ErrInvalid, "too many bytes"},
		"partial block":   {header(3, 1, 0).tensor("t", 8, 0, 33).data(128), format.ErrInvalid, "whole blocks of 32"},
		"split rows":      {header(3, 1, 0).tensor("t", 8, 0, 16, 2).data(128), format.ErrInvalid, "whole blocks of 32"},
		"unaligned":       {header(3, 1, 0).tensor("t", 0, 4, 4).data(64), format.ErrInvalid, "multiple of the alignment 32"},
		"offset":          {header(3, 1, 0).tensor("t", 0, 1<<40, 4).data(64), format.ErrTruncated, "only 64 bytes"},
		"offset top":      {header(3, 1, 0).tensor("t", 0, 1<<63, 4).data(64), format.ErrInvalid, "within the file"},
		"offset + size":   {header(3, 1, 0).tensor("t", 0, math.MaxInt64-31, 8).data(64), format.ErrTruncated, "only 64 bytes"},
		"past the end":    {header(3, 1, 0).tensor("t", 0, 32, 9).data(64), format.ErrTruncated, "36 bytes at offset 32"},
		"unknown far":     {header(3, 1, 0).tensor("t", 77, 96, 9).data(64), format.ErrTruncated, "offset 96"},
		"overlap":         {header(3, 2, 0).tensor("a", 0, 0, 16).tensor("b", 0, 32, 8).data(64), format.ErrInvalid, `"a" (bytes 0 to 64) and "b"`},
		"same place":      {header(3, 2, 0).tensor("a", 0, 0, 8).tensor("b", 0, 0, 8).data(64), format.ErrInvalid, "overlap"},
		"duplicate":       {header(3, 2, 0).tensor("a", 0, 0, 8).tensor("a", 0, 32, 8).data(64), format.ErrInvalid, "appears twice"},
	} {
		_, err := Parse("bad.gguf", c.b.b)
		if !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), "bad.gguf: ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected %q (%v)", name, err, c.says, c.is)
		}
	}
}

func TestAccepts(t *testing.T) {
	for name, b := range map[string]*build{
		"version 2":    header(2, 1, 1).str("k").u32(4, 1).tensor("t", 0, 0, 16).data(64),
		"nothing":      header(3, 0, 0),
		"unknown type": header(3, 2, 0).tensor("t", 77, 0, 5).tensor("u", 0, 0, 16).data(64),
		"gap":          header(3, 2, 0).tensor("b", 0, 64, 8).tensor("a", 0, 0, 4).data(96),
		"alignment 1":  header(3, 1, 1).str(alignmentKey).u32(4, 1).tensor("t", 0, 3, 1).data(8),
		"alignment 24": header(3, 1, 1).str(alignmentKey).u32(4, 24).tensor("t", 0, 24, 4).data(80),
		"unread type":  header(3, 1, 0).tensor("t", 16, 0, 256).data(66),
	} {
		f, err := Parse("ok.gguf", b.b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if name == "unknown type" {
			if _, _, err := f.Data("t"); !errors.Is(err, format.ErrUnsupported) || !strings.Contains(err.Error(), "GGMLType(77)") {
				t.Errorf("%s: %v", name, err)
			}
		} else if name == "unread type" {
			if _, _, err := f.Data("t"); !errors.Is(err, format.ErrUnsupported) || !strings.Contains(err.Error(), "encoding IQ2_XXS, expected one of F32,") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A file that was cut anywhere gives an error, and never a panic.
func TestTruncation(t *testing.T) {
	whole := golden(t)
	last := 0 // where the data that must be there end
	f := mustParse(t, whole)
	for _, x := range f.Tensors() {
		last = max(last, len(whole)-len(f.data)+x.offset+x.size)
	}
	for n := range last {
		if _, err := Parse("cut.gguf", whole[:n:n]); !errors.Is(err, format.ErrTruncated) {
			t.Fatalf("cut at %d of %d: %v, expected ErrTruncated", n, len(whole), err)
		}
	}
}

// What a small file claims must not be allocated.
func TestClaimsAreNotAllocated(t *testing.T) {
	const slack = 64 << 10
	for name, b := range map[string]*build{
		"keys":    header(3, 0, maxKeys),
		"tensors": header(3, maxTensors, 0),
		"array":   header(3, 0, 1).str("k").u32(9, uint32(Uint8)).u64(1 << 40),
		"strings": header(3, 0, 1).str("k").u32(9, uint32(String)).u64(1 << 40),
		"nested":  header(3, 0, 1).str("k").u32(9, uint32(Array)).u64(1 << 40),
		"name":    header(3, 1, 0).u64(1 << 40),
		"tensor":  header(3, 1, 0).tensor("t", 0, 0, 1<<40),
	} {
		var err error
		if n := allocated(func() { _, err = Parse(name, b.b) }); n > slack || err == nil {
			t.Errorf("%s: %d bytes allocated (%v), expected at most %d and an error", name, n, err, slack)
		}
	}
	// A large vocabulary is checked without a copy of it.
	big := header(3, 0, 1).str("k").u32(9, uint32(String)).u64(100_000)
	for range 100_000 {
		big.str("token")
	}
	if n := allocated(func() { mustParse(t, big.b) }); n > slack {
		t.Errorf("vocabulary: %d bytes allocated by Parse, expected at most %d", n, slack)
	}
	f := mustParse(t, big.b)
	if n := allocated(func() { f.Strings("k") }); n > 2*uint64(len(big.b))+slack {
		t.Errorf("vocabulary: %d bytes allocated by Strings for %d in the file", n, len(big.b))
	}
}

// allocated is the least of three runs, since the runtime allocates too.
func allocated(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// Real vocabularies beside the repository; the golden covers the format itself.
func TestRealVocabularies(t *testing.T) {
	files, _ := filepath.Glob("../../../../shared/vocab/*.gguf")
	if len(files) == 0 {
		t.Skip("../shared/vocab is not beside the repository")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := mustParse(t, data)
		tokens, ok := f.Strings("tokenizer.ggml.tokens")
		if !ok || len(tokens) < 10_000 {
			t.Errorf("%s: %d tokens, %v", file, len(tokens), ok)
		}
		kinds, ok := f.Ints("tokenizer.ggml.token_type")
		if !ok || len(kinds) != len(tokens) {
			t.Errorf("%s: %d token types for %d tokens, %v", file, len(kinds), len(tokens), ok)
		}
	}
}

// FuzzGGUF asks everything of whatever parses.
func FuzzGGUF(f *testing.F) {
	whole := golden(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(header(3, 1, 0).tensor("t", 0, 0, 16).data(64).b)
	f.Add(header(2, 0, 1).str("k").u32(9, 9).u64(1).u32(8).u64(1).str("x").b)
	f.Add(header(3, 0, 1).str("k").u32(9, uint32(String)).u64(math.MaxUint64).b)
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := Parse("fuzz", data)
		if err != nil {
			return
		}
		var w Writer
		for _, key := range x.Keys() {
			v, _ := x.Value(key)
			v.Any()
			if err := w.SetValue(key, v); err != nil && key != alignmentKey {
				t.Fatal(err)
			}
			_, _ = x.NeedInt(key)
		}
		for _, y := range x.Tensors() {
			d, b, err := x.Data(y.Name)
			if err != nil {
				continue
			}
			if err := w.Add(y.Name, d, y.Dims(), b); err != nil {
				t.Fatal(err)
			}
		}
	})
}
