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
			return nil, fmt.Errorf("nothing is left of %.100q when it is normalized, expected a text, or \"normalized\": false", v.spelling(t.id))
		}
		if room -= len(buf); len(buf) > maxAddedToken || room < 0 {
			return nil, fmt.Errorf("added tokens take more than %d bytes when normalized, or one more than %d", maxNormalized, maxAddedToken)
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

// newMatcher sorts the entries and looks at their beginnings. Empty patterns match nothing.
func newMatcher(entries []addedToken, v *vocab, spelled map[int32]string) matcher {
	m := matcher{v: v, spelled: spelled}
	m.entries = slices.DeleteFunc(entries, func(e addedToken) bool { return len(m.pattern(e)) == 0 })
	if len(m.entries) == 0 {
		return m
	}
	slices.SortStableFunc(m.entries, func(a, b addedToken) int { return bytes.Compare(m.pattern(a), m.pattern(b)) })
	m.entries = slices.CompactFunc(m.entries, func(a, b addedToken) bool { return bytes.Equal(m.pattern(a), m.pattern(b)) })
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

// longest is the longest of some entries that text begins with, or -1. All begin with its first byte.
func (m *matcher) longest(text []byte, low, high int) int {
	found := -1
	for depth := 1; low < high; depth++ {
		if low+1 == high { // what is left of one is compared at once
			if pattern := m.pattern(m.entries[low]); bytes.HasPrefix(text[depth:], pattern[depth:]) {
				found = low
			}
			break
		}
		if len(m.pattern(m.entries[low])) == depth { // the shortest comes first
			found = low
			low++
		}
		if depth == len(text) {
			break
		}
		// Those that go on with the next byte lie together.
		c := text[depth]
		at := func(i int) byte { return m.pattern(m.entries[i])[depth] }
		begin, end := low, high
		for begin < end {
			if mid := (begin + end) / 2; at(mid) < c {
				begin = mid + 1
			} else {
				end = mid
			}
		}
		for low, end = begin, high; begin < end; {
			if mid := (begin + end) / 2; at(mid) <= c {
				begin = mid + 1
			} else {
				end = mid
			}
		}
		high = begin
	}
	return found
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
