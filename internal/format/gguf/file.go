// Package gguf reads and writes GGUF files, versions 2 and 3 (the Writer
// writes 3).
//
// Parse works on the bytes of a whole file, usually a memory map, checks every
// length and offset in it once, and keeps views: what it allocates does not
// grow with what the file claims. Values and tensor data are valid as long as
// those bytes are; strings are copies.
//
// weights and tokenizer import it. Errors name the file, the key or tensor and
// what was expected, and wrap an error of package format.
package gguf

import (
	"encoding/binary"
	"fmt"
	"slices"

	"hotpath/internal/format"
	"hotpath/internal/tensor"
)

const (
	magic            = "GGUF"
	version          = 3
	defaultAlignment = 32
	alignmentKey     = "general.alignment"

	// Bounds of what is kept a key and a tensor, far above any real file.
	maxKeys    = 1 << 16
	maxTensors = 1 << 16
	maxName    = 1 << 16
	maxDepth   = 8 // of nested arrays

	maxAlignment = 1 << 20
	maxRank      = tensor.MaxRank
)

// File is a parsed GGUF file. It is never changed after Parse and Join, so many
// goroutines may read it.
type File struct {
	name    string
	version uint32
	align   int
	data    []byte // the tensors' part of the file
	keys    []string
	values  map[string]Value
	tensors []Tensor
	index   map[string]int   // into tensors
	parts   []*File          // the other files of a split model
	holders map[string]*File // which of parts has a tensor
}

// Tensor describes one tensor of a File.
type Tensor struct {
	Name   string
	Type   GGMLType
	dims   [maxRank]int // outermost first
	rank   int
	offset int // in the data part
	size   int // bytes; -1 where Type is unknown
}

// Dims are the sizes, outermost first (the file has them innermost first).
func (t Tensor) Dims() []int { return slices.Clone(t.dims[:t.rank]) }

// Name is the name that Parse was given.
func (f *File) Name() string { return f.name }

// Version is the version of the format.
func (f *File) Version() int { return int(f.version) }

// Keys are the metadata keys in the file's order.
func (f *File) Keys() []string { return slices.Clone(f.keys) }

// Value is the metadata value of a key.
func (f *File) Value(key string) (Value, bool) {
	v, ok := f.values[key]
	return v, ok
}

// Tensors are the tensors in the file's order, those of joined files behind its
// own.
func (f *File) Tensors() []Tensor {
	out := slices.Clone(f.tensors)
	for _, p := range f.parts {
		out = append(out, p.tensors...)
	}
	return out
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	in, ok := f.holder(name)
	if !ok {
		return Tensor{}, false
	}
	return in.tensors[in.index[name]], true
}

// Data is the encoding and the bytes of a tensor, a view of the file. It fails
// if hotpath does not know the encoding.
func (f *File) Data(name string) (tensor.DType, []byte, error) {
	in, ok := f.holder(name)
	if !ok {
		return 0, nil, fmt.Errorf("%s: no tensor %q", f.name, name)
	}
	if in != f {
		return in.Data(name)
	}
	t := f.tensors[f.index[name]]
	d, ok := t.Type.DType()
	if !ok {
		return 0, nil, fmt.Errorf("%s: tensor %q: encoding %s, expected one of %s: %w",
			f.name, name, t.Type, knownTypes(), format.ErrUnsupported)
	}
	return d, f.data[t.offset : t.offset+t.size : t.offset+t.size], nil
}

// Parse checks data, the bytes of a whole file. name is for errors.
func Parse(name string, data []byte) (*File, error) {
	f := &File{name: name, align: defaultAlignment}
	if err := f.parse(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func (f *File) parse(data []byte) error {
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		if string(data) == magic[:min(len(data), len(magic))] {
			return fmt.Errorf("%d bytes, expected a GGUF header: %w", len(data), format.ErrTruncated)
		}
		return fmt.Errorf("begins with %q, expected %q: %w", data[:min(len(data), 4)], magic, format.ErrInvalid)
	}
	r := reader{data: data, pos: len(magic)}
	head, err := r.bytes(4 + 8 + 8)
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	f.version = binary.LittleEndian.Uint32(head)
	if v := f.version; v != 2 && v != 3 {
		what := fmt.Sprintf("%d", v)
		if v&0xffff == 0 {
			what = fmt.Sprintf("%d (big-endian)", v>>24)
		}
		return fmt.Errorf("version %s, expected 2 or 3: %w", what, format.ErrUnsupported)
	}
	tensors, keys := binary.LittleEndian.Uint64(head[4:]), binary.LittleEndian.Uint64(head[12:])
	if keys > maxKeys {
		return fmt.Errorf("metadata count %d, expected at most %d: %w", keys, maxKeys, format.ErrInvalid)
	}
	if tensors > maxTensors {
		return fmt.Errorf("tensor count %d, expected at most %d: %w", tensors, maxTensors, format.ErrInvalid)
	}
	if err := f.parseMetadata(&r, int(keys)); err != nil {
		return err
	}
	return f.parseTensors(&r, int(tensors))
}

func (f *File) parseMetadata(r *reader, n int) error {
	const least = 8 + 1 + 4 + 1 // name length, name, type, value
	room := min(n, r.left()/least)
	f.keys, f.values = make([]string, 0, room), make(map[string]Value, room)
	for i := range n {
		key, err := r.name()
		if err != nil {
			return fmt.Errorf("metadata key %d of %d: %w", i+1, n, err)
		}
		t, err := r.uint32()
		if err != nil {
			return fmt.Errorf("key %q: type: %w", key, err)
		}
		v, err := r.value(Type(t), 0)
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		if _, dup := f.values[key]; dup {
			return fmt.Errorf("key %q appears twice: %w", key, format.ErrInvalid)
		}
		f.keys, f.values[key] = append(f.keys, key), v
	}
	v, ok := f.values[alignmentKey]
	if !ok {
		return nil
	}
	a, ok := v.Uint()
	if !ok || a == 0 || a > maxAlignment || a%8 != 0 && a&(a-1) != 0 {
		return fmt.Errorf("key %q: %s, expected a power of two or a multiple of 8, at most %d: %w", alignmentKey, v.describe(), maxAlignment, format.ErrInvalid)
	}
	f.align = int(a)
	return nil
}

func (f *File) parseTensors(r *reader, n int) error {
	const least = 8 + 1 + 4 + 8 + 4 + 8 // name length, name, rank, one dimension, type, offset
	room := min(n, r.left()/least)
	f.tensors, f.index = make([]Tensor, 0, room), make(map[string]int, room)
	for i := range n {
		t, err := r.tensor()
		if err != nil {
			if t.Name == "" {
				return fmt.Errorf("tensor %d of %d: %w", i+1, n, err)
			}
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if _, dup := f.index[t.Name]; dup {
			return fmt.Errorf("tensor %q appears twice: %w", t.Name, format.ErrInvalid)
		}
		f.index[t.Name] = len(f.tensors)
		f.tensors = append(f.tensors, t)
	}
	// A file without tensors may end with its last key.
	start := min((r.pos+f.align-1)/f.align*f.align, len(r.data))
	f.data = r.data[start:]
	spans := make([]format.Span, 0, len(f.tensors))
	for _, t := range f.tensors {
		if t.offset%f.align != 0 {
			return fmt.Errorf("tensor %q: offset %d, expected a multiple of the alignment %d: %w", t.Name, t.offset, f.align, format.ErrInvalid)
		}
		if t.offset > len(f.data) || t.size > len(f.data)-t.offset {
			return fmt.Errorf("tensor %q: %d bytes at offset %d, but the file has only %d bytes of tensors: %w",
				t.Name, max(t.size, 0), t.offset, len(f.data), format.ErrTruncated)
		}
		if t.size > 0 {
			spans = append(spans, format.Span{Name: t.Name, Begin: t.offset, End: t.offset + t.size})
		}
	}
	return format.Disjoint(spans)
}

// validAlignment takes what both the specification (a multiple of 8) and the
// programs that read the format (a power of two) agree on. Files are written
// so; those that are read may follow either.
func validAlignment(a uint64) bool { return a >= 8 && a <= maxAlignment && a&(a-1) == 0 }
