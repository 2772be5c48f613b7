package tokenizer

import "unicode/utf8"

// patternScratch holds which states lead to a match, a byte a state: 1 if it does.
type patternScratch struct {
	none  []uint8 // [sets] the members of no character
	ends  []uint8 // [blocks][states] at the end of each block
	block []uint8 // [bytes of a block + 1][states]
}

// blockBytes is how much of the notes about one block of text we keep; the text's other blocks are noted
// again when the walk gets there, so that a long text needs little more memory than it has itself.
const blockBytes = 1 << 18

// finding is one walk over a piece of text.
type finding struct {
	*pattern
	text   []byte
	s      *patternScratch
	size   int // of a block, in bytes of the text
	b      int // the block that s.block is about,
	lo, hi int // and the places where it begins and ends
}

// find appends every match, left to right. An empty match just after another one is none.
func (p *pattern) find(text []byte, s *Scratch, out []span) []span {
	f := finding{pattern: p, text: text, s: &s.pattern, size: blockBytes / len(p.states)}
	return f.all(out)
}

func (f *finding) all(out []span) []span {
	f.begin()
	last := -1
	for i := 0; i <= len(f.text); {
		if f.at(i)[f.start] == 0 {
			i += f.width(i)
			continue
		}
		end := f.walk(i)
		if end == i && i == last {
			i += f.width(i)
			continue
		}
		out = append(out, span{i, end})
		i, last = end, end
	}
	return out
}

func resize(b []uint8, n int) []uint8 {
	if cap(b) < n {
		return make([]uint8, n)
	}
	return b[:n]
}

// width is the length of the character at i, 1 at the end.
func (f *finding) width(i int) int {
	if i >= len(f.text) || f.text[i] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRune(f.text[i:])
	return n
}

// walk is the end of the match that begins at i: of every two ways it takes the first that leads to a match.
func (f *finding) walk(i int) int {
	notes := f.at(i)
	for at := f.start; ; {
		s := &f.states[at]
		switch at = s.next; s.kind {
		case stateMatch:
			return i
		case stateChar:
			i += f.width(i)
			notes = f.at(i)
		case stateSplit:
			if notes[s.next] == 0 {
				at = s.other
			}
		}
	}
}

// boundary is the beginning of block b: no character lies on both sides.
func (f *finding) boundary(b int) int {
	i := min(b*f.size, len(f.text))
	for i < len(f.text) && !utf8.RuneStart(f.text[i]) {
		i++
	}
	return i
}

// at gives the notes of the place i. The walk goes forward, a character at a time, so that the next block
// is the one that is needed.
func (f *finding) at(i int) []uint8 {
	n := len(f.states)
	if i > f.hi {
		f.enter(f.b + 1)
	}
	return f.s.block[(i-f.lo)*n:][:n]
}

// enter fills s.block with the notes of a block whose end is known.
func (f *finding) enter(b int) {
	n := len(f.states)
	f.b, f.lo, f.hi = b, f.boundary(b), f.boundary(b+1)
	copy(f.s.block[(f.hi-f.lo)*n:], f.s.ends[b*n:][:n])
	f.note()
}

// begin fills s.ends, from the last block to the first, and enters the first.
func (f *finding) begin() {
	n := len(f.states)
	f.s.none = resize(f.s.none, len(f.sets))
	clear(f.s.none)
	f.s.block = resize(f.s.block, (min(f.size+utf8.UTFMax, len(f.text))+1)*n)
	blocks := max(1, (len(f.text)+f.size-1)/f.size)
	f.s.ends = resize(f.s.ends, blocks*n)
	before := f.s.none
	if len(f.text) > 0 {
		before, _ = f.before(f.text, len(f.text))
	}
	end := f.s.ends[(blocks-1)*n:]
	f.notePlace(end, end, f.s.none, before)
	for b := blocks - 1; b > 0; b-- {
		f.enter(b)
		copy(f.s.ends[(b-1)*n:], f.s.block[:n])
	}
	f.enter(0)
}

// note fills s.block, whose last place is known.
func (f *finding) note() {
	if f.lo == f.hi {
		return
	}
	n := len(f.states)
	before, size := f.before(f.text, f.hi)
	for i := f.hi; i > f.lo; {
		next := f.s.block[(i-f.lo)*n:][:n]
		i -= size
		here := before
		if before = f.s.none; i > 0 {
			before, size = f.before(f.text, i)
		}
		f.notePlace(f.s.block[(i-f.lo)*n:][:n], next, here, before)
	}
}

// notePlace fills the notes of one place from those of the next, the members of the character between them
// and of the one before. At the end of the text no set has the character, so that next may be anything.
func (f *finding) notePlace(notes, next, here, before []uint8) {
	notes[0] = 1 // the match
	for _, i := range f.chars {
		s := &f.states[i]
		notes[i] = here[s.set] & next[s.next]
	}
	for _, i := range f.others {
		s := &f.states[i]
		switch s.kind {
		case stateSplit:
			notes[i] = notes[s.next] | notes[s.other]
		case stateAhead:
			notes[i] = notes[s.next] & (notes[s.other] ^ s.not)
		case stateBehind:
			notes[i] = notes[s.next] & (before[s.set] ^ s.not)
		}
	}
}
