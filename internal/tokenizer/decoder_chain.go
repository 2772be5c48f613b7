package tokenizer

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// fuseDecoder makes one token of all, of which the tokens become parts.
type fuseDecoder struct{}

func (fuseDecoder) open(next sink) sink { return &fuseSink{next: next} }

type fuseSink struct {
	next  sink
	begun bool
}

func (f *fuseSink) part(text []byte, _, _ bool) {
	f.next.part(text, !f.begun, false)
	f.begun = true
}

func (f *fuseSink) end() {
	f.begun = false
	f.next.end()
}

// stripDecoder removes up to so many characters from both ends of a token.
type stripDecoder struct {
	char        []byte
	start, stop int
}

func readStripDecoder(p *jsonPart) (decoder, error) {
	var raw struct {
		Content     string
		Start, Stop int
	}
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(raw.Content) != 1 || raw.Start < 0 || raw.Stop < 0 {
		return nil, p.errorf("content", "expected one character, and start and stop of 0 or more")
	}
	return stripDecoder{[]byte(raw.Content), raw.Start, raw.Stop}, nil
}

func (d stripDecoder) open(next sink) sink { return &stripSink{d: d, next: next} }

// stripSink also takes a token in parts: what may have to be removed at its end waits.
type stripSink struct {
	d     stripDecoder
	next  sink
	begun bool // the next sink knows of the token
	lead  int  // how many may still be removed at its beginning
	held  int  // how many wait
	buf   []byte
}

func (s *stripSink) part(text []byte, begin, added bool) {
	if begin {
		s.begun, s.lead, s.held = false, s.d.start, 0
	}
	for s.lead > 0 && len(text) > 0 {
		if !bytes.HasPrefix(text, s.d.char) {
			s.lead = 0
			break
		}
		text = text[len(s.d.char):]
		s.lead--
	}
	s.buf = s.buf[:0]
	for range s.held {
		s.buf = append(s.buf, s.d.char...)
	}
	s.buf = append(s.buf, text...)
	for s.held = 0; s.held < s.d.stop && bytes.HasSuffix(s.buf, s.d.char); s.held++ {
		s.buf = s.buf[:len(s.buf)-len(s.d.char)]
	}
	s.next.part(s.buf, !s.begun, added)
	s.begun = true
}

func (s *stripSink) end() {
	s.held, s.lead, s.begun = 0, 0, false
	s.next.end()
}

// gatherDecoder makes a whole token of parts, for decoders that cannot take parts.
type gatherDecoder struct{}

func (gatherDecoder) open(next sink) sink { return &gatherSink{next: next} }

type gatherSink struct {
	next  sink
	begun bool
	buf   []byte
}

func (g *gatherSink) part(text []byte, _, _ bool) {
	g.begun = true
	g.buf = append(g.buf, text...)
}

func (g *gatherSink) end() {
	if g.begun {
		g.next.part(appendValid(nil, g.buf), true, false)
	}
	g.begun, g.buf = false, g.buf[:0]
	g.next.end()
}

// decoderChain applies one after the other.
type decoderChain []decoder

func readDecoderSequence(p *jsonPart) (decoder, error) {
	parts, err := p.list("decoders")
	if err != nil {
		return nil, err
	}
	var chain decoderChain
	total := same
	for _, part := range parts {
		d, err := lookup(decoders, part)
		if err != nil {
			return nil, err
		}
		total = total.then(d.growth())
		if err := part.within(total); err != nil {
			return nil, err
		}
		if inner, ok := d.(decoderChain); ok {
			chain = append(chain, inner...)
		} else {
			chain = append(chain, d)
		}
	}
	return gathered(chain), nil
}

// gathered puts gatherDecoder where parts come to a decoder that takes whole tokens.
func gathered(chain decoderChain) decoderChain {
	var out decoderChain
	parts := false
	for _, d := range chain {
		switch d.(type) {
		case gatherDecoder:
			continue
		case fuseDecoder, stripDecoder:
		default:
			if parts {
				out = append(out, gatherDecoder{})
			}
			parts = false
		}
		switch d.(type) {
		case fuseDecoder, byteLevelDecoder:
			parts = true
		}
		out = append(out, d)
	}
	return out
}

func (c decoderChain) open(next sink) sink {
	for _, d := range slices.Backward(c) {
		next = d.open(next)
	}
	return next
}
