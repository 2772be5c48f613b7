package tokenizer

import (
	"bytes"
	"slices"
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
	st, err := splitter(*raw.Pattern.Regex, b, raw.Invert)
	if err != nil {
		return nil, p.errorf("pattern", "%w", err)
	}
	return []step{st}, nil
}

// splitter makes the step of an expression, the one written by hand if there is one.
func splitter(expression string, b behavior, invert bool) (step, error) {
	if known, ok := patterns[expression]; ok {
		covers := b == isolated || b == removed && invert
		if known.cut != nil && covers {
			return known.cut, nil // the pattern matches everything, so each match is a piece
		}
		if known.class != 0 && !invert {
			return classCut{known.class, b}, nil
		}
	}
	find, err := compilePattern(expression)
	if err != nil {
		return nil, err
	}
	return splitStep{find, b, invert}, nil
}

// splitStep cuts at a pattern's matches.
type splitStep struct {
	finder
	behavior behavior
	invert   bool // the matches are what lies between
}

// finder appends where its matches are in text, left to right.
type finder interface {
	find(text []byte, s *Scratch, out []span) []span
	shortest() int // of its matches, in bytes
}

func (st splitStep) apply(s *Scratch) {
	out := s.spans[1][:0]
	for _, p := range s.spans[0] {
		parts, done := s.match[:0], p.start
		s.found = st.find(s.text[p.start:p.end], s, s.found[:0])
		for _, m := range s.found {
			start, end := p.start+m.start, p.start+m.end
			if done < start {
				parts = append(parts, flagSpan{span{done, start}, st.invert})
			}
			parts = append(parts, flagSpan{span{start, end}, !st.invert})
			done = end
		}
		if done < p.end {
			parts = append(parts, flagSpan{span{done, p.end}, st.invert})
		}
		first := len(out)
		out = st.behavior.join(parts, out)
		out = append(out[:first], slices.DeleteFunc(out[first:], func(p span) bool { return p.start == p.end })...)
		s.match = parts
	}
	s.spans[0], s.spans[1] = out, s.spans[0]
}

// literal finds a string. The empty string is found nowhere.
type literal string

func (l literal) find(text []byte, _ *Scratch, out []span) []span {
	for at := 0; l != ""; {
		i := bytes.Index(text[at:], []byte(l))
		if i < 0 {
			break
		}
		out = append(out, span{at + i, at + i + len(l)})
		at += i + len(l)
	}
	return out
}
