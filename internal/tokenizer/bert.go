package tokenizer

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// bertNormalizer is BERT's cleaning: what it removes, spaces around Chinese characters, accents, case.
type bertNormalizer struct{ clean, han, strip, lower bool }

func readBertNormalizer(p *jsonPart) (normalizer, error) {
	raw := struct {
		Clean *bool `json:"clean_text"`
		Han   *bool `json:"handle_chinese_chars"`
		Strip *bool `json:"strip_accents"`
		Lower *bool `json:"lowercase"`
	}{}
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	or := func(b *bool, otherwise bool) bool {
		if b == nil {
			return otherwise
		}
		return *b
	}
	n := bertNormalizer{clean: or(raw.Clean, true), han: or(raw.Han, true), lower: or(raw.Lower, true)}
	n.strip = or(raw.Strip, n.lower)
	return n, nil
}

func (b bertNormalizer) normalize(dst, src []byte, s *Scratch) []byte {
	i := 0
	for ; i < len(src) && src[i] < utf8.RuneSelf; i++ {
		dst = b.ascii(dst, src[i])
	}
	if i == len(src) {
		return dst
	}
	// Cleaning and spacing look at single characters; accents need the text decomposed in between.
	buf := s.bert[0][:0]
	for i < len(src) {
		if src[i] < utf8.RuneSelf {
			buf = b.ascii(buf, src[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(src[i:])
		c := classOf(r)
		switch {
		case b.clean && c.is(classDrop):
		case b.clean && c.is(classSpace):
			buf = append(buf, ' ')
		case b.han && isHan(r):
			buf = append(buf, ' ')
			buf = append(buf, src[i:i+n]...)
			buf = append(buf, ' ')
		default:
			buf = append(buf, src[i:i+n]...)
		}
		i += n
	}
	s.bert[0] = buf
	if b.strip {
		s.bert[1] = appendStripped(s.bert[1][:0], buf, s)
		buf = s.bert[1]
	}
	if b.lower {
		return lowercase{}.normalize(dst, buf, s)
	}
	return append(dst, buf...)
}

// appendStripped appends src decomposed (NFD) and without its nonspacing marks.
func appendStripped(dst, src []byte, s *Scratch) []byte {
	start := len(dst)
	for i := 0; i < len(src); {
		if src[i] < utf8.RuneSelf {
			dst = append(dst, src[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(src[i:])
		char := src[i : i+n]
		i += n
		if c := classOf(r); c.is(classNonspace) {
			continue
		} else if c.is(classVerbatim) {
			dst = append(dst, char...)
			continue
		}
		if r >= 0xAC00 && r <= 0xD7A3 { // Hangul decomposes by arithmetic: into 21 vowels times 28 ends
			r -= 0xAC00
			dst = utf8.AppendRune(dst, 0x1100+r/(21*28))
			dst = utf8.AppendRune(dst, 0x1161+r/28%21)
			if r%28 != 0 {
				dst = utf8.AppendRune(dst, 0x11A7+r%28)
			}
			continue
		}
		p := norm.NFD.Properties(char)
		parts := p.Decomposition()
		if parts == nil {
			if p.CCC() != 0 { // a mark that stays may change places with others
				dst = form{norm.NFD}.normalize(dst[:start], src, s)
				return stripMarks{classNonspace}.normalize(dst[:start], dst[start:], s) // in place: it only shrinks
			}
			parts = char
		}
		for len(parts) > 0 {
			r, n := utf8.DecodeRune(parts)
			if !classOf(r).is(classNonspace) {
				dst = append(dst, parts[:n]...)
			}
			parts = parts[n:]
		}
	}
	return dst
}

func (b bertNormalizer) ascii(dst []byte, c byte) []byte {
	switch {
	case c >= 'A' && c <= 'Z' && b.lower:
		c += 'a' - 'A'
	case b.clean && (c == '\t' || c == '\n' || c == '\r'):
		c = ' '
	case b.clean && (c < ' ' || c == 0x7F):
		return dst
	}
	return append(dst, c)
}

// cutBert cuts at white space, which it drops, and around punctuation.
func cutBert(text []byte, p span, out []span) []span {
	start := p.start
	for i := p.start; i < p.end; {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[i:p.end])
		}
		if c := classOf(r); c.is(classSpace | classPunct) {
			if start < i {
				out = append(out, span{start, i})
			}
			if c.is(classPunct) {
				out = append(out, span{i, i + n})
			}
			start = i + n
		}
		i += n
	}
	if start < p.end {
		out = append(out, span{start, p.end})
	}
	return out
}
