package quant

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

func open(t *testing.T, path string) *weights.Store {
	t.Helper()
	s, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// source writes a model of two layers with F32 weights.
func source(t *testing.T) (string, map[string][]float32) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var w gguf.Writer
	err := errors.Join(w.Set("general.architecture", "llama"), w.Set("llama.block_count", uint32(2)),
		w.Set("llama.attention.head_count", uint32(4)), w.Set("llama.attention.head_count_kv", uint32(2)),
		w.Set("general.file_type", uint32(0)), w.Set("split.count", uint16(1)), w.Set("tokenizer.ggml.tokens", []string{"a", "b"}))
	values := map[string][]float32{}
	for name, dims := range map[string][]int{"token_embd.weight": {37, 256}, "blk.0.attn_v.weight": {300, 512}, "blk.1.ffn_down.weight": {16, 768},
		"blk.0.attn_norm.weight": {256}, "blk.1.odd.weight": {5, 96}, "blk.1.ffn_up_exps.weight": {3, 7, 256}} {
		n := 1
		for _, d := range dims {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		data := make([]byte, 4*n)
		err = errors.Join(err, tensor.Quantize(data, tensor.F32, x), w.Add(name, tensor.F32, dims, data))
		values[name] = x
	}
	path := filepath.Join(t.TempDir(), "source.gguf")
	if err = errors.Join(err, w.WriteFile(path)); err != nil {
		t.Fatal(err)
	}
	return path, values
}

func TestFile(t *testing.T) {
	path, values := source(t)
	in := open(t, path)
	importance, err := ParseImportance("i", old(map[string][]float32{"blk.1.ffn_down.weight": make([]float32, 768)}, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, mix := range Mixes() {
		for _, opts := range []Options{{Threads: 1}, {Threads: 3, Importance: importance}} {
			out := filepath.Join(t.TempDir(), "out.gguf")
			var told int64
			opts.Progress = func(n int64) { told = n }
			sum, err := File(t.Context(), in, out, mix, opts)
			if err != nil {
				t.Fatal(mix.Name, err)
			}
			if sum.Tensors != len(values) || told != sum.After || sum.Again != 0 {
				t.Errorf("%s: %+v, %d bytes told", mix.Name, sum, told)
			}
			if _, err := os.Stat(out); err != nil {
				t.Fatal(err)
			}
			back := open(t, out)
			f := back.GGUF()
			if n, _ := f.Uint("general.file_type"); n != uint64(mix.FileType) {
				t.Errorf("%s: file type %d", mix.Name, n)
			}
			if _, ok := f.Value("split.count"); ok {
				t.Errorf("%s: says that it is split", mix.Name)
			}
			if tokens, _ := f.Strings("tokenizer.ggml.tokens"); len(tokens) != 2 {
				t.Errorf("%s: tokens %v", mix.Name, tokens)
			}
			for name, x := range values {
				got, err := back.Get(name)
				if err != nil {
					t.Fatal(err)
				}
				y, err := got.F32()
				if err != nil {
					t.Fatal(err)
				}
				var e, p float64
				for i := range x {
					e += math.Pow(float64(x[i]-y[i]), 2)
					p += math.Pow(float64(x[i]), 2)
				}
				if e > 0.12*p {
					t.Errorf("%s: %s as %s: error %g of %g", mix.Name, name, got.DType, e, p)
				}
			}
		}
	}
}

// The number of threads changes nothing.
func TestFileIsDeterministic(t *testing.T) {
	path, _ := source(t)
	in := open(t, path)
	mix, _ := ParseMix("Q4_K_M")
	var first []byte
	for _, n := range []int{1, 2, 5} {
		out := filepath.Join(t.TempDir(), "out.gguf")
		if _, err := File(t.Context(), in, out, mix, Options{Threads: n}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if string(b) != string(first) {
			t.Errorf("%d threads give another file", n)
		}
	}
}

func TestFileFails(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	path, _ := source(t)
	in := open(t, path)
	mix, _ := ParseMix("Q4_0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := File(ctx, in, out, mix, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	hf := open(t, testmodels.Dir(t, "llama"))
	if _, err := File(t.Context(), hf, out, mix, Options{}); !errors.Is(err, weights.ErrUnsupported) {
		t.Errorf("a directory: %v", err)
	}
	big := Tensor{Name: "blk.0.x.weight", Dims: []int{2, 32}, Rows: func(dst []float32, first, n int) error {
		for i := range dst {
			dst[i] = 1e5
		}
		return nil
	}}
	for name, want := range map[string]string{"F16": "F16 cannot hold", "Q4_0": ""} {
		mix, _ := ParseMix(name)
		_, err := Write(t.Context(), &gguf.Writer{}, filepath.Join(dir, "big"), Facts{}, []Tensor{big}, mix, Options{})
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"blk.0.x.weight"`)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad, err := ParseImportance("i", old(map[string][]float32{"blk.0.attn_v.weight": make([]float32, 9)}, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := File(t.Context(), in, out, mix, Options{Importance: bad}); err == nil {
		t.Error("an importance of another width was taken")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// splitSet is a model in two files.
func splitSet(t *testing.T) (first, second string) {
	t.Helper()
	dir := t.TempDir()
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("m-%05d-of-00002.gguf", i+1)) }
	for i := range 2 {
		var w gguf.Writer
		err := errors.Join(w.Set("split.no", uint16(i)), w.Set("split.count", uint16(2)), w.Set("split.tensors.count", int32(2)))
		if i == 0 {
			err = errors.Join(err, w.Set("general.architecture", "llama"), w.Set("llama.block_count", uint32(1)))
		}
		err = errors.Join(err, w.Add(fmt.Sprintf("blk.0.part%d.weight", i), tensor.F32, []int{2, 32}, make([]byte, 256)), w.WriteFile(name(i)))
		if err != nil {
			t.Fatal(err)
		}
	}
	return name(0), name(1)
}

// A split set becomes one file.
func TestFileOfSplitSet(t *testing.T) {
	first, _ := splitSet(t)
	mix, _ := ParseMix("Q8_0")
	out := filepath.Join(filepath.Dir(first), "out.gguf")
	sum, err := File(t.Context(), open(t, first), out, mix, Options{})
	if err != nil || sum.Tensors != 2 || sum.Types["Q8_0"] != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if names := open(t, out).Names(); len(names) != 2 {
		t.Errorf("%v", names)
	}
}

// No part of the input is replaced, and nothing is done before that is seen.
func TestFileRefusesItsOwnInput(t *testing.T) {
	first, second := splitSet(t)
	linked := filepath.Join(filepath.Dir(first), "link.gguf")
	if err := os.Symlink(second, linked); err != nil {
		t.Fatal(err)
	}
	mix, _ := ParseMix("Q8_0")
	for _, out := range []string{first, second, linked} {
		begun := false
		_, err := File(t.Context(), open(t, first), out, mix, Options{Progress: func(int64) { begun = true }})
		if err == nil || !strings.Contains(err.Error(), out) || begun {
			t.Errorf("%s: %v, begun %t", out, err, begun)
		}
	}
	if in := open(t, first); len(in.Names()) != 2 {
		t.Errorf("the input has %d tensors now", len(in.Names()))
	}
}
