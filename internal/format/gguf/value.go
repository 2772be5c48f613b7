package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strings"
)

// Type is the type of a metadata value, numbered as in the file.
type Type uint32

const (
	Uint8 Type = iota
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	String
	Array
	Uint64
	Int64
	Float64
	numTypes
)

// types gives every Type its name and the bytes it takes, 0 where that varies.
var types = [numTypes]struct {
	name string
	size int
}{
	Uint8: {"uint8", 1}, Int8: {"int8", 1}, Uint16: {"uint16", 2}, Int16: {"int16", 2},
	Uint32: {"uint32", 4}, Int32: {"int32", 4}, Float32: {"float32", 4}, Bool: {"bool", 1},
	String: {"string", 0}, Array: {"array", 0},
	Uint64: {"uint64", 8}, Int64: {"int64", 8}, Float64: {"float64", 8},
}

func (t Type) String() string {
	if t >= numTypes {
		return fmt.Sprintf("Type(%d)", uint32(t))
	}
	return types[t].name
}

// Value is one metadata value: a checked view of its bytes in the file, decoded
// only when somebody asks, so that a vocabulary costs nothing until it is read.
// It is valid as long as the bytes given to Parse are.
type Value struct {
	typ  Type
	elem Type   // of an Array
	n    int    // elements of an Array
	raw  []byte // a scalar's bytes, a String's text, an Array's elements
}

// Type is the type of the value.
func (v Value) Type() Type { return v.typ }

// Elem is the type of an array's elements.
func (v Value) Elem() Type { return v.elem }

// Len is the number of an array's elements, and 0 for anything else.
func (v Value) Len() int { return v.n }

// describe says what the value is, for errors.
func (v Value) describe() string {
	switch {
	case v.typ == Array:
		return fmt.Sprintf("an array of %d %s", v.n, v.elem)
	case v.typ == String:
		s := v.raw
		if len(s) > 40 {
			s = s[:40]
		}
		return fmt.Sprintf("string %q", s)
	}
	return fmt.Sprintf("%s %v", v.typ, v.Any())
}

// Text is a copy of a String.
func (v Value) Text() (string, bool) {
	if v.typ != String {
		return "", false
	}
	return string(v.raw), true
}

// Int is any integer type whose value an int64 holds.
func (v Value) Int() (int64, bool) { return number(v.typ, v.raw) }

// Uint is any integer type whose value is not negative.
func (v Value) Uint() (uint64, bool) {
	if v.typ == Uint64 {
		return binary.LittleEndian.Uint64(v.raw), true
	}
	n, ok := number(v.typ, v.raw)
	return uint64(n), ok && n >= 0
}

// Float is any number.
func (v Value) Float() (float64, bool) {
	switch v.typ {
	case Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw))), true
	case Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw)), true
	case Uint64:
		return float64(binary.LittleEndian.Uint64(v.raw)), true
	}
	n, ok := number(v.typ, v.raw)
	return float64(n), ok
}

// Bool is a Bool.
func (v Value) Bool() (value, ok bool) {
	if v.typ != Bool {
		return false, false
	}
	return v.raw[0] != 0, true
}

// number decodes an integer at the start of b.
func number(t Type, b []byte) (int64, bool) {
	switch t {
	case Uint8:
		return int64(b[0]), true
	case Int8:
		return int64(int8(b[0])), true
	case Uint16:
		return int64(binary.LittleEndian.Uint16(b)), true
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(b))), true
	case Uint32:
		return int64(binary.LittleEndian.Uint32(b)), true
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	case Int64:
		return int64(binary.LittleEndian.Uint64(b)), true
	case Uint64:
		n := binary.LittleEndian.Uint64(b)
		return int64(n), n <= math.MaxInt64
	}
	return 0, false
}

// Strings copies an array of strings into one block of memory, so that the
// result outlives the file and costs three allocations whatever its length.
func (v Value) Strings() ([]string, bool) {
	if v.typ != Array || v.elem != String {
		return nil, false
	}
	var b strings.Builder
	b.Grow(len(v.raw) - 8*v.n)
	for raw := v.raw; len(raw) > 0; {
		n := int(binary.LittleEndian.Uint64(raw))
		b.Write(raw[8 : 8+n])
		raw = raw[8+n:]
	}
	text, out := b.String(), make([]string, v.n)
	raw := v.raw
	for i := range out {
		n := int(binary.LittleEndian.Uint64(raw))
		out[i], text, raw = text[:n], text[n:], raw[8+n:]
	}
	return out, true
}

// Ints decodes an array of any integer type.
func (v Value) Ints() ([]int64, bool) {
	if _, isInt := number(v.elem, make([]byte, 8)); v.typ != Array || !isInt {
		return nil, false
	}
	out, size := make([]int64, v.n), types[v.elem].size
	for i := range out {
		n, ok := number(v.elem, v.raw[i*size:])
		if !ok {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

// Floats decodes an array of Float32 or Float64, rounding the latter.
func (v Value) Floats() ([]float32, bool) {
	if v.typ != Array || v.elem != Float32 && v.elem != Float64 {
		return nil, false
	}
	out, size := make([]float32, v.n), types[v.elem].size
	for i := range out {
		f, _ := Value{typ: v.elem, raw: v.raw[i*size:]}.Float()
		out[i] = float32(f)
	}
	return out, true
}

// Bools decodes an array of Bool.
func (v Value) Bools() ([]bool, bool) {
	if v.typ != Array || v.elem != Bool {
		return nil, false
	}
	out := make([]bool, v.n)
	for i := range out {
		out[i] = v.raw[i] != 0
	}
	return out, true
}

// Items gives the elements of an array of any type, nested arrays among them,
// one after the other: whoever wants a few pays for a few. Anything else has
// none.
func (v Value) Items() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		r := reader{data: v.raw}
		for range v.n {
			item, err := r.value(v.elem, 0)
			if err != nil || !yield(item) {
				return
			}
		}
	}
}

// Any is the value as the Go type of the same name: uint32, string, bool;
// for arrays a slice of that, or []any for nested ones. Writer.Set takes what
// Any gives.
func (v Value) Any() any {
	le := binary.LittleEndian
	switch v.typ {
	case Uint8:
		return v.raw[0]
	case Int8:
		return int8(v.raw[0])
	case Uint16:
		return le.Uint16(v.raw)
	case Int16:
		return int16(le.Uint16(v.raw))
	case Uint32:
		return le.Uint32(v.raw)
	case Int32:
		return int32(le.Uint32(v.raw))
	case Uint64:
		return le.Uint64(v.raw)
	case Int64:
		return int64(le.Uint64(v.raw))
	case Float32:
		return math.Float32frombits(le.Uint32(v.raw))
	case Float64:
		return math.Float64frombits(le.Uint64(v.raw))
	case Bool:
		return v.raw[0] != 0
	case String:
		return string(v.raw)
	}
	return v.slice()
}

func (v Value) slice() any {
	switch v.elem {
	case Uint8:
		return sliceOf[uint8](v)
	case Int8:
		return sliceOf[int8](v)
	case Uint16:
		return sliceOf[uint16](v)
	case Int16:
		return sliceOf[int16](v)
	case Uint32:
		return sliceOf[uint32](v)
	case Int32:
		return sliceOf[int32](v)
	case Uint64:
		return sliceOf[uint64](v)
	case Int64:
		return sliceOf[int64](v)
	case Float32:
		return sliceOf[float32](v)
	case Float64:
		return sliceOf[float64](v)
	case Bool:
		return sliceOf[bool](v)
	case String:
		s, _ := v.Strings()
		return s
	}
	return sliceOf[any](v)
}

func sliceOf[T any](v Value) []T {
	out := make([]T, 0, v.n)
	for item := range v.Items() {
		x, _ := item.Any().(T)
		out = append(out, x)
	}
	return out
}
