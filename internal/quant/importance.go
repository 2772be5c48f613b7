package quant

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"hotpath/internal/format"
	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
)

// Importance says how much the columns of each matrix matter: the mean square
// of the activations that met them. llama.cpp's imatrix makes such files, as
// GGUF and in an older form.
type Importance struct {
	name   string
	sets   map[string][]float32
	chunks int
	data   string // what it was computed on, where the file says
}

const (
	maxImportance = 1 << 32 // bytes
	sumSuffix     = ".in_sum2"
	countSuffix   = ".counts"
)

// ReadImportance reads a file of either form.
func ReadImportance(path string) (*Importance, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxImportance {
		return nil, fmt.Errorf("%s: expected a regular file of at most %d bytes: %w", path, int64(maxImportance), format.ErrInvalid)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseImportance(path, data)
}

// ParseImportance checks data, the bytes of a whole file. name is for errors.
func ParseImportance(name string, data []byte) (*Importance, error) {
	m := &Importance{name: name, sets: map[string][]float32{}}
	var err error
	if bytes.HasPrefix(data, []byte("GGUF")) {
		err = m.parseGGUF(data)
	} else {
		err = m.parseOld(data)
	}
	if err != nil {
		return nil, err
	}
	if len(m.sets) == 0 {
		return nil, fmt.Errorf("%s: no importance of any matrix: %w", name, format.ErrInvalid)
	}
	return m, nil
}

// addSet checks one set and keeps it.
func (m *Importance) addSet(name string, values []float32) error {
	if _, dup := m.sets[name]; dup {
		return fmt.Errorf("%s: importance of %q appears twice: %w", m.name, name, format.ErrInvalid)
	}
	for i, v := range values {
		if !(v >= 0 && v <= math.MaxFloat32) {
			return fmt.Errorf("%s: importance of %q: value %d is %g, expected a finite number of 0 or more: %w", m.name, name, i, v, format.ErrInvalid)
		}
	}
	m.sets[name] = values
	return nil
}

// parseGGUF reads sums of squares and counts, a row of sums for each count.
func (m *Importance) parseGGUF(data []byte) error {
	f, err := gguf.Parse(m.name, data)
	if err != nil {
		return err
	}
	if kind, _ := f.String("general.type"); kind != "imatrix" {
		return fmt.Errorf("%s: key %q is %q, expected an importance matrix (\"imatrix\"): %w", m.name, "general.type", kind, format.ErrInvalid)
	}
	if n, ok := f.Int("imatrix.chunk_count"); ok {
		m.chunks = int(n)
	}
	if sets, ok := f.Strings("imatrix.datasets"); ok {
		m.data = strings.Join(sets, ", ")
	}
	for _, t := range f.Tensors() {
		name, ok := strings.CutSuffix(t.Name, sumSuffix)
		if !ok {
			continue
		}
		sums, err := floatsOf(f, t.Name)
		if err != nil {
			return err
		}
		counts, err := floatsOf(f, name+countSuffix)
		if err != nil {
			return err
		}
		if len(sums)%len(counts) != 0 {
			return fmt.Errorf("%s: importance of %q: %d sums for %d counts: %w", m.name, name, len(sums), len(counts), format.ErrInvalid)
		}
		n := len(sums) / len(counts)
		for i := range sums {
			// An expert that nothing reached: all its columns count alike.
			if c := counts[i/n]; c > 0 {
				sums[i] /= c
			} else {
				sums[i] = 1
			}
		}
		if err := m.addSet(name, sums); err != nil {
			return err
		}
	}
	return nil
}

func floatsOf(f *gguf.File, name string) ([]float32, error) {
	d, data, err := f.Data(name)
	if err != nil {
		return nil, err
	}
	if d != tensor.F32 {
		return nil, fmt.Errorf("%s: tensor %q: %s, expected F32: %w", f.Name(), name, d, format.ErrInvalid)
	}
	out := make([]float32, len(data)/4)
	return out, tensor.Dequantize(out, d, data)
}

// parseOld reads the older form: a count of entries, each with its name, how
// often it was summed up, and its sums; then how many chunks it was computed
// on, and on what.
func (m *Importance) parseOld(data []byte) error {
	at := 0
	number := func(what string) (int, error) {
		if len(data)-at < 4 {
			return 0, fmt.Errorf("%s: %s at offset %d: expected an importance matrix: %w", m.name, what, at, format.ErrTruncated)
		}
		n := int32(binary.LittleEndian.Uint32(data[at:]))
		at += 4
		if n < 0 || int64(n) > int64(len(data)) {
			return 0, fmt.Errorf("%s: %s at offset %d is %d, expected an importance matrix: %w", m.name, what, at-4, n, format.ErrInvalid)
		}
		return int(n), nil
	}
	take := func(what string, n int) ([]byte, error) {
		if n > len(data)-at {
			return nil, fmt.Errorf("%s: %s: %d bytes at offset %d, but only %d are left: %w", m.name, what, n, at, len(data)-at, format.ErrTruncated)
		}
		b := data[at : at+n]
		at += n
		return b, nil
	}
	entries, err := number("count of entries")
	if err != nil {
		return err
	}
	for i := range entries {
		what := fmt.Sprintf("entry %d of %d", i+1, entries)
		n, err := number(what + ": length of its name")
		if err != nil {
			return err
		}
		name, err := take(what, n)
		if err != nil {
			return err
		}
		calls, err := number(what + ": count of calls")
		if err != nil {
			return err
		}
		if n, err = number(what + ": count of values"); err != nil {
			return err
		}
		raw, err := take(what, 4*n)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%s: %s (%q) has no values: %w", m.name, what, name, format.ErrInvalid)
		}
		values := make([]float32, n)
		for j := range values {
			values[j] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*j:])) / float32(max(calls, 1))
		}
		if err := m.addSet(string(name), values); err != nil {
			return err
		}
	}
	if at == len(data) {
		return nil // the rest is optional
	}
	if m.chunks, err = number("count of chunks"); err != nil || at == len(data) {
		return err
	}
	n, err := number("length of the data's name")
	if err != nil {
		return err
	}
	b, err := take("name of the data", n)
	m.data = string(b)
	return err
}

// of is the importance of the columns of t, nil where nothing is known; stacks
// of matrices have a set for each.
func (m *Importance) of(t *Tensor) ([]float32, error) {
	if m == nil || !encodes(t) {
		return nil, nil
	}
	set := m.sets[t.Name]
	if set == nil || len(set) == t.Cols() {
		return set, nil
	}
	if len(t.Dims) == 3 && len(set) == t.Cols()*t.Dims[0] {
		return set, nil
	}
	if roleOf(t.Name) == embeddingRole { // its columns are not what was measured
		return nil, nil
	}
	return nil, fmt.Errorf("%s: importance of %q: %d values, expected %d for %v: %w", m.name, t.Name, len(set), t.Cols(), t.Dims, format.ErrInvalid)
}

// describe leaves in a file where its importance came from.
func (m *Importance) describe(w *gguf.Writer) error {
	if m == nil {
		return nil
	}
	for _, kv := range []struct {
		key   string
		value any
	}{
		{"quantize.imatrix.file", filepath.Base(m.name)},
		{"quantize.imatrix.dataset", m.data},
		{"quantize.imatrix.entries_count", uint32(len(m.sets))},
		{"quantize.imatrix.chunks_count", uint32(m.chunks)},
	} {
		if kv.value == "" {
			continue
		}
		if err := w.Set(kv.key, kv.value); err != nil {
			return err
		}
	}
	return nil
}
