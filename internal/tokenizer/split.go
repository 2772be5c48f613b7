package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// behavior says what becomes of the matches of a pattern.
type behavior int

const (
	removed behavior = iota
	isolated
	mergedWithPrevious
	mergedWithNext
	contiguous
)

var behaviors = map[string]behavior{
	"Removed": removed, "Isolated": isolated, "MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext": mergedWithNext, "Contiguous": contiguous,
}

// flagSpan is a part of a piece, in order and without gaps: a match or what lies between matches.
type flagSpan struct {
	span
	match bool
}

// join appends the pieces that the parts of one piece make.
func (b behavior) join(parts []flagSpan, out []span) []span {
	first := len(out)
	switch b {
	case removed:
		for _, p := range parts {
			if !p.match {
				out = append(out, p.span)
			}
		}
	case isolated:
		for _, p := range parts {
			out = append(out, p.span)
		}
	case contiguous:
		previous := false
		for _, p := range parts {
			if p.match == previous && len(out) > first {
				out[len(out)-1].end = p.end
			} else {
				out = append(out, p.span)
			}
			previous = p.match
		}
	case mergedWithPrevious:
		previous := false
		for _, p := range parts {
			if p.match && !previous && len(out) > first {
				out[len(out)-1].end = p.end
			} else {
				out = append(out, p.span)
			}
			previous = p.match
		}
	case mergedWithNext:
		previous := false
		for _, p := range slices.Backward(parts) {
			if p.match && !previous && len(out) > first {
				out[len(out)-1].start = p.start
			} else {
				out = append(out, p.span)
			}
			previous = p.match
		}
		slices.Reverse(out[first:])
	}
	return out
}

func (p *jsonPart) behavior(name string) (behavior, error) {
	b, ok := behaviors[name]
	if !ok {
		return 0, p.errorf("behavior", "is %q, expected one of %s", name, names(behaviors))
	}
	return b, nil
}

// readSplit reads {"pattern": {"Regex": ...} or {"String": ...}, "behavior": ..., "invert": ...}.
func readSplit(p *jsonPart) ([]step, error) {
	var raw struct {
		Pattern  struct{ Regex, String *string }
		Behavior string
		Invert   bool
	}
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	b, err := p.behavior(raw.Behavior)
	if err != nil {
		return nil, err
	}
	switch {
	case raw.Pattern.String != nil:
		return []step{splitStep{literal(*raw.Pattern.String), b, raw.Invert}}, nil
	case raw.Pattern.Regex == nil:
		return nil, p.errorf("pattern", "expected a Regex or a String")
	}
	if known, ok := patterns[*raw.Pattern.Regex]; ok {
		covers := b == isolated || b == removed && raw.Invert
		if known.cut != nil && covers {
			return []step{known.cut}, nil // the pattern matches everything, so each match is a piece
		}
		if known.class != 0 && !raw.Invert {
			return []step{classCut{known.class, b}}, nil
		}
	}
	find, err := compile(*raw.Pattern.Regex)
	if err != nil {
		return nil, p.errorf("pattern", "%v", err)
	}
	return []step{splitStep{find, b, raw.Invert}}, nil
}

// splitStep cuts at a pattern's matches.
type splitStep struct {
	find     finder
	behavior behavior
	invert   bool // the matches are what lies between
}

// finder calls found for every match in text, left to right.
type finder func(text []byte, s *Scratch, found func(start, end int))

func (st splitStep) apply(s *Scratch) {
	out := s.spans[1][:0]
	for _, p := range s.spans[0] {
		parts, done := s.match[:0], p.start
		st.find(s.text[p.start:p.end], s, func(start, end int) {
			start, end = p.start+start, p.start+end
			if done < start {
				parts = append(parts, flagSpan{span{done, start}, st.invert})
			}
			parts = append(parts, flagSpan{span{start, end}, !st.invert})
			done = end
		})
		if done < p.end {
			parts = append(parts, flagSpan{span{done, p.end}, st.invert})
		}
		out = st.behavior.join(parts, out)
		s.match = parts
	}
	s.spans[0], s.spans[1] = out, s.spans[0]
}

// literal finds a string. The empty string is found nowhere.
func literal(what string) finder {
	return func(text []byte, _ *Scratch, found func(start, end int)) {
		for at := 0; what != ""; {
			i := bytes.Index(text[at:], []byte(what))
			if i < 0 {
				return
			}
			found(at+i, at+i+len(what))
			at += i + len(what)
		}
	}
}

// matchLimit bounds what one match of a pattern from a file may take; a pattern that runs into it
// leaves the rest of its piece uncut.
const matchLimit = time.Second

// compile makes a finder of a regular expression that no hand-written matcher knows.
func compile(pattern string) (finder, error) {
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("regular expression %.200q: %s", pattern, strings.TrimSpace(err.Error()))
	}
	re.MatchTimeout = matchLimit
	return func(text []byte, s *Scratch, found func(start, end int)) {
		s.runes = s.runes[:0]
		for i := 0; i < len(text); {
			r, n := utf8.DecodeRune(text[i:])
			s.runes = append(s.runes, r)
			i += n
		}
		at, offset := 0, 0 // the same place in runes and in bytes
		forward := func(to int) int {
			for ; at < to; at++ {
				offset += utf8.RuneLen(s.runes[at])
			}
			return offset
		}
		deadline := time.Now().Add(matchLimit)
		m, err := re.FindRunesMatch(s.runes)
		for m != nil && err == nil && time.Now().Before(deadline) {
			start := forward(m.Index)
			found(start, forward(m.Index+m.Length))
			m, err = re.FindNextMatch(m)
		}
	}, nil
}
