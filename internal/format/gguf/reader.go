package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"hotpath/internal/format"
)

// reader walks the bytes of a file and never past their end.
type reader struct {
	data []byte
	pos  int
}

func (r *reader) left() int { return len(r.data) - r.pos }

func (r *reader) bytes(n int) ([]byte, error) {
	if n > r.left() {
		return nil, fmt.Errorf("%d bytes at offset %d, but only %d are left: %w", n, r.pos, r.left(), format.ErrTruncated)
	}
	b := r.data[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return b, nil
}

func (r *reader) uint32() (uint32, error) {
	b, err := r.bytes(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (r *reader) uint64() (uint64, error) {
	b, err := r.bytes(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// text reads a length and that many bytes.
func (r *reader) text() ([]byte, error) {
	n, err := r.uint64()
	if err != nil {
		return nil, err
	}
	if n > uint64(r.left()) {
		return nil, fmt.Errorf("string of %d bytes at offset %d, but only %d are left: %w", n, r.pos, r.left(), format.ErrTruncated)
	}
	return r.bytes(int(n))
}

// name reads the name of a key or a tensor.
func (r *reader) name() (string, error) {
	b, err := r.text()
	if err != nil {
		return "", err
	}
	if len(b) == 0 || len(b) > maxName {
		return "", fmt.Errorf("name of %d bytes, expected 1 to %d: %w", len(b), maxName, format.ErrInvalid)
	}
	return string(b), nil
}

// value checks a value and returns a view of it.
func (r *reader) value(t Type, depth int) (Value, error) {
	if t >= numTypes {
		return Value{}, fmt.Errorf("type %d, expected 0 to %d: %w", uint32(t), numTypes-1, format.ErrInvalid)
	}
	var raw []byte
	var err error
	switch t {
	case String:
		raw, err = r.text()
	case Array:
		return r.array(depth)
	default:
		raw, err = r.bytes(types[t].size)
	}
	return Value{typ: t, raw: raw}, err
}

func (r *reader) array(depth int) (Value, error) {
	if depth >= maxDepth {
		return Value{}, fmt.Errorf("arrays nested more than %d deep: %w", maxDepth, format.ErrInvalid)
	}
	t, err := r.uint32()
	if err != nil {
		return Value{}, fmt.Errorf("array type: %w", err)
	}
	n, err := r.uint64()
	if err != nil {
		return Value{}, fmt.Errorf("array length: %w", err)
	}
	elem := Type(t)
	if elem >= numTypes {
		return Value{}, fmt.Errorf("array of type %d, expected 0 to %d: %w", t, numTypes-1, format.ErrInvalid)
	}
	least := types[elem].size
	switch elem {
	case String:
		least = 8
	case Array:
		least = 4 + 8
	}
	if n > uint64(r.left()/least) {
		return Value{}, fmt.Errorf("array of %d %s, but only %d bytes are left: %w", n, elem, r.left(), format.ErrTruncated)
	}
	begin := r.pos
	if size := types[elem].size; size > 0 {
		r.pos += int(n) * size
	} else {
		for i := range n {
			if _, err := r.value(elem, depth+1); err != nil {
				return Value{}, fmt.Errorf("element %d: %w", i, err)
			}
		}
	}
	return Value{typ: Array, elem: elem, n: int(n), raw: r.data[begin:r.pos:r.pos]}, nil
}

// tensor reads one entry of the tensor table; where its place is in the file
// is for the caller to check.
func (r *reader) tensor() (t Tensor, err error) {
	if t.Name, err = r.name(); err != nil {
		return t, err
	}
	rank, err := r.uint32()
	if err != nil {
		return t, fmt.Errorf("rank: %w", err)
	}
	if rank < 1 || rank > maxRank {
		return t, fmt.Errorf("%d dimensions, expected 1 to %d: %w", rank, maxRank, format.ErrInvalid)
	}
	t.rank = int(rank)
	for i := range t.rank {
		d, err := r.uint64()
		if err != nil {
			return t, fmt.Errorf("dimension %d: %w", i, err)
		}
		if d < 1 || d > math.MaxInt {
			return t, fmt.Errorf("dimension %d is %d, expected a positive size: %w", i, int64(d), format.ErrInvalid)
		}
		t.dims[t.rank-1-i] = int(d)
	}
	typ, err := r.uint32()
	if err != nil {
		return t, fmt.Errorf("encoding: %w", err)
	}
	offset, err := r.uint64()
	if err != nil {
		return t, fmt.Errorf("offset: %w", err)
	}
	t.Type = GGMLType(typ)
	if offset > math.MaxInt {
		return t, fmt.Errorf("offset %d, expected one within the file: %w", offset, format.ErrInvalid)
	}
	t.offset = int(offset)
	if t.size = -1; t.Type.known() {
		i := ggmlTypes[t.Type]
		t.size, err = format.ByteSize(t.dims[:t.rank], i.blockLen, i.blockBytes)
	}
	return t, err
}
