package tokenizer

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Cutter is the part of a tokenizer that comes before its model: the normalizer and the pre-tokenizers. It
// is immutable and safe for concurrent use.
type Cutter struct {
	// Bytes says that a byte-level pre-tokenizer ends the chain: pieces are raw bytes, which the vocabulary
	// spells by ByteRune.
	Bytes bool

	norm       normalizer // nil: the text as it is
	steps      []step
	marksFirst bool // a step asks whether a piece is the first
}

// CutterFromJSON reads the normalizer and the pre_tokenizer of a tokenizer.json. file is for errors.
func CutterFromJSON(file string, tokenizerJSON []byte) (*Cutter, error) {
	if err := checkJSON(tokenizerJSON); err != nil {
		return nil, fmt.Errorf("%s: not a tokenizer.json: %w", file, err)
	}
	raw := pick(tokenizerJSON, "normalizer", "pre_tokenizer")
	c, _, err := readCutter(file, raw[0], raw[1])
	return c, err
}

// readCutter also tells how much text the parts can make of theirs.
func readCutter(file string, normalizer, preTokenizer []byte) (*Cutter, growth, error) {
	c, total := new(Cutter), same
	part, ok, err := newPart(file, "normalizer", 0, normalizer)
	if err == nil && ok {
		if c.norm, err = lookup(normalizers, part); err == nil {
			total = c.norm.growth()
			err = part.within(total)
		}
	}
	if err != nil {
		return nil, total, err
	}
	part, ok, err = newPart(file, "pre_tokenizer", 0, preTokenizer)
	if err == nil && ok {
		if c.steps, err = lookup(preTokenizers, part); err == nil {
			total = growthOf(total, c.steps)
			err = part.within(total)
		}
	}
	if err != nil {
		return nil, total, err
	}
	// The model reads bytes itself where spelling them is the last step: faster, and the same ids.
	if n := len(c.steps); n > 0 && c.steps[n-1] == step(spellBytes{}) {
		c.steps, c.Bytes = c.steps[:n-1:n-1], true
	}
	c.marksFirst = slices.ContainsFunc(c.steps, func(st step) bool {
		m, ok := st.(metaspace)
		return ok && m.scheme == prependFirst
	})
	return c, total, nil
}

// Cut calls each for every piece of a text, in order. Broken UTF-8 becomes U+FFFD. A piece is valid until each
// returns.
func (c *Cutter) Cut(text []byte, s *Scratch, each func(piece []byte)) {
	s.clean = appendValid(s.clean[:0], text)
	_, s.first = utf8.DecodeRune(s.clean)
	switch {
	case c.norm == nil:
		s.text = append(s.text[:0], s.clean...)
	case c.marksFirst:
		s.text, s.first = follow(c.norm, s.text[:0], s.clean, s.first, s)
	default:
		s.text = c.norm.normalize(s.text[:0], s.clean, s)
	}
	s.spans[0] = append(s.spans[0][:0], span{0, len(s.text)})
	for _, st := range c.steps {
		st.apply(s)
	}
	for _, p := range s.spans[0] {
		if p.start < p.end {
			each(s.text[p.start:p.end])
		}
	}
}

// ByteRune is the character that spells a byte in byte-level vocabularies.
func ByteRune(b byte) rune { return byteRunes[b] }
