package tokenizer

import "hash/maphash"

// wordCache remembers the ids of recent words: most words of a text are among few. It is direct-mapped
// and of fixed size (256 KiB), belongs to one Scratch, and so needs no lock and no eviction.
type wordCache struct {
	model   model // whose ids these are
	entries [cacheSize]cacheEntry
}

const (
	cacheSize = 4096
	cacheWord = 30 // longer words are rare
	cacheIDs  = 8
)

// cacheEntry is one cache line.
type cacheEntry struct {
	length, count uint8
	word          [cacheWord]byte
	ids           [cacheIDs]int32
}

var cacheSeed = maphash.MakeSeed()

// encode is model.encode through the cache.
func (c *wordCache) encode(dst []int32, m model, word []byte, s *Scratch) []int32 {
	if len(word) > cacheWord {
		return m.encode(dst, word, s)
	}
	if c.model != m {
		*c = wordCache{model: m}
	}
	e := &c.entries[maphash.Bytes(cacheSeed, word)%cacheSize]
	if string(e.word[:e.length]) == string(word) {
		return append(dst, e.ids[:e.count]...)
	}
	begun := len(dst)
	dst = m.encode(dst, word, s)
	if ids := dst[begun:]; len(ids) <= cacheIDs {
		e.length, e.count = uint8(copy(e.word[:], word)), uint8(copy(e.ids[:], ids))
	}
	return dst
}
