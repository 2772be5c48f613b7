package tokenizer

import "unicode/utf8"

// wordPiece covers a word greedily with the longest tokens, from the left.
type wordPiece struct {
	first    map[string]int32 // tokens that begin a word
	rest     map[string]int32 // tokens that continue one, without their prefix
	longest  int              // bytes of the longest key of either
	unk      int32            // what a word becomes that cannot be covered
	maxChars int              // longer words become unk
}

// newWordPiece sorts a vocabulary's tokens by their place in a word.
func newWordPiece(v *vocab, prefix string, unk int32, maxChars int) *wordPiece {
	m := &wordPiece{first: v.ids, rest: make(map[string]int32), unk: unk, maxChars: maxChars}
	for token, id := range v.ids {
		m.longest = max(m.longest, len(token))
		if len(token) > len(prefix) && token[:len(prefix)] == prefix {
			m.rest[token[len(prefix):]] = id
		}
	}
	return m
}

func (m *wordPiece) encode(dst []int32, word []byte, _ *Scratch) []int32 {
	if len(word) > m.maxChars && utf8.RuneCount(word) > m.maxChars {
		return append(dst, m.unk)
	}
	begun := len(dst)
	table := m.first
	for start := 0; start < len(word); table = m.rest {
		end := min(len(word), start+m.longest)
		for end < len(word) && !utf8.RuneStart(word[end]) {
			end--
		}
		for ; end > start; end-- {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			if id, ok := table[string(word[start:end])]; ok {
				dst = append(dst, id)
				break
			}
		}
		if end <= start {
			return append(dst[:begun], m.unk)
		}
		start = end
	}
	return dst
}
