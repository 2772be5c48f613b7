package tokenizer

import (
	"unicode/utf8"
)

// bpe joins symbols by ranked merges.
type bpe struct {
	vocab        *vocab
	merges       *pairTable
	bytes        *[256]int32          // byte-level: each byte's symbol, -1 where the vocabulary lacks it; nil: symbols are characters
	byteFallback *[256]int32          // ids of <0x00>..<0xFF> for characters that the vocabulary lacks, -1 for none; nil: not asked for
	ascii        [utf8.RuneSelf]int32 // symbols of ASCII characters, -1 where the vocabulary lacks them
	prefix       string               // continuing_subword_prefix: spells a symbol that is not the first
	suffix       string               // end_of_word_suffix: spells the last symbol
	unk          int32                // -1: characters that the vocabulary lacks are dropped
	fuseUnk      bool
	whole        bool // ignore_merges: a piece that is a token is that token
}

// bpeScratch holds one word's symbols, first as a list in order, then linked as merges remove some.
type bpeScratch struct {
	ids   []int32  // symbol ids, in text order
	ranks []uint32 // short words: rank of (i, i+1)
	next  []int32  // long words: index of the next live symbol, -1 at the end
	prev  []int32
	heap  []uint64 // long words: rank<<32 | index of the left symbol, least first
	spell []byte   // a symbol's spelling with prefix or suffix, or a byte-level word's
}

// longWord is where the heap begins to pay: the scan below it is quadratic.
const longWord = 48

func (m *bpe) encode(dst []int32, word []byte, s *Scratch) []int32 {
	b := &s.bpe
	if m.whole {
		spelled := word
		if m.bytes != nil {
			b.spell = appendByteLevel(b.spell[:0], word)
			spelled = b.spell
		}
		if id, ok := m.vocab.known(spelled); ok {
			return append(dst, id)
		}
	}
	b.ids = m.symbols(b.ids[:0], word, b)
	switch {
	case len(b.ids) < 2:
	case len(b.ids) <= longWord:
		m.mergeShort(b)
	default:
		return m.mergeLong(dst, b)
	}
	return append(dst, b.ids...)
}

// symbols appends the word's first symbols.
func (m *bpe) symbols(ids []int32, word []byte, b *bpeScratch) []int32 {
	if m.bytes != nil && m.prefix == "" && m.suffix == "" && m.unk < 0 && m.byteFallback == nil {
		for _, c := range word {
			if id := m.bytes[c]; id >= 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	unk := false // an unknown symbol waits: it may be joined with the next
	flush := func() {
		if unk {
			ids = append(ids, m.unk)
			unk = false
		}
	}
	for i, n := 0, 0; i < len(word); i += n {
		var id int32
		id, n = m.symbol(word, i, b)
		switch {
		case id >= 0:
			flush()
			ids = append(ids, id)
		case m.byteFallback != nil && hasAll(m.byteFallback, b.spell):
			for _, c := range b.spell { // prefix and suffix too: so the reference does
				ids = append(ids, m.byteFallback[c])
			}
		case m.unk >= 0:
			if !m.fuseUnk {
				flush()
			}
			unk = true
		}
	}
	flush()
	return ids
}

// symbol looks up the symbol at word[i:], and says how many bytes it covers. Where it returns -1 the
// symbol's spelling is in b.spell.
func (m *bpe) symbol(word []byte, i int, b *bpeScratch) (id int32, n int) {
	if m.bytes != nil {
		n = 1
	} else {
		_, n = utf8.DecodeRune(word[i:])
	}
	plain := (i == 0 || m.prefix == "") && (i+n < len(word) || m.suffix == "")
	switch {
	case plain && m.bytes != nil && m.bytes[word[i]] >= 0:
		return m.bytes[word[i]], n
	case plain && word[i] < utf8.RuneSelf && m.ascii[word[i]] >= 0:
		return m.ascii[word[i]], n
	}
	b.spell = b.spell[:0]
	if i > 0 {
		b.spell = append(b.spell, m.prefix...)
	}
	if m.bytes != nil {
		b.spell = appendByteLevel(b.spell, word[i:i+n])
	} else {
		b.spell = append(b.spell, word[i:i+n]...)
	}
	if i+n == len(word) {
		b.spell = append(b.spell, m.suffix...)
	}
	if id, ok := m.vocab.known(b.spell); ok {
		return id, n
	}
	return -1, n
}

// mergeShort joins the pair of least rank, leftmost first, until none is left.
func (m *bpe) mergeShort(b *bpeScratch) {
	ids, ranks := b.ids, b.ranks[:0]
	for i := 0; i+1 < len(ids); i++ {
		rank, _ := m.merges.get(ids[i], ids[i+1])
		ranks = append(ranks, rank)
	}
	for len(ranks) > 0 {
		best := 0
		for i, rank := range ranks {
			if rank < ranks[best] {
				best = i
			}
		}
		if ranks[best] == noRank {
			break
		}
		_, ids[best] = m.merges.get(ids[best], ids[best+1])
		ids = append(ids[:best+1], ids[best+2:]...)
		ranks = append(ranks[:best], ranks[best+1:]...)
		if best < len(ranks) {
			ranks[best], _ = m.merges.get(ids[best], ids[best+1])
		}
		if best > 0 {
			ranks[best-1], _ = m.merges.get(ids[best-1], ids[best])
		}
	}
	b.ids, b.ranks = ids, ranks
}

// mergeLong does the same in n log n: a heap of pairs, the stale ones recognised when they come up.
func (m *bpe) mergeLong(dst []int32, b *bpeScratch) []int32 {
	ids := b.ids
	b.next, b.prev, b.heap = b.next[:0], b.prev[:0], b.heap[:0]
	for i := range ids {
		b.next = append(b.next, int32(i+1))
		b.prev = append(b.prev, int32(i-1))
	}
	b.next[len(ids)-1] = -1
	for i := 0; i+1 < len(ids); i++ {
		m.push(b, int32(i))
	}
	const dead = -1 // a symbol that its left neighbour has swallowed
	for len(b.heap) > 0 {
		top := b.pop()
		at := int32(uint32(top))
		if ids[at] == dead || b.next[at] < 0 {
			continue
		}
		right := b.next[at]
		rank, merged := m.merges.get(ids[at], ids[right])
		if rank != uint32(top>>32) {
			continue
		}
		ids[at], ids[right] = merged, dead
		b.next[at] = b.next[right]
		if after := b.next[at]; after >= 0 {
			b.prev[after] = at
			m.push(b, at)
		}
		if before := b.prev[at]; before >= 0 {
			m.push(b, before)
		}
	}
	for i := int32(0); i >= 0; i = b.next[i] {
		dst = append(dst, ids[i])
	}
	return dst
}

// push enters the pair whose left symbol is at i, if a merge joins it.
func (m *bpe) push(b *bpeScratch, i int32) {
	rank, _ := m.merges.get(b.ids[i], b.ids[b.next[i]])
	if rank == noRank {
		return
	}
	h := append(b.heap, uint64(rank)<<32|uint64(uint32(i)))
	for child := len(h) - 1; child > 0; {
		parent := (child - 1) / 2
		if h[parent] <= h[child] {
			break
		}
		h[parent], h[child] = h[child], h[parent]
		child = parent
	}
	b.heap = h
}

func (b *bpeScratch) pop() uint64 {
	h := b.heap
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for parent := 0; ; {
		child := 2*parent + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[parent] <= h[child] {
			break
		}
		h[parent], h[child] = h[child], h[parent]
		parent = child
	}
	b.heap = h
	return top
}
