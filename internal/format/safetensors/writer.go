package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"hotpath/internal/format"
	"hotpath/internal/tensor"
)

// Writer collects tensors and writes them as one safetensors file. The zero
// Writer is ready for use.
//
// Where all data are at hand, Add them and call WriteTo. Where they are not to
// be in memory at the same time, Reserve their places, and hand them to the
// Stream one by one.
type Writer struct {
	// Metadata becomes the file's __metadata__; readers of PyTorch models want
	// "format": "pt".
	Metadata map[string]string
	tensors  []pending
	names    map[string]bool
}

// pending is a tensor to write.
type pending struct {
	name, typ string
	dims      []int
	size      int    // bytes
	data      []byte // nil where only its place is reserved
}

// Add adds a tensor. data must stay unchanged until WriteTo returns.
func (w *Writer) Add(name string, d tensor.DType, dims []int, data []byte) error {
	if err := w.Reserve(name, d, dims); err != nil {
		return err
	}
	p := &w.tensors[len(w.tensors)-1]
	if p.size != len(data) {
		w.tensors = w.tensors[:len(w.tensors)-1]
		delete(w.names, name)
		return fmt.Errorf("tensor %q: %d bytes, expected %d for %s %v: %w", name, len(data), p.size, d, dims, format.ErrInvalid)
	}
	if p.data = data; data == nil {
		p.data = []byte{}
	}
	return nil
}

// Reserve adds a tensor whose data come later, through Stream.
func (w *Writer) Reserve(name string, d tensor.DType, dims []int) error {
	if name == metaKey || w.names[name] || len(name) > maxName || !utf8.ValidString(name) {
		return fmt.Errorf("tensor %q: expected a name in UTF-8 that is not taken: %w", name, format.ErrInvalid)
	}
	i := d.Info()
	if row, ok := dtypes[i.Name]; !ok || row.dtype != d+1 {
		return fmt.Errorf("tensor %q: safetensors has no encoding %s: %w", name, d, format.ErrUnsupported)
	}
	if len(dims) > maxRank {
		return fmt.Errorf("tensor %q: %d dimensions, expected at most %d: %w", name, len(dims), maxRank, format.ErrInvalid)
	}
	size, err := format.ByteSize(dims, 1, i.BlockBytes)
	if err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	if w.names == nil {
		w.names = map[string]bool{}
	}
	w.names[name] = true
	w.tensors = append(w.tensors, pending{name, i.Name, append([]int{}, dims...), size, nil})
	return nil
}

// sorted are the tensors in the order of the file: falling in element size and
// then by name, so that each is aligned to its elements and the same tensors
// always give the same bytes.
func (w *Writer) sorted() []pending {
	out := slices.Clone(w.tensors)
	slices.SortFunc(out, func(a, b pending) int {
		return cmp.Or(dtypes[b.typ].size-dtypes[a.typ].size, strings.Compare(a.name, b.name))
	})
	return out
}

// WriteTo writes the file. All tensors must have their data.
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	sorted := w.sorted()
	for _, t := range sorted {
		if t.data == nil {
			return 0, fmt.Errorf("tensor %q: it has no data, expected %d bytes: %w", t.name, t.size, format.ErrInvalid)
		}
	}
	head, err := w.header(sorted)
	if err != nil {
		return 0, err
	}
	n, err := out.Write(head)
	written := int64(n)
	for i := 0; err == nil && i < len(sorted); i++ {
		n, err = out.Write(sorted[i].data)
		written += int64(n)
	}
	return written, err
}

// header is the length and the JSON, padded with spaces to 8 bytes.
func (w *Writer) header(sorted []pending) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 8))
	b.WriteByte('{')
	sep := ""
	field := func(key string, value any) error {
		k, err := json.Marshal(key)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "%s%s:%s", sep, k, v)
		sep = ","
		return nil
	}
	if len(w.Metadata) > 0 {
		if err := field(metaKey, w.Metadata); err != nil {
			return nil, err
		}
	}
	offset := 0
	for _, t := range sorted {
		end := offset + t.size
		if err := field(t.name, struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{t.typ, t.dims, [2]int{offset, end}}); err != nil {
			return nil, err
		}
		offset = end
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	head := b.Bytes()
	if len(head)-8 > maxHeader {
		return nil, fmt.Errorf("header of %d bytes, expected at most %d: %w", len(head)-8, maxHeader, format.ErrInvalid)
	}
	binary.LittleEndian.PutUint64(head, uint64(len(head)-8))
	return head, nil
}
