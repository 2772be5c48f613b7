// Package jsonview reads JSON where it lies: Parse checks a document once, and
// a Value is a view of its bytes that is decoded when somebody asks. Nothing is
// allocated but the strings that a caller wants as such, so opening a hostile
// file costs no more memory than the file.
//
//	doc, err := jsonview.Parse(data)
//	for key, v := range doc.Members() {
//		if key.Is("vocab") { ... v.Int() ... }
//	}
//
// It accepts what encoding/json accepts, and decodes as it does: broken UTF-8
// and lone surrogates become U+FFFD, and of equal keys the last counts in Get.
// Only nesting deeper than MaxDepth is refused. Values share the bytes given to
// Parse, which must stay unchanged while they are in use.
//
// It is one of the readers of package format: tokenizer, weights and the other
// readers may import it. Errors say where and what was expected, and wrap
// format.ErrInvalid; the caller puts the file's name in front.
package jsonview

import (
	"bytes"
	"iter"
)

// MaxDepth is how deep arrays and objects may be nested.
const MaxDepth = 64

// Kind is what a Value is.
type Kind uint8

const (
	Invalid Kind = iota // the zero Value
	Null
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"nothing", "null", "true or false", "a number", "a string", "an array", "an object"}[k]
}

// Value is a checked piece of JSON. The zero Value is of kind Invalid.
type Value struct {
	// From the first byte of the value to its last. The capacity reaches to the
	// end of the document: it says where the value lies.
	raw []byte
}

// Parse checks data, one JSON value with nothing but spaces around it.
func Parse(data []byte) (Value, error) {
	s := scanner{data: data}
	begin := s.spaces(0)
	end, err := s.value(begin, 0)
	if err != nil {
		return Value{}, err
	}
	if rest := s.spaces(end); rest < len(data) {
		return Value{}, s.fault(rest, "nothing after the JSON value")
	}
	return Value{data[begin:end]}, nil
}

// Raw is the JSON of the value, a view.
func (v Value) Raw() []byte { return v.raw[:len(v.raw):len(v.raw)] }

// Kind is what the value is.
func (v Value) Kind() Kind {
	if len(v.raw) == 0 {
		return Invalid
	}
	switch v.raw[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	}
	return Number
}

// Members are the keys and values of an object in the order of the document,
// equal keys included; none for other kinds. Keys are of kind String.
func (v Value) Members() iter.Seq2[Value, Value] {
	return func(yield func(key, value Value) bool) {
		if v.Kind() != Object {
			return
		}
		i := spaces(v.raw, 1)
		for v.raw[i] != '}' {
			end := skipString(v.raw, i)
			key := Value{v.raw[i:end]}
			i = spaces(v.raw, spaces(v.raw, end)+1) // over the colon
			end = skip(v.raw, i)
			if !yield(key, Value{v.raw[i:end]}) {
				return
			}
			if i = spaces(v.raw, end); v.raw[i] == ',' {
				i = spaces(v.raw, i+1)
			}
		}
	}
}

// Items are the elements of an array; none for other kinds.
func (v Value) Items() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != Array {
			return
		}
		i := spaces(v.raw, 1)
		for v.raw[i] != ']' {
			end := skip(v.raw, i)
			if !yield(Value{v.raw[i:end]}) {
				return
			}
			if i = spaces(v.raw, end); v.raw[i] == ',' {
				i = spaces(v.raw, i+1)
			}
		}
	}
}

// Len is the number of members or items, counted in one walk; 0 for other
// kinds.
func (v Value) Len() int {
	n := 0
	if v.Kind() == Array {
		for range v.Items() {
			n++
		}
	}
	for range v.Members() {
		n++
	}
	return n
}

// Get finds a member of an object by walking over it; of equal keys the last
// counts.
func (v Value) Get(key string) (found Value, ok bool) {
	for k, value := range v.Members() {
		if k.Is(key) {
			found, ok = value, true
		}
	}
	return found, ok
}

// Offset is where a view within the value begins, counted from the value's
// first byte: four bytes in place of a view's 24 for tables that must be small.
func (v Value) Offset(part Value) int { return cap(v.raw) - cap(part.raw) }

// At is the value that begins at an offset that Offset gave.
func (v Value) At(offset int) Value {
	end := skip(v.raw, offset)
	return Value{v.raw[offset:end]}
}

func spaces(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skip finds the end of the value at i of checked JSON.
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; ; {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ':', ' ', '\n', '\t', '\r':
			return i
		}
		i++
	}
	return i
}

// skipString finds the end of the string at i of checked JSON.
func skipString(b []byte, i int) int {
	for i++; ; i++ {
		at := i + bytes.IndexByte(b[i:], '"')
		// The quote ends the string unless it is escaped, behind an odd number of
		// backslashes.
		back := at
		for back > i && b[back-1] == '\\' {
			back--
		}
		if (at-back)%2 == 0 {
			return at + 1
		}
		i = at
	}
}
