package jsonview

import (
	"bytes"
	"cmp"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// maxNumber bounds the text of a number that is decoded: digits beyond it
// cannot be meant.
const maxNumber = 1 << 10 // bytes

// Bool is the value of true or false.
func (v Value) Bool() (value, ok bool) {
	return string(v.raw) == "true", v.Kind() == Bool
}

// Int is a number without fraction and exponent that fits into 64 bits.
func (v Value) Int() (int64, bool) {
	if v.Kind() != Number || len(v.raw) > maxNumber {
		return 0, false
	}
	n, err := strconv.ParseInt(view(v.raw), 10, 64)
	return n, err == nil
}

// Float is a number that is finite as a float64.
func (v Value) Float() (float64, bool) {
	if v.Kind() != Number || len(v.raw) > maxNumber {
		return 0, false
	}
	f, err := strconv.ParseFloat(view(v.raw), 64)
	return f, err == nil
}

// view is b as a string that lives as long as the document.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// inside is what stands between the quotes of a string.
func (v Value) inside() []byte {
	if v.Kind() != String {
		return nil
	}
	return v.raw[1 : len(v.raw)-1]
}

// Plain is the text of a string as a view, where it stands in the document as
// it is: without escapes and in sound UTF-8.
func (v Value) Plain() ([]byte, bool) {
	b := v.inside()
	if v.Kind() != String || bytes.IndexByte(b, '\\') >= 0 || !utf8.Valid(b) {
		return nil, false
	}
	return b[:len(b):len(b)], true
}

// Text is the decoded text of a string, a copy.
func (v Value) Text() (string, bool) {
	if v.Kind() != String {
		return "", false
	}
	if b, ok := v.Plain(); ok {
		return string(b), true
	}
	b := v.AppendText(make([]byte, 0, v.TextLen()))
	return view(b), true // nobody else has b
}

// TextLen is the length of the decoded text of a string; 0 for other kinds.
func (v Value) TextLen() int {
	n := 0
	for t := encoded(v.inside()); ; {
		r := t.next()
		if r < 0 {
			return n
		}
		n += utf8.RuneLen(r)
	}
}

// AppendText appends the decoded text of a string.
func (v Value) AppendText(dst []byte) []byte {
	if b, ok := v.Plain(); ok {
		return append(dst, b...)
	}
	for t := encoded(v.inside()); ; {
		r := t.next()
		if r < 0 {
			return dst
		}
		dst = utf8.AppendRune(dst, r)
	}
}

// Is reports whether the value is a string of that text, which is sound UTF-8.
func (v Value) Is(text string) bool {
	if v.Kind() != String {
		return false
	}
	b := v.inside()
	if string(b) == text {
		return bytes.IndexByte(b, '\\') < 0
	}
	if bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
		return false
	}
	return compare(encoded(b), asRunes(text)) == 0
}

// Compare orders strings by their decoded text.
func (v Value) Compare(o Value) int {
	a, plainA := v.Plain()
	b, plainB := o.Plain()
	if plainA && plainB {
		return bytes.Compare(a, b)
	}
	return compare(encoded(v.inside()), encoded(o.inside()))
}

// CompareText orders a string's decoded text against a text of sound UTF-8.
func (v Value) CompareText(text string) int {
	if b, ok := v.Plain(); ok {
		return cmp.Compare(view(b), text)
	}
	return compare(encoded(v.inside()), asRunes(text))
}

// compare orders rune by rune, which is how UTF-8 orders bytes.
func compare(a, b runes) int {
	for {
		x, y := a.next(), b.next()
		if x != y || x < 0 {
			return cmp.Compare(x, y)
		}
	}
}

// asRunes gives the runes of a text that is not encoded.
func asRunes(text string) runes {
	return runes{unsafe.Slice(unsafe.StringData(text), len(text)), true}
}

// encoded gives the runes of what stands between the quotes of a checked
// string.
func encoded(b []byte) runes { return runes{b, false} }

// runes walks over a text.
type runes struct {
	rest  []byte
	plain bool // a backslash is one
}

// next is the next rune, -1 at the end.
func (t *runes) next() rune {
	if len(t.rest) == 0 {
		return -1
	}
	if t.plain || t.rest[0] != '\\' {
		r, n := utf8.DecodeRune(t.rest) // U+FFFD for each byte that is broken
		t.rest = t.rest[n:]
		return r
	}
	c := t.rest[1]
	if c != 'u' {
		t.rest = t.rest[2:]
		return escapes[c]
	}
	r := hex4(t.rest[2:])
	t.rest = t.rest[6:]
	if !utf16.IsSurrogate(r) {
		return r
	}
	if len(t.rest) >= 6 && t.rest[0] == '\\' && t.rest[1] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(t.rest[2:])); pair != utf8.RuneError {
			t.rest = t.rest[6:]
			return pair
		}
	}
	return utf8.RuneError
}

var escapes = [256]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		r <<= 4
		switch {
		case c <= '9':
			r |= rune(c - '0')
		default:
			r |= rune(c|0x20) - 'a' + 10
		}
	}
	return r
}
