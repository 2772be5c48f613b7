package quant

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format"
	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
)

// old makes a file of the older form.
func old(entries map[string][]float32, calls int32) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(entries)))
	for name, values := range entries {
		b = append(le.AppendUint32(b, uint32(len(name))), name...)
		b = le.AppendUint32(b, uint32(calls))
		b = le.AppendUint32(b, uint32(len(values)))
		for _, v := range values {
			b = le.AppendUint32(b, math.Float32bits(v))
		}
	}
	b = le.AppendUint32(b, 7)
	return append(le.AppendUint32(b, 4), "wiki"...)
}

// newer makes a GGUF one.
func newer(t testing.TB, kind string, sums map[string][]float32, counts []float32) []byte {
	t.Helper()
	var w gguf.Writer
	if err := errors.Join(w.Set("general.type", kind), w.Set("imatrix.chunk_count", uint32(7)), w.Set("imatrix.datasets", []string{"wiki"})); err != nil {
		t.Fatal(err)
	}
	for name, v := range sums {
		for suffix, x := range map[string][]float32{sumSuffix: v, countSuffix: counts} {
			data := make([]byte, 4*len(x))
			if err := errors.Join(tensor.Quantize(data, tensor.F32, x), w.Add(name+suffix, tensor.F32, []int{len(x)}, data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestImportanceForms(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"old":  old(map[string][]float32{"a.weight": {2, 4, 6, 8}}, 2),
		"gguf": newer(t, "imatrix", map[string][]float32{"a.weight": {2, 4, 6, 8}}, []float32{2}),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := ReadImportance(path)
		if err != nil {
			t.Fatal(name, err)
		}
		if len(m.sets) != 1 || m.chunks != 7 || m.data != "wiki" || !slices.Equal(m.sets["a.weight"], []float32{1, 2, 3, 4}) {
			t.Errorf("%s: %+v", name, m)
		}
	}
	// Two experts, of which nothing reached the second.
	m, err := ParseImportance("x", newer(t, "imatrix", map[string][]float32{"blk.0.e.weight": {2, 4, 6, 8}}, []float32{2, 0}))
	if err != nil {
		t.Fatal(err)
	}
	stack := Tensor{Name: "blk.0.e.weight", Dims: []int{2, 3, 2}}
	set, err := m.of(&stack)
	if err != nil || !slices.Equal(set, []float32{1, 2, 1, 1}) {
		t.Errorf("%v, %v", set, err)
	}
	if got := rowWeight(&stack, set, 2); !slices.Equal(got, []float32{1, 2}) {
		t.Errorf("row 2: %v", got)
	}
	if got := rowWeight(&stack, set, 3); !slices.Equal(got, []float32{1, 1}) {
		t.Errorf("row 3: %v", got)
	}
	if _, err := m.of(&Tensor{Name: "blk.0.e.weight", Dims: []int{2, 3}}); !errors.Is(err, format.ErrInvalid) {
		t.Errorf("wrong width: %v", err)
	}
}

func TestImportanceHostile(t *testing.T) {
	le := binary.LittleEndian
	good := old(map[string][]float32{"a": {1, 2}}, 1)
	for name, data := range map[string][]byte{
		"empty":        nil,
		"text":         []byte("this is no importance matrix"),
		"count":        le.AppendUint32(nil, 1<<31-1),
		"negative":     le.AppendUint32(nil, 1<<31),
		"nothing":      le.AppendUint32(nil, 0),
		"cut":          good[:20],
		"cut at end":   good[:len(good)-1],
		"nan":          old(map[string][]float32{"a": {float32(math.NaN())}}, 1),
		"below zero":   old(map[string][]float32{"a": {-1}}, 1),
		"no values":    old(map[string][]float32{"a": {}}, 1),
		"model":        newer(t, "model", map[string][]float32{"a": {1}}, []float32{1}),
		"gguf cut":     newer(t, "imatrix", map[string][]float32{"a": {1}}, []float32{1})[:64],
		"gguf counts":  newer(t, "imatrix", map[string][]float32{"a": {1, 2, 3}}, []float32{1, 1}),
		"gguf nothing": newer(t, "imatrix", nil, nil),
	} {
		if _, err := ParseImportance("bad.dat", data); err == nil || !strings.HasPrefix(err.Error(), "bad.dat: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzImportance(f *testing.F) {
	f.Add(old(map[string][]float32{"a": {1, 2}}, 1))
	f.Add(newer(f, "imatrix", map[string][]float32{"a": {1, 2}}, []float32{1}))
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseImportance("fuzz", data)
		if err != nil {
			return
		}
		for name, set := range m.sets {
			if _, err := m.of(&Tensor{Name: name, Dims: []int{2, max(len(set), 1)}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Looking at the first bytes of a file made a copy of all of it.
func TestImportanceIsNotCopied(t *testing.T) {
	data := bytes.Repeat([]byte{0xff}, 64<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ParseImportance("f", data)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > 1<<20 {
		t.Errorf("%d bytes allocated (%v)", got, err)
	}
}
