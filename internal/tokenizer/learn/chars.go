package learn

import (
	"cmp"
	"maps"
	"slices"
	"unicode/utf8"

	"hotpath/internal/tokenizer"
)

// characters makes one token of each character of the words that has several
// bytes, by merges of its bytes from the left: the most frequent characters, as
// many as limit and a vocabulary of size tokens have room for. The bytes of the
// words are tokens already, so the words come back from their tokens, also where
// a character has no token.
func (m *merger) characters(w *words, limit, size int) {
	counts := map[rune]int64{}
	for i, n := range w.count {
		for word := w.word(i); len(word) > 0; {
			r, width := utf8.DecodeRune(word)
			if width > 1 { // invalid bytes have a width of 1
				counts[r] += n
			}
			word = word[width:]
		}
	}
	kept := slices.SortedFunc(maps.Keys(counts), func(a, b rune) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	// A character needs a token for each of its beginnings, which characters share.
	wanted, room := map[string]bool{}, size-len(m.tokens)
	for _, r := range kept[:min(len(kept), limit)] {
		starts := beginnings(r)
		fresh := 0
		for _, s := range starts {
			if !wanted[s] {
				fresh++
			}
		}
		if fresh > room {
			break
		}
		for _, s := range starts {
			wanted[s] = true
		}
		room -= fresh
	}
	// Shorter beginnings come first, because longer ones are made of them.
	for _, s := range slices.SortedFunc(maps.Keys(wanted), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}) {
		left, right := m.ids[spelt(s[:len(s)-1])], m.ids[spelt(s[len(s)-1:])]
		m.enter(spelt(s))
		m.merges = append(m.merges, [2]int32{left, right})
	}
}

// beginnings are the first two bytes of a character, the first three, and so on
// to all of them.
func beginnings(r rune) []string {
	s := string(r)
	var list []string
	for n := 2; n <= len(s); n++ {
		list = append(list, s[:n])
	}
	return list
}

// spelt is how byte-level tokenizers write bytes.
func spelt(s string) string {
	var out []rune
	for i := range len(s) {
		out = append(out, tokenizer.ByteRune(s[i]))
	}
	return string(out)
}
