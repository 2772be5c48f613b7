package tokenizer

import "unicode/utf8"

// step cuts the pieces of s.spans[0] into smaller ones or rewrites them. Pieces are independent of each
// other: a pattern never sees beyond its piece.
type step interface {
	apply(s *Scratch)
	growth() growth
}

// firstOf is how many bytes of a piece come from the first character of the text. A step that rewrites
// says in s.first what they have become.
func (s *Scratch) firstOf(p span) int { return max(0, min(s.first-p.start, p.end-p.start)) }

// cutter is a step that only cuts: it appends the parts of text[p.start:p.end] to out. What it leaves
// out is dropped from the text.
type cutter func(text []byte, p span, out []span) []span

func (c cutter) apply(s *Scratch) {
	out := s.spans[1][:0]
	for _, p := range s.spans[0] {
		out = c(s.text, p, out)
	}
	s.spans[0], s.spans[1] = out, s.spans[0]
}

// preTokenizers holds the pre-tokenizers of tokenizer.json by type.
var preTokenizers map[string]func(p *jsonPart) ([]step, error)

func init() { // a Sequence reads the table that it stands in
	preTokenizers = map[string]func(p *jsonPart) ([]step, error){
		"BertPreTokenizer":   fixed([]step{cutter(cutBert)}),
		"ByteLevel":          readByteLevel,
		"CharDelimiterSplit": readDelimiter,
		"Delimiter":          readDelimiter,
		"Digits":             readDigits,
		"FixedLength":        readFixedLength,
		"Metaspace":          readMetaspace,
		"Punctuation":        readPunctuation,
		"Sequence":           readStepSequence,
		"Split":              readSplit,
		"UnicodeScripts":     fixed([]step{cutter(cutScripts)}),
		"Whitespace":         fixed([]step{cutter(cutWords)}),
		"WhitespaceSplit":    fixed([]step{classCut{classSpace, removed}}),
	}
}

func readStepSequence(p *jsonPart) ([]step, error) {
	parts, err := p.list("pretokenizers")
	if err != nil {
		return nil, err
	}
	var steps []step
	total := same
	for _, part := range parts {
		inner, err := lookup(preTokenizers, part)
		if err != nil {
			return nil, err
		}
		total = growthOf(total, inner)
		if err := part.within(total); err != nil {
			return nil, err
		}
		steps = append(steps, inner...)
	}
	return steps, nil
}

func readByteLevel(p *jsonPart) ([]step, error) {
	raw := struct {
		Prefix bool  `json:"add_prefix_space"`
		Regex  *bool `json:"use_regex"`
	}{}
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	var steps []step
	if raw.Prefix {
		steps = append(steps, prefixSpace{})
	}
	if raw.Regex == nil || *raw.Regex {
		steps = append(steps, cutter(cutGPT2))
	}
	return append(steps, spellBytes{}), nil
}

func readDigits(p *jsonPart) ([]step, error) {
	raw := struct {
		Individual bool `json:"individual_digits"`
	}{}
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	if raw.Individual {
		return []step{classCut{classDigit, isolated}}, nil
	}
	return []step{classCut{classDigit, contiguous}}, nil
}

func readPunctuation(p *jsonPart) ([]step, error) {
	raw := struct{ Behavior string }{"Isolated"}
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	b, err := p.behavior(raw.Behavior)
	return []step{classCut{classPunct, b}}, err
}

// readDelimiter reads a character that parts pieces and belongs to none.
func readDelimiter(p *jsonPart) ([]step, error) {
	var raw struct{ Delimiter string }
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(raw.Delimiter) != 1 {
		return nil, p.errorf("delimiter", "is %.20q, expected one character", raw.Delimiter)
	}
	return []step{splitStep{literal(raw.Delimiter), removed, false}}, nil
}

func readFixedLength(p *jsonPart) ([]step, error) {
	raw := struct{ Length int }{5}
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	if raw.Length < 1 {
		return nil, p.errorf("length", "is %d, expected 1 or more", raw.Length)
	}
	return []step{fixedLength(raw.Length)}, nil
}

// fixedLength cuts into pieces of so many characters.
type fixedLength int

func (n fixedLength) apply(s *Scratch) {
	out := s.spans[1][:0]
	for _, p := range s.spans[0] {
		start, chars := p.start, 0
		for i := p.start; i < p.end; {
			_, size := utf8.DecodeRune(s.text[i:p.end])
			i += size
			if chars++; chars == int(n) || i == p.end {
				out = append(out, span{start, i})
				start, chars = i, 0
			}
		}
	}
	s.spans[0], s.spans[1] = out, s.spans[0]
}

// prefixSpace puts a space before every piece that does not begin with one.
type prefixSpace struct{}

func (prefixSpace) apply(s *Scratch) {
	text, first := s.spare[:0], 0
	for i, p := range s.spans[0] {
		start := len(text)
		if p.start == p.end || s.text[p.start] != ' ' {
			text = append(text, ' ')
		}
		if cut := s.firstOf(p); cut > 0 {
			first = len(text) + cut
		}
		text = append(text, s.text[p.start:p.end]...)
		s.spans[0][i] = span{start, len(text)}
	}
	s.text, s.spare, s.first = text, s.text, first
}

// spellBytes writes every byte as its byte-level character. Where it is the last step, the tokenizer
// leaves it out and lets the model read bytes.
type spellBytes struct{}

func (spellBytes) apply(s *Scratch) {
	text, first := s.spare[:0], 0
	for i, p := range s.spans[0] {
		start := len(text)
		cut := p.start + s.firstOf(p)
		text = appendByteLevel(text, s.text[p.start:cut])
		if cut > p.start {
			first = len(text)
		}
		text = appendByteLevel(text, s.text[cut:p.end])
		s.spans[0][i] = span{start, len(text)}
	}
	s.text, s.spare, s.first = text, s.text, first
}

// classCut cuts at the characters of a class.
type classCut struct {
	class    class
	behavior behavior
}

func (c classCut) apply(s *Scratch) {
	out := s.spans[1][:0]
	for _, p := range s.spans[0] {
		found, start := s.match[:0], p.start
		for i := p.start; i < p.end; {
			r, n := rune(s.text[i]), 1
			if r >= utf8.RuneSelf {
				r, n = utf8.DecodeRune(s.text[i:p.end])
			}
			if classOf(r).is(c.class) {
				if start < i {
					found = append(found, flagSpan{span{start, i}, false})
				}
				found = append(found, flagSpan{span{i, i + n}, true})
				start = i + n
			}
			i += n
		}
		if start < p.end {
			found = append(found, flagSpan{span{start, p.end}, false})
		}
		out = c.behavior.join(found, out)
		s.match = found
	}
	s.spans[0], s.spans[1] = out, s.spans[0]
}

// cutWords keeps \w+ and [^\w\s]+.
func cutWords(text []byte, p span, out []span) []span {
	kind := func(i int) (kind, n int) {
		r, n := utf8.DecodeRune(text[i:p.end])
		switch c := classOf(r); {
		case c.is(classWord):
			return 1, n
		case c.is(classSpace):
			return 0, n
		}
		return 2, n
	}
	for i := p.start; i < p.end; {
		k, n := kind(i)
		start := i
		for i += n; i < p.end; i += n {
			var next int
			if next, n = kind(i); next != k {
				break
			}
		}
		if k != 0 {
			out = append(out, span{start, i})
		}
	}
	return out
}
