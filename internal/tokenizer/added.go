package tokenizer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"
	"unsafe"
)

// addedToken is a token that is matched in the text as a whole, before the model sees it.
type addedToken struct {
	id    int32
	flags addedFlags
}

type addedFlags uint8

const (
	addedSpecial    addedFlags = 1 << iota // left out by Decode when asked, and matched only with ParseSpecial
	addedNormalized                        // matched after normalization, in its normalized spelling
	addedSingleWord
	addedLstrip
	addedRstrip
)

const (
	// maxAddedToken bounds an added token's length in bytes: matching may cost text times this.
	maxAddedToken = 4096
	// maxNormalized bounds what the normalized spellings of all added tokens take.
	maxNormalized = 1 << 20
)

// addedTokens holds the two sets that a text is cut by, before and after normalization.
type addedTokens struct {
	raw, normalized matcher
	added, special  bitset           // by id
	spelled         map[int32]string // normalized spellings, where they differ: so the reference decodes them
}

// skips tells whether Decode leaves a token out when asked. A special token whose normalized spelling is
// another one stays: the reference looks for what it decodes to among special tokens.
func (a *addedTokens) skips(id int32) bool {
	_, other := a.spelled[id]
	return a.special.has(id) && !other
}

type bitset []uint64

func (b bitset) has(i int32) bool {
	return i >= 0 && int(i)>>6 < len(b) && b[i>>6]>>(uint(i)&63)&1 != 0
}

func (b bitset) set(i int32) { b[i>>6] |= 1 << (uint(i) & 63) }

// newAddedTokens takes the list in the file's order, and keeps it. The last one of an id counts.
func newAddedTokens(list []addedToken, norm normalizer, v *vocab) (*addedTokens, error) {
	a := &addedTokens{added: make(bitset, len(v.at)/64+1), special: make(bitset, len(v.at)/64+1)}
	slices.SortStableFunc(list, func(x, y addedToken) int { return cmp.Compare(x.id, y.id) })
	keep := list[:0]
	for i, t := range list {
		if len(v.spelling(t.id)) > maxAddedToken {
			return nil, fmt.Errorf("an added token is %d bytes long, expected at most %d", len(v.spelling(t.id)), maxAddedToken)
		}
		if i+1 < len(list) && list[i+1].id == t.id {
			list[i+1].flags |= t.flags & addedSpecial // once special, always special: so the reference
			continue
		}
		if t.flags&addedSpecial != 0 {
			a.special.set(t.id)
		}
		a.added.set(t.id)
		keep = append(keep, t)
	}
	room, s := maxNormalized, new(Scratch)
	var buf []byte
	for _, t := range keep {
		if norm == nil || t.flags&addedNormalized == 0 {
			continue
		}
		if buf = norm.normalize(buf[:0], v.spelling(t.id), s); bytes.Equal(buf, v.spelling(t.id)) {
			continue
		}
		if len(buf) == 0 { // the reference finds it between any two characters
			return nil, fmt.Errorf("normalizing the added token %.100q leaves nothing, expected some text, or \"normalized\": false", v.spelling(t.id))
		}
		if room -= len(buf); len(buf) > maxAddedToken || room < 0 {
			return nil, fmt.Errorf("the normalized added tokens have more than %d bytes, or one of them more than %d", maxNormalized, maxAddedToken)
		}
		if a.spelled == nil {
			a.spelled = make(map[int32]string)
		}
		a.spelled[t.id] = string(buf)
	}
	slices.SortStableFunc(keep, func(x, y addedToken) int {
		return cmp.Compare(x.flags&addedNormalized, y.flags&addedNormalized)
	})
	cut := slices.IndexFunc(keep, func(t addedToken) bool { return t.flags&addedNormalized != 0 })
	if cut < 0 {
		cut = len(keep)
	}
	a.raw = newMatcher(keep[:cut:cut], v, nil)
	a.normalized = newMatcher(keep[cut:], v, a.spelled)
	return a, nil
}

// matcher finds the leftmost longest of its tokens in a sorted list.
type matcher struct {
	entries []addedToken // by pattern
	within  []beginning  // for each entry
	first   *[256]firstByte
	v       *vocab
	spelled map[int32]string
}

// pattern is what an entry looks like in a text.
func (m *matcher) pattern(t addedToken) []byte {
	if s, ok := m.spelled[t.id]; ok {
		return unsafe.Slice(unsafe.StringData(s), len(s))
	}
	return m.v.spelling(t.id)
}

// firstByte is what a token may look like that begins with a byte.
type firstByte struct {
	begin, end int32     // its entries
	alone      bool      // one of them is that byte alone
	second     [4]uint64 // the bytes that may follow, where it is not alone
}

// beginning leads from an entry to those that its pattern begins with, -1 for none: the longest, and one
// further on, so that the way to any of them has few steps.
type beginning struct{ next, far int32 }

// beginnings finds them. Entries are sorted, so those that a pattern begins with come before it.
func (m *matcher) beginnings() []beginning {
	out := make([]beginning, len(m.entries))
	count := make([]int32, len(m.entries)) // of the patterns that a pattern begins with
	for i := range out {
		at := int32(i - 1)
		for at >= 0 && !bytes.HasPrefix(m.pattern(m.entries[i]), m.pattern(m.entries[at])) {
			at = out[at].next
		}
		out[i] = beginning{at, at}
		if at < 0 {
			continue
		}
		count[i] = count[at] + 1
		// Where two steps are of the same length, this one is as long as both.
		if far := out[at].far; far >= 0 && out[far].far >= 0 && count[at]-count[far] == count[far]-count[out[far].far] {
			out[i].far = out[far].far
		}
	}
	return out
}

// newMatcher sorts the entries and looks at their beginnings. Empty patterns match nothing.
func newMatcher(entries []addedToken, v *vocab, spelled map[int32]string) matcher {
	m := matcher{v: v, spelled: spelled}
	m.entries = slices.DeleteFunc(entries, func(e addedToken) bool { return len(m.pattern(e)) == 0 })
	if len(m.entries) == 0 {
		return m
	}
	slices.SortStableFunc(m.entries, func(a, b addedToken) int { return bytes.Compare(m.pattern(a), m.pattern(b)) })
	m.entries = slices.CompactFunc(m.entries, func(a, b addedToken) bool { return bytes.Equal(m.pattern(a), m.pattern(b)) })
	m.within = m.beginnings()
	m.first = new([256]firstByte)
	for i, e := range m.entries {
		pattern := m.pattern(e)
		f := &m.first[pattern[0]]
		if f.end == 0 {
			f.begin = int32(i)
		}
		f.end = int32(i + 1)
		if len(pattern) == 1 {
			f.alone = true
		} else {
			f.second[pattern[1]>>6] |= 1 << (pattern[1] & 63)
		}
	}
	return m
}

// find gives the next match at or after from; ok is false if there is none.
func (m *matcher) find(text []byte, from int, o *Options) (start, end int, found addedToken, ok bool) {
	for start = from; start < len(text); start++ {
		if start%placesBetween == 0 && o.ended() {
			break
		}
		f := &m.first[text[start]]
		if f.end == 0 {
			continue
		}
		if !f.alone {
			if start+1 == len(text) {
				break
			}
			if c := text[start+1]; f.second[c>>6]>>(c&63)&1 == 0 {
				continue
			}
		}
		if i := m.longest(text[start:], int(f.begin), int(f.end)); i >= 0 {
			found = m.entries[i]
			return start, start + len(m.pattern(found)), found, true
		}
	}
	return 0, 0, found, false
}

// longest is the longest of the entries in [low, high) that text begins with, or -1. All begin with its first
// byte. Text is compared as a whole with few entries: comparing byte by byte costs text times their length.
func (m *matcher) longest(text []byte, low, high int) int {
	// Whatever the text begins with comes before it, and the last entry that does begins with that too.
	begin := low
	for begin < high {
		if mid := (begin + high) / 2; bytes.Compare(m.pattern(m.entries[mid]), text) <= 0 {
			begin = mid + 1
		} else {
			high = mid
		}
	}
	at := int32(begin - 1)
	if begin == low {
		return -1
	}
	at, _ = m.upTo(at, shared(m.pattern(m.entries[at]), text))
	return int(at)
}

// upTo is the longest entry of at most so many bytes that entry at begins with, or is,
// or -1, and the number of entries that it looked at: few, because each knows one far
// from it.
func (m *matcher) upTo(at int32, most int) (entry int32, looks int) {
	long := func(i int32) bool { return i >= 0 && len(m.pattern(m.entries[i])) > most }
	for ; long(at); looks++ {
		if w := m.within[at]; long(w.far) {
			at = w.far
		} else {
			at = w.next
		}
	}
	return at, looks
}

// shared is how many bytes two texts begin with alike.
func shared(a, b []byte) int {
	a, b = a[:min(len(a), len(b))], b[:min(len(a), len(b))]
	n := 0
	for step := 512; step > 0; step /= 8 { // most of it a block at a time
		for n+step <= len(a) && bytes.Equal(a[n:n+step], b[n:n+step]) {
			n += step
		}
	}
	return n
}

// next gives the next added token of text at or after from: what it covers, and its id. everything before
// done is encoded. spaces is the last run of spaces that was looked at, so that no space is looked at twice
// where tokens are spaces themselves. ok is false if there is none.
func (m *matcher) next(text []byte, from, done int, spaces *span, o *Options) (start, end, resume int, id int32, ok bool) {
	if m.first == nil {
		return 0, 0, 0, 0, false
	}
	for from < len(text) {
		start, end, found, ok := m.find(text, from, o)
		if !ok {
			break
		}
		from = end
		flags := found.flags
		if flags&addedSpecial != 0 && !o.ParseSpecial {
			continue
		}
		if flags&addedSingleWord != 0 && (endsWithWord(text[:start]) || startsWithWord(text[end:])) {
			continue
		}
		if flags&addedLstrip != 0 {
			start = max(start-spaceBefore(text[min(start, done):start]), done)
		}
		if flags&addedRstrip != 0 {
			if end < spaces.start || end > spaces.end {
				*spaces = span{end, end + spaceAfter(text[end:])}
			}
			end = spaces.end
		}
		return start, end, from, found.id, true
	}
	return 0, 0, 0, 0, false
}

func startsWithWord(text []byte) bool {
	r, n := utf8.DecodeRune(text)
	return n > 0 && isWord(r)
}

func endsWithWord(text []byte) bool {
	r, n := utf8.DecodeLastRune(text)
	return n > 0 && isWord(r)
}

// spaceBefore is the number of bytes of whitespace that text ends with.
func spaceBefore(text []byte) int {
	end := len(text)
	for end > 0 {
		r, n := utf8.DecodeLastRune(text[:end])
		if !isSpace(r) {
			break
		}
		end -= n
	}
	return len(text) - end
}

// spaceAfter is the number of bytes of whitespace that text begins with.
func spaceAfter(text []byte) int {
	end := 0
	for end < len(text) {
		r, n := utf8.DecodeRune(text[end:])
		if !isSpace(r) {
			break
		}
		end += n
	}
	return end
}
