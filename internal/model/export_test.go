package model

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format/safetensors"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// What Export writes, put into the store's place, gives the weights that went
// in, whatever the files' layout is.
func TestExportInvertsWeight(t *testing.T) {
	var paths []string
	for _, name := range append(testmodels.Decoders(t), testmodels.Encoders(t)...) {
		paths = append(paths, testmodels.Dir(t, name))
	}
	encoders, err := filepath.Glob("testdata/encoders/*/config.json")
	if err != nil || len(encoders) < 5 {
		t.Fatalf("encoders %v, error %v", encoders, err)
	}
	for _, path := range encoders {
		paths = append(paths, filepath.Dir(path))
	}
	for _, path := range paths {
		t.Run(strings.ReplaceAll(path, "/", "-"), func(t *testing.T) {
			m := open(t, path)
			names := 0
			// Nothing changed: every tensor is the file's own.
			err := m.Export(func(string) ([]float32, error) { return nil, nil }, func(w weights.Tensor) error {
				names++
				was, err := m.store.Get(w.Name)
				if err == nil && (w.DType != was.DType || !slices.Equal(w.Dims, was.Dims) || !slices.Equal(w.Data, was.Data)) {
					t.Errorf("%s changed", w.Name)
				}
				return err
			})
			if err != nil || names == 0 {
				t.Fatalf("%d tensors, error %v", names, err)
			}
			// All changed: read back through the places of the keys. Two of them share
			// a row of segments, and one graph trains one of them.
			for _, left := range []string{"segment.weight", "token_types.weight"} {
				changed(t, m, left)
			}
		})
	}
}

// changed exports the model with all weights but one replaced.
func changed(t *testing.T, m *Model, left string) {
	t.Helper()
	out := map[string][]float32{}
	dims := map[string][]int{}
	err := m.Export(func(key string) ([]float32, error) {
		if key == left || !trainable(m, key) {
			return nil, nil
		}
		return numbered(t, m, key), nil
	}, func(w weights.Tensor) error {
		f, err := w.F32()
		out[w.Name], dims[w.Name] = f, w.Dims
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for key := range m.want {
		r := m.place(key)
		if key == left || r.made != nil || m.ofModule(r.name) || !trainable(m, key) {
			continue
		}
		if _, ok := r.how.derive.(weighted); ok && slices.ContainsFunc(out[staticWeights], func(w float32) bool { return w != 1 }) {
			t.Errorf("rows of %s have weights %v beside their new elements", key, out[staticWeights])
		}
		f, d := out[r.name], dims[r.name]
		want := numbered(t, m, key)
		if r.how.firstRow {
			d = []int{1, d[1]}
		}
		at := func(row, col, cols int) float32 {
			if r.how.of > 0 {
				row += r.how.part * len(want) / cols
			}
			if r.how.groups <= 1 {
				row += r.how.first
			}
			if r.how.transpose && len(d) == 2 {
				return f[col*d[1]+row]
			}
			return f[row*cols+col]
		}
		cols := 1
		if s := m.want[key]; s.Rank() == 2 {
			cols = s.RowLen()
		}
		for i, v := range want {
			if got := at(i/cols, i%cols, cols); got != v {
				t.Fatalf("%s: element %d is %g in %s, want %g", key, i, got, r.name, v)
			}
		}
	}
}

// trainable reports whether the files can hold new elements of a weight.
func trainable(m *Model, key string) bool {
	d := m.place(key).how.derive
	_, ok := d.(inverter)
	return d == nil || ok
}

// numbered are elements that tell keys and places apart.
func numbered(t *testing.T, m *Model, key string) []float32 {
	t.Helper()
	w, err := m.Weight(key)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Drop(w)
	f := make([]float32, w.Len())
	for i := range f {
		f[i] = float32(i%1000) + float32(len(key)*1000) + float32(key[len(key)/2])
	}
	return f
}

func TestExportRefusesOtherSizes(t *testing.T) {
	m := open(t, testmodels.Dir(t, "gpt2"))
	err := m.Export(func(string) ([]float32, error) { return make([]float32, 3), nil }, func(weights.Tensor) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "3 new elements") {
		t.Errorf("error %v", err)
	}
	stop := fmt.Errorf("stop")
	if err := m.Export(func(string) ([]float32, error) { return nil, stop }, func(weights.Tensor) error { return nil }); err != stop {
		t.Errorf("error %v, want that of value", err)
	}
	if err := m.Export(func(string) ([]float32, error) { return nil, nil }, func(weights.Tensor) error { return stop }); err != stop {
		t.Errorf("error %v, want that of emit", err)
	}
}

// Some files have a head although it is tied: it must follow the table.
func TestExportKeepsATiedHeadTied(t *testing.T) {
	dir := rewritten(t, "gpt2", func(w *safetensors.Writer, x weights.Tensor) error {
		if x.Name == "transformer.wte.weight" {
			if err := w.Add("lm_head.weight", x.DType, x.Dims, x.Data); err != nil {
				return err
			}
		}
		return w.Add(x.Name, x.DType, x.Dims, x.Data)
	}, bytes.Clone)
	tied, head := open(t, dir), []float32(nil)
	err := tied.Export(func(key string) ([]float32, error) { return numbered(t, tied, key), nil }, func(x weights.Tensor) error {
		if x.Name == "lm_head.weight" {
			head, _ = x.F32()
		}
		return nil
	})
	if err != nil || !slices.Equal(head, numbered(t, tied, "token_embd.weight")) {
		t.Errorf("the head is not the table; error %v", err)
	}
}

// Old files of encoders have the numbers of positions in I64, which nobody reads:
// the others are exported.
func TestExportLeavesOutUnreadable(t *testing.T) {
	const extra = "embeddings.position_ids"
	dir := rewritten(t, "bert", func(w *safetensors.Writer, x weights.Tensor) error {
		if len(x.Dims) == 1 && strings.HasSuffix(x.Name, "embeddings.LayerNorm.weight") {
			if err := w.Add(extra, tensor.I32, []int{2}, make([]byte, 8)); err != nil {
				return err
			}
		}
		return w.Add(x.Name, x.DType, x.Dims, x.Data)
	}, func(file []byte) []byte {
		return bytes.Replace(file, []byte(`"I32","shape":[2]`), []byte(`"I64","shape":[1]`), 1)
	})
	m, names := open(t, dir), map[string]bool{}
	err := m.Export(func(string) ([]float32, error) { return nil, nil }, func(x weights.Tensor) error {
		names[x.Name] = true
		return nil
	})
	if _, _, ok := m.store.Describe(extra); err != nil || !ok || names[extra] || len(names) != len(m.store.Names())-1 {
		t.Errorf("%d of %d tensors are exported, one is in I64: %t; error %v", len(names), len(m.store.Names()), ok, err)
	}
}

// rewritten is a folder with the tensors of a fixture as add gives them to a
// writer; change gets the bytes of the file.
func rewritten(t *testing.T, name string, add func(w *safetensors.Writer, x weights.Tensor) error, change func([]byte) []byte) string {
	t.Helper()
	m, w, dir := open(t, testmodels.Dir(t, name)), &safetensors.Writer{}, t.TempDir()
	err := m.Export(func(string) ([]float32, error) { return nil, nil }, func(x weights.Tensor) error { return add(w, x) })
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	_, err = w.WriteTo(&file)
	config, readErr := os.ReadFile(testmodels.Dir(t, name+"/config.json"))
	err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, "model.safetensors"), change(file.Bytes()), 0o666),
		os.WriteFile(filepath.Join(dir, "config.json"), config, 0o666))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
