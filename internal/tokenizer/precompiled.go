package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// charsmap is SentencePiece's table of normalizations: a double array that leads from a text to the place
// of its replacement, which ends with a zero byte. We use it as Hugging Face does: on every grapheme of
// less than six bytes the shortest entry that it begins with replaces it whole; else on its characters.
type charsmap struct {
	units []uint32
	texts []byte
	grows growth
}

// maxCharsmap bounds the table; the largest that SentencePiece makes have 300 KB.
const maxCharsmap = 1 << 22

func readPrecompiled(p *jsonPart) (normalizer, error) {
	raw := pick(p.raw, "precompiled_charsmap")[0]
	if isNull(raw) || raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 || len(raw) > maxCharsmap {
		return nil, p.errorf("precompiled_charsmap", "expected a string of base64, at most %d bytes", maxCharsmap)
	}
	raw = raw[1 : len(raw)-1]
	blob := make([]byte, base64.StdEncoding.DecodedLen(len(raw)))
	n, err := base64.StdEncoding.Decode(blob, raw)
	if err != nil {
		return nil, p.errorf("precompiled_charsmap", "expected base64: %w", err)
	}
	c, err := newCharsmap(blob[:n])
	if err != nil {
		return nil, p.errorf("precompiled_charsmap", "%w", err)
	}
	if c == nil {
		return charsmap{grows: same}, nil
	}
	return *c, nil
}

// newCharsmap reads the length of the double array in bytes, the array, and the texts. A table of nothing
// gives nil.
func newCharsmap(blob []byte) (*charsmap, error) {
	if len(blob) == 0 {
		return nil, nil
	}
	if len(blob) < 4 || len(blob) > maxCharsmap {
		return nil, fmt.Errorf("has %d bytes, expected 4..%d", len(blob), maxCharsmap)
	}
	size := int64(binary.LittleEndian.Uint32(blob))
	blob = blob[4:]
	if size > int64(len(blob)) || size%4 != 0 || size == 0 {
		return nil, fmt.Errorf("has a table of %d bytes, expected a multiple of 4 up to %d", size, len(blob))
	}
	c := &charsmap{units: make([]uint32, size/4), texts: bytes.Clone(blob[size:])}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(blob[4*i:])
	}
	c.grows = c.measure()
	return c, nil
}

// find gives the replacement of the shortest entry that text begins with.
func (c *charsmap) find(text []byte) (to []byte, ok bool) {
	offset := func(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }
	at := offset(c.units[0])
	for _, b := range text {
		if at ^= uint32(b); b == 0 || int(at) >= len(c.units) {
			return nil, false
		}
		unit := c.units[at]
		if unit&(1<<31|0xFF) != uint32(b) {
			return nil, false
		}
		if at ^= offset(unit); int(at) >= len(c.units) {
			return nil, false
		}
		if unit>>8&1 != 0 {
			begin := int(c.units[at] &^ (1 << 31))
			if begin > len(c.texts) {
				return nil, false
			}
			to, _, _ = bytes.Cut(c.texts[begin:], []byte{0})
			return to, utf8.Valid(to)
		}
	}
	return nil, false
}

func (c charsmap) normalize(dst, src []byte, _ *Scratch) []byte {
	if len(c.units) == 0 {
		return append(dst, src...)
	}
	for len(src) > 0 {
		n := grapheme(src)
		if n < 6 {
			if to, ok := c.find(src[:n]); ok {
				dst = append(dst, to...)
				src = src[n:]
				continue
			}
		}
		for end := n; end > 0; end -= n {
			n = 1
			if src[0] >= utf8.RuneSelf {
				_, n = utf8.DecodeRune(src)
			}
			if to, ok := c.find(src[:n]); ok {
				dst = append(dst, to...)
			} else {
				dst = append(dst, src[:n]...)
			}
			src = src[n:]
		}
	}
	return dst
}

// grapheme is the length of the first grapheme cluster of text, as far as clusters of less than six bytes
// go: syllables of Hangul, flags and the like have more, and their parts may as well stand alone.
func grapheme(text []byte) int {
	if len(text) == 1 {
		return 1
	}
	if text[0] < utf8.RuneSelf && text[1] < utf8.RuneSelf {
		if text[0] == '\r' && text[1] == '\n' {
			return 2
		}
		return 1
	}
	r, n := utf8.DecodeRune(text)
	c := classOf(r)
	for !c.is(classBreak) && n < len(text) {
		next, size := utf8.DecodeRune(text[n:])
		joins := c.is(classPrepend)
		if c = classOf(next); !c.is(classExtend) && (!joins || c.is(classBreak)) {
			break
		}
		n += size
	}
	return n
}
