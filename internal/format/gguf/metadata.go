package gguf

import (
	"fmt"
	"math"

	"hotpath/internal/format"
)

// The plain getters say false for a key that is absent or of another type.
// The ones below them tell the two apart: Need… fails on both, …Or gives a
// default for an absent key and fails on a wrong type, so that a damaged value
// never passes for a missing one.

// Has reports whether there is a key, of whatever type.
func (f *File) Has(key string) bool {
	_, ok := f.values[key]
	return ok
}

// Len is the number of elements of a key's array, 0 for anything else. Ask it
// before the elements: they take up to eight times as much as in the file.
func (f *File) Len(key string) int { return f.values[key].Len() }

// String is the text of a key.
func (f *File) String(key string) (string, bool) { return get(f, key, Value.Text) }

// Uint is the value of a key of any integer type, if it is not negative.
func (f *File) Uint(key string) (uint64, bool) { return get(f, key, Value.Uint) }

// Int is the value of a key of any integer type.
func (f *File) Int(key string) (int64, bool) { return get(f, key, Value.Int) }

// Float is the value of a key of any numeric type.
func (f *File) Float(key string) (float64, bool) { return get(f, key, Value.Float) }

// Bool is the value of a key of type Bool.
func (f *File) Bool(key string) (value, ok bool) { return get(f, key, Value.Bool) }

// Strings is a copy of an array of strings.
func (f *File) Strings(key string) ([]string, bool) { return get(f, key, Value.Strings) }

// Ints is a copy of an array of any integer type.
func (f *File) Ints(key string) ([]int64, bool) { return get(f, key, Value.Ints) }

// Floats is a copy of an array of floats.
func (f *File) Floats(key string) ([]float32, bool) { return get(f, key, Value.Floats) }

// Bools is a copy of an array of bools.
func (f *File) Bools(key string) ([]bool, bool) { return get(f, key, Value.Bools) }

func get[T any](f *File, key string, as func(Value) (T, bool)) (T, bool) {
	v, ok := f.values[key]
	if !ok {
		var zero T
		return zero, false
	}
	return as(v)
}

// NeedString is the text of a key that must be there.
func (f *File) NeedString(key string) (string, error) {
	return need(f, key, Value.Text, "a string")
}

// StringOr is the text of a key, or def.
func (f *File) StringOr(key, def string) (string, error) {
	return or(f, key, def, Value.Text, "a string")
}

// NeedInt is a positive integer that must be there: a count or a width.
func (f *File) NeedInt(key string) (int, error) {
	return need(f, key, positive, "a positive integer")
}

// IntOr is a positive integer, or def.
func (f *File) IntOr(key string, def int) (int, error) {
	return or(f, key, def, positive, "a positive integer")
}

// IDOr is an integer from 0, such as the id of a token, or def.
func (f *File) IDOr(key string, def int) (int, error) {
	return or(f, key, def, natural, "an integer from 0")
}

// FloatOr is a finite number, or def.
func (f *File) FloatOr(key string, def float64) (float64, error) {
	return or(f, key, def, finite, "a finite number")
}

// BoolOr is a truth value, or def.
func (f *File) BoolOr(key string, def bool) (bool, error) {
	return or(f, key, def, Value.Bool, "true or false")
}

func need[T any](f *File, key string, as func(Value) (T, bool), want string) (T, error) {
	if _, ok := f.values[key]; !ok {
		var zero T
		return zero, fmt.Errorf("%s: key %q: expected %s, but the file has no such key: %w", f.name, key, want, format.ErrInvalid)
	}
	var zero T
	return or(f, key, zero, as, want)
}

func or[T any](f *File, key string, def T, as func(Value) (T, bool), want string) (T, error) {
	v, ok := f.values[key]
	if !ok {
		return def, nil
	}
	x, ok := as(v)
	if !ok {
		var zero T
		return zero, fmt.Errorf("%s: key %q: expected %s, found %s: %w", f.name, key, want, v.describe(), format.ErrInvalid)
	}
	return x, nil
}

func positive(v Value) (int, bool) {
	n, ok := natural(v)
	return n, ok && n > 0
}

// natural keeps within 32 bits what counts and names things, so that products
// of two of them cannot overflow.
func natural(v Value) (int, bool) {
	n, ok := v.Uint()
	return int(n), ok && n <= math.MaxInt32
}

func finite(v Value) (float64, bool) {
	x, ok := v.Float()
	return x, ok && !math.IsNaN(x) && !math.IsInf(x, 0)
}
