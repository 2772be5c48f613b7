package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// Normalizers that put in, take out or replace.

// prepend puts a text before what is not empty.
type prepend string

func readPrepend(p *jsonPart) (normalizer, error) {
	var raw struct{ Prepend *string }
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	if raw.Prepend == nil {
		return nil, p.errorf("prepend", "expected a string")
	}
	return prepend(*raw.Prepend), nil
}

func (n prepend) normalize(dst, src []byte, _ *Scratch) []byte {
	if len(src) > 0 {
		dst = append(dst, n...)
	}
	return append(dst, src...)
}

func (n prepend) follow(_ []byte, first int, _ *Scratch) int {
	if first == 0 {
		return 0 // it belongs to the character that it stands before
	}
	return len(n) + first
}

// replace puts content in the place of every match.
type replace struct {
	finder  finder
	content string
}

// readReplacement reads {"pattern": {"Regex": ...} or {"String": ...}, "content": ...}.
func readReplacement(p *jsonPart) (r replace, err error) {
	var raw struct {
		Pattern struct{ Regex, String *string }
		Content *string
	}
	if err := p.decode(&raw); err != nil {
		return r, err
	}
	if raw.Content == nil {
		return r, p.errorf("content", "expected a string")
	}
	r.content = *raw.Content
	switch {
	case raw.Pattern.String != nil:
		r.finder = literal(*raw.Pattern.String)
	case raw.Pattern.Regex != nil:
		if r.finder, err = compilePattern(*raw.Pattern.Regex); err != nil {
			return r, p.errorf("pattern", "%w", err)
		}
	default:
		return r, p.errorf("pattern", "expected a Regex or a String")
	}
	return r, nil
}

func readReplace(p *jsonPart) (normalizer, error) { return readReplacement(p) }

func (n replace) normalize(dst, src []byte, s *Scratch) []byte {
	if l, ok := n.finder.(literal); ok {
		return l.replace(dst, src, n.content)
	}
	s.found = n.finder.find(src, s, s.found[:0])
	done := 0
	for _, m := range s.found {
		dst = append(dst, src[done:m.start]...)
		dst = append(dst, n.content...)
		done = m.end
	}
	return append(dst, src[done:]...)
}

// follow: the content comes from where the match ends.
func (n replace) follow(src []byte, first int, s *Scratch) int {
	s.found = n.finder.find(src, s, s.found[:0])
	made, done := 0, 0
	for _, m := range s.found {
		if m.start >= first {
			break
		}
		made += m.start - done
		if m.end > first {
			return made
		}
		made, done = made+len(n.content), m.end
	}
	return made + first - done
}

// replace appends text with content in the place of the literal.
func (l literal) replace(dst, text []byte, content string) []byte {
	for l != "" {
		i := bytes.Index(text, []byte(l))
		if i < 0 {
			break
		}
		dst = append(dst, text[:i]...)
		dst = append(dst, content...)
		text = text[i+len(l):]
	}
	return append(dst, text...)
}

// strip removes white space from the ends.
type strip struct{ left, right bool }

func readStrip(p *jsonPart) (normalizer, error) {
	var raw struct {
		Left  bool `json:"strip_left"`
		Right bool `json:"strip_right"`
	}
	err := p.decode(&raw)
	return strip{raw.Left, raw.Right}, err
}

func (n strip) normalize(dst, src []byte, _ *Scratch) []byte {
	if n.left {
		src = src[spaceAfter(src):]
	}
	if n.right {
		src = src[:len(src)-spaceBefore(src)]
	}
	return append(dst, src...)
}

// nmt drops controls and makes spaces of what is one to machine translation.
type nmt struct{}

func (nmt) normalize(dst, src []byte, _ *Scratch) []byte {
	for i := 0; i < len(src); {
		r, n := rune(src[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(src[i:])
		}
		switch {
		case r >= 1 && r <= 8, r == 0xB, r >= 0xE && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F,
			r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			dst = append(dst, ' ')
		default:
			dst = append(dst, src[i:i+n]...)
		}
		i += n
	}
	return dst
}

func (spellBytes) normalize(dst, src []byte, _ *Scratch) []byte { return appendByteLevel(dst, src) }
