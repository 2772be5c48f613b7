package tokenizer

import "unicode/utf8"

const replacement = "\uFFFD"

// appendValid appends text with every ill-formed sequence replaced by U+FFFD, one for each maximal
// subpart (Unicode 3.9, D93b), which is what Python's errors="replace" and Rust's from_utf8_lossy do.
// Go's own conversion gives one for each byte.
func appendValid[T string | []byte](dst []byte, text T) []byte {
	for i := 0; i < len(text); {
		start := i
		for i < len(text) && text[i] < utf8.RuneSelf {
			i++
		}
		dst = append(dst, text[start:i]...)
		if i == len(text) {
			break
		}
		n, ok := sequence(text[i:])
		if ok {
			dst = append(dst, text[i:i+n]...)
		} else {
			dst = append(dst, replacement...)
		}
		i += n
	}
	return dst
}

// sequence measures the multi-byte sequence that text begins with: its length if it is well formed,
// else the length of its longest beginning that a well-formed sequence could have (at least 1).
func sequence[T string | []byte](text T) (n int, ok bool) {
	lo, hi := byte(0x80), byte(0xBF) // what the second byte may be
	switch c := text[0]; {
	case c >= 0xC2 && c <= 0xDF:
		n = 2
	case c >= 0xE0 && c <= 0xEF:
		n = 3
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		n = 4
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	default:
		return 1, false
	}
	for i := 1; i < n; i++ {
		if i == len(text) || text[i] < lo || text[i] > hi {
			return i, false
		}
		lo, hi = 0x80, 0xBF
	}
	return n, true
}

// incomplete is the number of bytes at the end of text that begin a sequence which more bytes could
// complete.
func incomplete(text []byte) int {
	for back := 1; back <= 3 && back <= len(text); back++ {
		c := text[len(text)-back]
		if c < 0x80 {
			return 0
		}
		if c >= 0xC0 {
			n, ok := sequence(text[len(text)-back:])
			if !ok && n == back && c >= 0xC2 && c <= 0xF4 {
				return back
			}
			return 0
		}
	}
	return 0
}
