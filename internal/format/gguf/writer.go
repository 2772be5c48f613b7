package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"hotpath/internal/format"
	"hotpath/internal/tensor"
)

// Writer collects metadata and descriptions of tensors and writes them as one
// GGUF file, version 3. Tensors that were added as streams are made while the
// file is written, one after the other, so that a model need not fit into
// memory. The zero Writer is ready for use.
type Writer struct {
	keys    []string
	values  [][]byte // a type and a value, by key
	hasKey  map[string]bool
	hasName map[string]bool // of a tensor
	align   int             // 0 for the default
	tensors []pending
}

// pending is a tensor to write.
type pending struct {
	name  string
	typ   GGMLType
	dims  []int // outermost first
	size  int   // bytes
	write func(io.Writer) error
}

// Set adds a metadata value: a number of a sized type, a bool, a string, a
// slice of one of these, or a []any of slices for nested arrays. An int is
// refused, because its size in the file would be a guess.
func (w *Writer) Set(key string, value any) error {
	b, err := appendAny(nil, value)
	if err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	return w.set(key, b, value)
}

// SetValue copies a metadata value from another file, byte by byte.
func (w *Writer) SetValue(key string, v Value) error {
	b := binary.LittleEndian.AppendUint32(nil, uint32(v.typ))
	switch v.typ {
	case Array:
		b = appendArray(b, v.elem, v.n)
	case String:
		b = binary.LittleEndian.AppendUint64(b, uint64(len(v.raw)))
	}
	var align any
	if key == alignmentKey {
		align = v.Any()
	}
	return w.set(key, append(b, v.raw...), align)
}

func (w *Writer) set(key string, b []byte, value any) error {
	if len(key) == 0 || len(key) > maxName || w.hasKey[key] {
		return fmt.Errorf("key %q: expected a name of 1 to %d bytes that is not taken: %w", key, maxName, format.ErrInvalid)
	}
	if len(w.keys) == maxKeys {
		return fmt.Errorf("key %q: more than %d keys: %w", key, maxKeys, format.ErrInvalid)
	}
	if key == alignmentKey {
		a, ok := value.(uint32)
		if !ok || !validAlignment(uint64(a)) {
			return fmt.Errorf("key %q: %v, expected a uint32, a power of two from 8 to %d: %w", key, value, maxAlignment, format.ErrInvalid)
		}
		w.align = int(a)
	}
	take(&w.hasKey, key)
	w.keys, w.values = append(w.keys, key), append(w.values, b)
	return nil
}

// Add adds a tensor. dims are outermost first; data must stay unchanged until
// WriteTo returns.
func (w *Writer) Add(name string, d tensor.DType, dims []int, data []byte) error {
	t, err := w.describe(name, d, dims)
	if err != nil {
		return err
	}
	if t.size != len(data) {
		return fmt.Errorf("tensor %q: %d bytes, expected %d for %s %v: %w", name, len(data), t.size, d, dims, format.ErrInvalid)
	}
	t.write = func(out io.Writer) error {
		_, err := out.Write(data)
		return err
	}
	w.addPending(t)
	return nil
}

// AddStream adds a tensor whose bytes write makes, exactly as many as the
// dimensions ask for, when the file is written.
func (w *Writer) AddStream(name string, d tensor.DType, dims []int, write func(io.Writer) error) error {
	t, err := w.describe(name, d, dims)
	if err != nil {
		return err
	}
	t.write = write
	w.addPending(t)
	return nil
}

// describe checks a tensor.
func (w *Writer) describe(name string, d tensor.DType, dims []int) (pending, error) {
	if len(name) == 0 || len(name) > maxName || w.hasName[name] {
		return pending{}, fmt.Errorf("tensor %q: expected a name of 1 to %d bytes that is not taken: %w", name, maxName, format.ErrInvalid)
	}
	if len(w.tensors) == maxTensors {
		return pending{}, fmt.Errorf("tensor %q: more than %d tensors: %w", name, maxTensors, format.ErrInvalid)
	}
	t, ok := ggmlTypeOf(d)
	if !ok {
		return pending{}, fmt.Errorf("tensor %q: GGUF has no encoding %s: %w", name, d, format.ErrUnsupported)
	}
	if len(dims) < 1 || len(dims) > maxRank || slices.Min(dims) < 1 {
		return pending{}, fmt.Errorf("tensor %q: dimensions %v, expected 1 to %d positive ones: %w", name, dims, maxRank, format.ErrInvalid)
	}
	size, err := format.ByteSize(dims, ggmlTypes[t].blockLen, ggmlTypes[t].blockBytes)
	if err != nil {
		return pending{}, fmt.Errorf("tensor %q: %w", name, err)
	}
	return pending{name: name, typ: t, dims: slices.Clone(dims), size: size}, nil
}

func (w *Writer) addPending(t pending) {
	take(&w.hasName, t.name)
	w.tensors = append(w.tensors, t)
}

func take(set *map[string]bool, name string) {
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[name] = true
}

// WriteTo writes the file: header, metadata, tensor table, and the tensors,
// each padded to the alignment.
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	align := w.align
	if align == 0 {
		align = defaultAlignment
	}
	c := &counter{out: out}
	_, err := c.Write(w.header(align))
	pad := make([]byte, align)
	for i := 0; err == nil && i < len(w.tensors); i++ {
		t, before := &w.tensors[i], c.n
		if err = t.write(c); err != nil {
			break
		}
		if n := c.n - before; n != int64(t.size) {
			err = fmt.Errorf("tensor %q: its stream gave %d bytes, expected %d: %w", t.name, n, t.size, format.ErrInvalid)
			break
		}
		_, err = c.Write(pad[:padding(t.size, align)])
	}
	return c.n, err
}

// counter counts what passes.
type counter struct {
	out io.Writer
	n   int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	c.n += int64(n)
	return n, err
}

// header is everything before the tensors' data, padded to the alignment.
func (w *Writer) header(align int) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte(magic), version)
	b = le.AppendUint64(b, uint64(len(w.tensors)))
	b = le.AppendUint64(b, uint64(len(w.keys)))
	for i, key := range w.keys {
		b = append(appendText(b, key), w.values[i]...)
	}
	offset := 0
	for _, t := range w.tensors {
		b = appendText(b, t.name)
		b = le.AppendUint32(b, uint32(len(t.dims)))
		for _, d := range slices.Backward(t.dims) {
			b = le.AppendUint64(b, uint64(d))
		}
		b = le.AppendUint32(b, uint32(t.typ))
		b = le.AppendUint64(b, uint64(offset))
		offset += t.size + padding(t.size, align)
	}
	return append(b, make([]byte, padding(len(b), align))...)
}

func padding(n, align int) int { return (align - n%align) % align }

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func appendArray(b []byte, elem Type, n int) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(elem))
	return binary.LittleEndian.AppendUint64(b, uint64(n))
}

// appendAny appends the type of a Go value and the value.
func appendAny(b []byte, value any) ([]byte, error) {
	le := binary.LittleEndian
	if s, ok := value.(string); ok {
		return appendText(le.AppendUint32(b, uint32(String)), s), nil
	}
	if t, ok := scalarType(value); ok {
		return binary.Append(le.AppendUint32(b, uint32(t)), le, value)
	}
	return appendSlice(le.AppendUint32(b, uint32(Array)), value, 0)
}

func appendSlice(b []byte, value any, depth int) ([]byte, error) {
	if t, n, ok := sliceType(value); ok {
		return binary.Append(appendArray(b, t, n), binary.LittleEndian, value)
	}
	switch v := value.(type) {
	case []string:
		b = appendArray(b, String, len(v))
		for _, s := range v {
			b = appendText(b, s)
		}
		return b, nil
	case []any:
		if depth+1 >= maxDepth {
			return nil, fmt.Errorf("arrays nested more than %d deep: %w", maxDepth, format.ErrInvalid)
		}
		b = appendArray(b, Array, len(v))
		var err error
		for _, item := range v {
			if b, err = appendSlice(b, item, depth+1); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	return nil, fmt.Errorf("a %T, expected a sized number, a bool, a string or a slice of those: %w", value, format.ErrUnsupported)
}

// scalarType is the type that stores a Go value of fixed size.
func scalarType(value any) (Type, bool) {
	switch value.(type) {
	case uint8:
		return Uint8, true
	case int8:
		return Int8, true
	case uint16:
		return Uint16, true
	case int16:
		return Int16, true
	case uint32:
		return Uint32, true
	case int32:
		return Int32, true
	case uint64:
		return Uint64, true
	case int64:
		return Int64, true
	case float32:
		return Float32, true
	case float64:
		return Float64, true
	case bool:
		return Bool, true
	}
	return 0, false
}

// sliceType is the type that stores the elements of a slice, and its length.
func sliceType(value any) (Type, int, bool) {
	switch v := value.(type) {
	case []uint8:
		return Uint8, len(v), true
	case []int8:
		return Int8, len(v), true
	case []uint16:
		return Uint16, len(v), true
	case []int16:
		return Int16, len(v), true
	case []uint32:
		return Uint32, len(v), true
	case []int32:
		return Int32, len(v), true
	case []uint64:
		return Uint64, len(v), true
	case []int64:
		return Int64, len(v), true
	case []float32:
		return Float32, len(v), true
	case []float64:
		return Float64, len(v), true
	case []bool:
		return Bool, len(v), true
	}
	return 0, 0, false
}
