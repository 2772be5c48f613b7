package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// tokenizer.json is read through views: a value is the part of the file that spells it, and nothing is
// copied but what the tables keep. So a file, hostile or not, cannot make us allocate much more than its
// size. checkJSON looks at the syntax of the whole file once; everything after relies on that.

// checkJSON refuses what is not one JSON object.
func checkJSON(data []byte) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("not valid UTF-8")
	}
	if i := skipBlank(data, 0); json.Valid(data) && data[i] == '{' {
		return nil
	}
	var object struct{}
	return json.Unmarshal(data, &object) // says where it is wrong
}

func isNull(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// skipBlank is the next place at or after i that is no white space.
func skipBlank(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is the place after the string that begins at i.
func stringEnd(raw []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return len(raw)
		}
		i += n
		back := i
		for raw[back-1] == '\\' { // the opening quote ends this walk
			back--
		}
		i++
		if (i-1-back)%2 == 0 {
			return i
		}
	}
}

// valueEnd is the place after the value that begins at i.
func valueEnd(raw []byte, i int) int {
	for depth := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
			continue
		default: // a number, true, false or null
			for i < len(raw) && raw[i] > ' ' && raw[i] != ',' && raw[i] != '}' && raw[i] != ']' {
				i++
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return i
}

// eachField calls f with every key, quoted, and value of an object; ok is false for another value.
func eachField(raw []byte, f func(key, value []byte) error) (ok bool, err error) {
	i := skipBlank(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return false, nil
	}
	for i = skipBlank(raw, i+1); i < len(raw) && raw[i] == '"'; {
		end := stringEnd(raw, i)
		key := raw[i:end]
		i = skipBlank(raw, skipBlank(raw, end)+1) // the colon
		end = valueEnd(raw, i)
		if err := f(key, raw[i:end]); err != nil {
			return true, err
		}
		i = skipBlank(raw, end)
		if i < len(raw) && raw[i] == ',' {
			i = skipBlank(raw, i+1)
		}
	}
	return true, nil
}

// eachItem calls f with every value of an array; ok is false for another value.
func eachItem(raw []byte, f func(i int, value []byte) error) (ok bool, err error) {
	i := skipBlank(raw, 0)
	if i >= len(raw) || raw[i] != '[' {
		return false, nil
	}
	i = skipBlank(raw, i+1)
	for n := 0; i < len(raw) && raw[i] != ']'; n++ {
		end := valueEnd(raw, i)
		if err := f(n, raw[i:end]); err != nil {
			return true, err
		}
		i = skipBlank(raw, end)
		if i < len(raw) && raw[i] == ',' {
			i = skipBlank(raw, i+1)
		}
	}
	return true, nil
}

// pick gives the values of the named fields of an object, nil for those that it lacks. The last one of
// equal names counts.
func pick(raw []byte, names ...string) [][]byte {
	values := make([][]byte, len(names))
	pickInto(values, raw, names...)
	return values
}

// pickInto is pick for those who have many objects to look at.
func pickInto(values [][]byte, raw []byte, names ...string) {
	clear(values)
	var buf [64]byte
	eachField(raw, func(key, value []byte) error {
		plain := key[1 : len(key)-1]
		if bytes.IndexByte(plain, '\\') >= 0 && len(key) <= len(buf) {
			plain = appendString(buf[:0], key)
		}
		for i, name := range names {
			if string(plain) == name {
				values[i] = value
			}
		}
		return nil
	})
}

// appendString appends what a quoted string stands for. It is never longer than the string.
func appendString(dst, quoted []byte) []byte {
	s := quoted[1 : len(quoted)-1]
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:n]...)
		c := s[n+1]
		s = s[n+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hexRune(s)
			s = s[4:]
			if 0xD800 <= r && r < 0xDC00 && len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
				if low := hexRune(s[2:]); 0xDC00 <= low && low < 0xE000 {
					r = (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
					s = s[6:]
				}
			}
			dst = utf8.AppendRune(dst, r) // half of a pair becomes U+FFFD
		default:
			dst = append(dst, c)
		}
	}
}

// hexRune reads four digits that checkJSON has seen.
func hexRune(s []byte) (r rune) {
	for _, c := range s[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}

// stringLength is the length of what a quoted string stands for.
func stringLength(quoted []byte) int {
	s := quoted[1 : len(quoted)-1]
	length := 0
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return length + len(s)
		}
		size := 2 // the escape's own length
		length++
		if s[n+1] == 'u' {
			size = 6
			if rest := s[n+6:]; len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
				size = 12
			}
			var buf [16]byte
			var part [14]byte
			part[0], part[size+1] = '"', '"'
			copy(part[1:], s[n:n+size])
			length += len(appendString(buf[:0], part[:size+2])) - 1
		}
		s = s[n+size:]
	}
}

// asText reads a string of at most limit bytes; ok is false for another value.
func asText(raw []byte, limit int) (text string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || len(raw) > limit {
		return "", false
	}
	return string(appendString(nil, raw)), true
}

// asID reads a whole number from 0 to 2147483647.
func asID(raw []byte) (int64, bool) {
	if len(raw) == 0 || len(raw) > 10 {
		return 0, false
	}
	id := int64(0)
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		id = id*10 + int64(c-'0')
	}
	return id, id <= 1<<31-1
}

// asFloat reads a number.
func asFloat(raw []byte) (float64, bool) {
	if len(raw) == 0 || len(raw) > 400 {
		return 0, false
	}
	v, err := strconv.ParseFloat(unsafe.String(&raw[0], len(raw)), 64)
	return v, err == nil
}
