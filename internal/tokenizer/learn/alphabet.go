package learn

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"hotpath/internal/tokenizer"
)

// continuing is WordPiece's mark of tokens that are not the first of a word.
const continuing = "##"

// newMerger gives special tokens and the alphabet their ids and spells all
// words.
func newMerger(w *words, o Options, bytes bool) (*merger, error) {
	m := &merger{ids: map[string]int32{}, floor: int64(o.MinFrequency), symbols: []int32{boundary}, words: []int32{0}}
	for _, s := range o.Special {
		m.enter(s)
	}
	if len(w.text)+2*len(w.count) > maxSymbols {
		return nil, fmt.Errorf("%d bytes of different words, expected at most %d: choose a pre-tokenizer that cuts texts into shorter words: %w", len(w.text), maxSymbols, ErrOptions)
	}
	var symbols func(word []byte, dst []int32) []int32
	if bytes {
		used := allBytes()
		if recipes[o.Kind].chars {
			used = w.bytes()
		}
		symbols = m.byteAlphabet(used)
	} else {
		if recipes[o.Kind].model == "WordPiece" {
			m.prefix = continuing
		}
		symbols = m.charAlphabet(w, o.LimitAlphabet)
	}
	if n := len(m.tokens); n > o.VocabSize {
		return nil, fmt.Errorf("vocab size %d, expected at least %d: special tokens, and an alphabet of %d: %w", o.VocabSize, n, n-len(o.Special), ErrOptions)
	}
	var buf []int32
	for i, count := range w.count {
		buf = symbols(w.word(i), buf[:0])
		m.addWord(buf, count)
	}
	return m, nil
}

// enter is the id of a token of one symbol.
func (m *merger) enter(text string) int32 {
	id, ok := m.ids[text]
	if !ok {
		id = int32(len(m.tokens))
		m.tokens, m.length, m.ids[text] = append(m.tokens, text), append(m.length, 1), id
	}
	return id
}

// allBytes lists all bytes.
func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// bytes lists the bytes that the words have.
func (w *words) bytes() []byte {
	return slices.DeleteFunc(allBytes(), func(b byte) bool { return bytes.IndexByte(w.text, b) < 0 })
}

// byteAlphabet has the bytes of a list, ordered by the characters that spell them.
func (m *merger) byteAlphabet(list []byte) func(word []byte, dst []int32) []int32 {
	slices.SortFunc(list, func(a, b byte) int { return cmp.Compare(tokenizer.ByteRune(a), tokenizer.ByteRune(b)) })
	var ids [256]int32
	for _, b := range list {
		ids[b] = m.enter(string(tokenizer.ByteRune(b)))
	}
	return func(word []byte, dst []int32) []int32 {
		for _, b := range word {
			dst = append(dst, ids[b])
		}
		return dst
	}
}

// charAlphabet has the most frequent characters, ordered by their code points,
// and then those that continue words, in the order in which sorted words have
// them: Hugging Face's trainer numbers them by words in no certain order.
// Characters that it lacks are left out of words.
func (m *merger) charAlphabet(w *words, limit int) func(word []byte, dst []int32) []int32 {
	counts := map[rune]int64{}
	for i, n := range w.count {
		word := w.word(i)
		for at := 0; at < len(word); {
			r, size := utf8.DecodeRune(word[at:])
			counts[r] += n
			at += size
		}
	}
	kept := slices.SortedFunc(maps.Keys(counts), func(a, b rune) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	kept = kept[:min(len(kept), limit)]
	slices.Sort(kept)
	first, other := map[rune]int32{}, map[rune]int32{}
	for _, r := range kept {
		first[r] = m.enter(string(r))
	}
	if m.prefix == "" {
		other = first
	} else {
		for _, i := range w.sorted() {
			_, skip := utf8.DecodeRune(w.word(i))
			for _, r := range string(w.word(i)[skip:]) {
				if _, seen := other[r]; !seen {
					if _, ok := first[r]; ok {
						other[r] = m.enter(m.prefix + string(r))
					}
				}
			}
		}
	}
	return func(word []byte, dst []int32) []int32 {
		for at := 0; at < len(word); {
			r, size := utf8.DecodeRune(word[at:])
			table := first
			if at > 0 {
				table = other
			}
			if id, ok := table[r]; ok {
				dst = append(dst, id)
			}
			at += size
		}
		return dst
	}
}
