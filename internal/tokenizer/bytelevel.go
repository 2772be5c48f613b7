package tokenizer

import "unicode/utf8"

// Byte-level BPE spells every byte as one printable character, so that a vocabulary can be written
// down as text: printable Latin-1 stands for itself, the others are U+0100 and on, in order.

var (
	byteRunes [256]rune
	runeBytes [0x144]int16 // the way back: -1 for characters that stand for no byte
)

func init() {
	for i := range runeBytes {
		runeBytes[i] = -1
	}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r = next
			next++
		}
		byteRunes[b] = r
		runeBytes[r] = int16(b)
	}
}

// appendByteLevel spells raw bytes.
func appendByteLevel(dst, raw []byte) []byte {
	for _, b := range raw {
		dst = utf8.AppendRune(dst, byteRunes[b])
	}
	return dst
}

// appendBytes appends the bytes that token spells, or the token itself if one of its characters
// stands for no byte.
func appendBytes(dst, token []byte) []byte {
	start := len(dst)
	for _, r := range string(token) {
		if r >= rune(len(runeBytes)) || runeBytes[r] < 0 {
			return append(dst[:start], token...)
		}
		dst = append(dst, byte(runeBytes[r]))
	}
	return dst
}
