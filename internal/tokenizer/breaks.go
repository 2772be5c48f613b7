package tokenizer

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// SentencePiece-BPE has no pre-tokenizer: a whole text is one piece, with ▁ for its spaces. But merges
// hardly ever reach across the beginning of a word, and where no merge makes a token that has ▁ after the
// character before, none ever will. The text may be cut there, which changes no id, and then its pieces
// are words: they are short, and the cache knows most of them.

const metaSpace = "\u2581"

// breakCut cuts before ▁ where the character before it never joins it.
type breakCut struct {
	ascii [utf8.RuneSelf]bool // the characters that do join
	other []rune
}

// breaks makes the cut, or nil where it might change ids.
func (m *bpe) breaks() step {
	if m.bytes != nil || m.prefix != "" || m.suffix != "" || m.whole {
		return nil
	}
	if m.unk >= 0 && m.fuseUnk && (m.byteFallback == nil || slices.Contains(m.byteFallback[:], -1)) {
		return nil // unknown characters on both sides would be joined
	}
	if _, ok := m.vocab.known([]byte(metaSpace)); !ok {
		return nil
	}
	cut := new(breakCut)
	for _, id := range m.merges.merged {
		token := m.vocab.spelling(id)
		for i := 1; i < len(token); {
			n := bytes.Index(token[i:], []byte(metaSpace))
			if n < 0 {
				break
			}
			i += n
			if r, _ := utf8.DecodeLastRune(token[:i]); r < utf8.RuneSelf {
				cut.ascii[r] = true
			} else if !slices.Contains(cut.other, r) {
				cut.other = append(cut.other, r)
			}
			i += len(metaSpace)
		}
	}
	if len(cut.other) > 8 || cut.ascii['>'] { // <0x..> may stand for any character
		return nil
	}
	return cut
}

func (c *breakCut) apply(s *Scratch) {
	out := s.spans[1][:0]
	for _, p := range s.spans[0] {
		start := p.start
		for i := p.start + 1; i < p.end; {
			n := bytes.IndexByte(s.text[i:p.end], metaSpace[0])
			if n < 0 {
				break
			}
			i += n
			if i+2 < p.end && s.text[i+1] == metaSpace[1] && s.text[i+2] == metaSpace[2] && !c.joins(s.text[p.start:i]) {
				out = append(out, span{start, i})
				start = i
			}
			i++
		}
		out = append(out, span{start, p.end})
	}
	s.spans[0], s.spans[1] = out, s.spans[0]
}

// joins tells whether the last character of text may be joined with ▁.
func (c *breakCut) joins(text []byte) bool {
	if b := text[len(text)-1]; b < utf8.RuneSelf {
		return c.ascii[b]
	}
	r, _ := utf8.DecodeLastRune(text)
	return slices.Contains(c.other, r)
}
