package tokenizer

import (
	"fmt"
	"slices"
	"sort"
	"unicode/utf8"

	"hotpath/internal/format"
)

// pattern is a regular expression as a graph of states. It matches as a backtracking matcher does (leftmost,
// then the first alternative), in time that is linear in the text, whatever the pattern and the text are:
// from the end of the text to its beginning we note for every place which states lead to a match, and then
// walk forward and never into a state that does not. A lookahead is one more state to note.
type pattern struct {
	states []state
	start  int32
	chars  []int32 // the states that take a character
	others []int32 // the others, each after those that it depends on at the same place
	sets   []charset
	least  int // characters of a match

	// Characters that no set tells apart have the same row of members: [len(sets)], 1 for the sets it is in.
	members [][]uint8
	ascii   [utf8.RuneSelf]uint16 // row by character
	first   []rune                // where the others' runs of equal characters begin,
	rows    []uint16              // and the row of each run
}

type stateKind uint8

const (
	stateMatch  stateKind = iota
	stateChar             // takes one character of set
	stateSplit            // goes to next, or else to other
	stateAhead            // goes to next if other matches from here (or, with not, does not)
	stateBehind           // goes to next if the character before is (or is not) in set
)

type state struct {
	kind        stateKind
	not         uint8 // 1: the opposite
	set         int32
	next, other int32
}

// maxStates bounds what one character of a text may cost.
const maxStates = 512

// compilePattern refuses, as not supported, what it cannot match exactly as the reference does.
func compilePattern(text string) (*pattern, error) {
	t, err := parsePattern(text)
	p := new(pattern)
	if err == nil {
		end := p.addState(state{kind: stateMatch})
		p.start = p.compile(t, end)
		if len(p.states) > maxStates {
			err = fmt.Errorf("more than %d states", maxStates)
		} else {
			err = p.order()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("regular expression %.200q: %w: %w", text, err, format.ErrUnsupported)
	}
	p.tellApart()
	p.least = shortestMatch(t)
	return p, nil
}

func (p *pattern) addState(s state) int32 {
	if len(p.states) <= maxStates { // beyond, nobody will look at them
		p.states = append(p.states, s)
	}
	return int32(len(p.states) - 1)
}

func (p *pattern) setID(s charset) int32 {
	i := slices.IndexFunc(p.sets, func(other charset) bool { return slices.Equal(s, other) })
	if i < 0 {
		i = len(p.sets)
		p.sets = append(p.sets, s)
	}
	return int32(i)
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// compile adds the states of t, which go on to next, and returns where they begin.
func (p *pattern) compile(t tree, next int32) int32 {
	switch t := t.(type) {
	case charTree:
		return p.addState(state{kind: stateChar, set: p.setID(t.set), next: next})
	case behindTree:
		return p.addState(state{kind: stateBehind, set: p.setID(t.set), not: bit(t.not), next: next})
	case aheadTree:
		return p.addState(state{kind: stateAhead, not: bit(t.not), next: next, other: p.compile(t.body, 0)}) // 0 is the match
	case chainTree:
		for _, part := range slices.Backward(t) {
			next = p.compile(part, next)
		}
		return next
	case choiceTree:
		start := p.compile(t[len(t)-1], next)
		for _, part := range slices.Backward(t[:len(t)-1]) {
			start = p.addState(state{kind: stateSplit, next: p.compile(part, next), other: start})
		}
		return start
	case repeatTree:
		return p.compileRepeat(t, next)
	}
	return next
}

func (p *pattern) compileRepeat(t repeatTree, next int32) int32 {
	branch := func(body, skip int32) state {
		if t.lazy {
			body, skip = skip, body
		}
		return state{kind: stateSplit, next: body, other: skip}
	}
	at, grows := next, len(p.states) <= maxStates
	if t.max < 0 {
		at = p.addState(state{kind: stateSplit})
		body := p.compile(t.body, at)
		p.states[at] = branch(body, next)
	}
	for i := t.min; i < t.max && grows; i++ {
		at = p.addState(branch(p.compile(t.body, at), next))
		grows = len(p.states) <= maxStates
	}
	for i := 0; i < t.min && grows; i++ {
		size := len(p.states)
		at = p.compile(t.body, at)
		grows = size < len(p.states) && len(p.states) <= maxStates // an empty body adds nothing, however often
	}
	return at
}

// order sorts the states by what they depend on at one place in the text. A repeated part that may be
// empty would depend on itself.
func (p *pattern) order() error {
	const busy, done = 1, 2
	marks := make([]uint8, len(p.states))
	var visit func(i int32) bool
	visit = func(i int32) bool {
		if marks[i] != 0 {
			return marks[i] == done
		}
		marks[i] = busy
		s := p.states[i]
		ok := true
		switch s.kind {
		case stateSplit, stateAhead:
			ok = visit(s.other) && visit(s.next)
		case stateBehind:
			ok = visit(s.next)
		}
		if marks[i] = done; s.kind > stateChar {
			p.others = append(p.others, i)
		}
		return ok
	}
	for i, s := range p.states {
		if s.kind == stateChar {
			p.chars = append(p.chars, int32(i))
		}
		if !visit(int32(i)) {
			return fmt.Errorf("a repeated part that may be empty")
		}
	}
	return nil
}

// tellApart groups all characters by the sets that they are in.
func (p *pattern) tellApart() {
	p.first = []rune{0, utf8.RuneSelf}
	for _, s := range p.sets {
		for i := 0; i < len(s); i += 2 {
			p.first = append(p.first, s[i], s[i+1]+1)
		}
	}
	slices.Sort(p.first)
	p.first = slices.Compact(p.first)
	known := map[string]uint16{}
	for _, r := range p.first {
		row := make([]uint8, len(p.sets))
		for i, s := range p.sets {
			if s.has(r) {
				row[i] = 1
			}
		}
		id, ok := known[string(row)]
		if !ok {
			id = uint16(len(p.members))
			known[string(row)] = id
			p.members = append(p.members, row)
		}
		p.rows = append(p.rows, id)
	}
	for c := range p.ascii {
		p.ascii[c] = p.rows[p.rangeOf(rune(c))]
	}
}

// rangeOf is the place in p.first of the run of equal characters that r is in.
func (p *pattern) rangeOf(r rune) int {
	return sort.Search(len(p.first), func(i int) bool { return p.first[i] > r }) - 1
}

// before gives the members of the character that ends at text[:i], and its length.
func (p *pattern) before(text []byte, i int) (members []uint8, n int) {
	if c := text[i-1]; c < utf8.RuneSelf {
		return p.members[p.ascii[c]], 1
	}
	r, n := utf8.DecodeLastRune(text[:i])
	return p.members[p.rows[p.rangeOf(r)]], n
}
