package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// Character classes come from tables that were measured on the reference implementations, one code
// point after the other (scripts/goldens_tokenizer.py): they follow several versions of Unicode at
// once, and so does every published model's training data. Tables of our own also keep ids the same
// when Go moves to a new Unicode.

type class uint16

const (
	classLetter     class = 1 << iota // \p{L} of regular expressions
	classNumber                       // \p{N} of regular expressions
	classDigit                        // what the Digits pre-tokenizer cuts
	classPunct                        // what BERT cuts off words
	classRegexPunct                   // \p{P} of regular expressions
	classWord                         // \w
	classDrop                         // what BERT's clean_text removes
	classNonspace                     // marks that BERT's strip_accents removes
	classMark                         // marks that the StripAccents normalizer removes
	classSpace                        // White_Space, and \s
	classVerbatim                     // newer than the reference's normalization tables: left as it is
	classExtend                       // goes on with the grapheme before it
	classPrepend                      // the next character goes on with its grapheme
	classBreak                        // a grapheme of its own
	classUpper                        // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]: what may begin a word with case
	classLower                        // [\p{Ll}\p{Lm}\p{Lo}\p{M}]: what may end it
)

// classTable holds first and last code point of each range of a class, in turn.
type classTable struct {
	class  class
	ranges []rune
}

// pages holds the classes of 256 code points each; pages of code points without any class are shared.
var pages = func() [0x1100]*[256]class {
	var p [0x1100]*[256]class
	empty := new([256]class)
	for i := range p {
		p[i] = empty
	}
	cased := []classTable{
		{classUpper, union(category("Lu"), category("Lt"), category("Lm"), category("Lo"), prefixed("M"))},
		{classLower, union(category("Ll"), category("Lm"), category("Lo"), prefixed("M"))},
	}
	for _, t := range slices.Concat(classTables, graphemeTables, cased) {
		for i := 0; i < len(t.ranges); i += 2 {
			for r := t.ranges[i]; r <= t.ranges[i+1]; r++ {
				if p[r>>8] == empty {
					p[r>>8] = new([256]class)
				}
				p[r>>8][r&0xFF] |= t.class
			}
		}
	}
	return p
}()

// classOf gives the classes of a code point that utf8.DecodeRune returned.
func classOf(r rune) class { return pages[r>>8][r&0xFF] }

func (c class) is(set class) bool { return c&set != 0 }

func isSpace(r rune) bool { return classOf(r).is(classSpace) }

func isWord(r rune) bool { return classOf(r).is(classWord) }

// isHan tells which characters BERT puts spaces around.
func isHan(r rune) bool {
	return r >= 0x3400 && (r <= 0x4DBF || r >= 0x4E00 && r <= 0x9FFF || r >= 0xF900 && r <= 0xFAFF ||
		r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF || r >= 0x2F800 && r <= 0x2FA1F)
}

// lowerRange is first, first+step, ... last, each of whose lower case is delta away.
type lowerRange struct{ first, last, step, delta rune }

// appendLower appends the reference's lower case of one character.
func appendLower(dst []byte, r rune) []byte {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return append(dst, byte(r))
	}
	if r == 0x130 { // the only one whose lower case is two characters
		return append(dst, "i\u0307"...)
	}
	i, j := 0, len(lowerTable)
	for i < j {
		if mid := (i + j) / 2; lowerTable[mid].last < r {
			i = mid + 1
		} else {
			j = mid
		}
	}
	if i < len(lowerTable) {
		if x := lowerTable[i]; r >= x.first && (r-x.first)%x.step == 0 {
			r += x.delta
		}
	}
	return utf8.AppendRune(dst, r)
}
