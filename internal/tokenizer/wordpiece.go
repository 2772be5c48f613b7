package tokenizer

import "unicode/utf8"

// wordPiece covers a word greedily with the longest tokens, from the left.
type wordPiece struct {
	vocab    *vocab
	begin    *beginnings
	prefix   string // of tokens that continue a word
	seed     uint64 // its hash
	unk      int32  // what a word becomes that cannot be covered
	maxChars int    // longer words become unk
}

func newWordPiece(v *vocab, prefix string, unk int32, maxChars int) (*wordPiece, error) {
	begin, err := newBeginnings(v)
	return &wordPiece{
		vocab: v, begin: begin,
		prefix: prefix, seed: hashBytes(hashSeed, prefix), unk: unk, maxChars: maxChars,
	}, err
}

func (m *wordPiece) encode(dst []int32, word []byte, s *Scratch) []int32 {
	if len(word) > m.maxChars && utf8.RuneCount(word) > m.maxChars {
		return append(dst, m.unk)
	}
	begun := len(dst)
	id, n := m.begin.longest(m.vocab, hashSeed, "", word)
	for {
		if id < 0 || (len(dst)-begun)%placesBetween == placesBetween-1 && s.options.ended() {
			return append(dst[:begun], m.unk)
		}
		dst = append(dst, id)
		if word = word[n:]; len(word) == 0 {
			return dst
		}
		id, n = m.begin.longest(m.vocab, m.seed, m.prefix, word)
	}
}
