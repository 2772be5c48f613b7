package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// metaspace writes spaces as another character, usually ▁, and begins a piece with each.
type metaspace struct {
	char   string
	scheme prependScheme
	split  bool
}

// prependScheme says where the character is put although the text has no space.
type prependScheme uint8

const (
	prependAlways prependScheme = iota
	prependFirst                // only at the beginning of the text
	prependNever
)

var prependSchemes = map[string]prependScheme{"always": prependAlways, "first": prependFirst, "never": prependNever}

func readMetaspaceFields(p *jsonPart) (m metaspace, err error) {
	raw := struct {
		Replacement string
		Prefix      *bool   `json:"add_prefix_space"`
		Scheme      *string `json:"prepend_scheme"`
		Split       *bool
	}{}
	if err := p.decode(&raw); err != nil {
		return m, err
	}
	if utf8.RuneCountInString(raw.Replacement) != 1 {
		return m, p.errorf("replacement", "is %.20q, expected one character", raw.Replacement)
	}
	m = metaspace{char: raw.Replacement, split: raw.Split == nil || *raw.Split}
	if raw.Scheme != nil {
		scheme, ok := prependSchemes[*raw.Scheme]
		if !ok {
			return m, p.errorf("prepend_scheme", "is %.20q, expected one of %s", *raw.Scheme, names(prependSchemes))
		}
		m.scheme = scheme
	} else if raw.Prefix != nil && !*raw.Prefix {
		m.scheme = prependNever
	}
	return m, nil
}

func readMetaspace(p *jsonPart) ([]step, error) {
	m, err := readMetaspaceFields(p)
	return []step{m}, err
}

func (m metaspace) apply(s *Scratch) {
	text, out, first := s.spare[:0], s.spans[1][:0], 0
	for _, p := range s.spans[0] {
		start := len(text)
		piece := s.text[p.start:p.end]
		starts := len(piece) > 0 && piece[0] == ' ' || bytes.HasPrefix(piece, []byte(m.char))
		if !starts && (m.scheme == prependAlways || m.scheme == prependFirst && p.start < s.first) {
			text = append(text, m.char...)
		}
		cut := s.firstOf(p)
		text = literal(" ").replace(text, piece[:cut], m.char)
		if cut > 0 {
			first = len(text)
		}
		text = literal(" ").replace(text, piece[cut:], m.char)
		if !m.split {
			out = append(out, span{start, len(text)})
			continue
		}
		for at := start + 1; at < len(text); {
			i := bytes.Index(text[at:], []byte(m.char))
			if i < 0 {
				break
			}
			out = append(out, span{start, at + i})
			start, at = at+i, at+i+len(m.char)
		}
		out = append(out, span{start, len(text)})
	}
	s.text, s.spare, s.first = text, s.text, first
	s.spans[0], s.spans[1] = out, s.spans[0]
}

// decoder is the way back.
func (m metaspace) decoder() decoder { return eachDecoder{turn: m.decode, grows: same} }

// decode turns ▁ back into spaces, but for those of the first token.
func (m metaspace) decode(dst, token []byte, first bool) []byte {
	space := " "
	if first && m.scheme != prependNever {
		space = ""
	}
	return literal(m.char).replace(dst, token, space)
}
