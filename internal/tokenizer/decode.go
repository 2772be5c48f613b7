package tokenizer

import "strings"

// decoder turns tokens back into text. It is a stage that passes parts of tokens on to the next.
type decoder interface {
	open(next sink) sink
	growth() growth
}

// sink takes tokens in order, whole or in parts: begin says that a part begins a token, added that the
// token is an added one. end comes once, after the last; a sink is ready for another text then.
type sink interface {
	part(text []byte, begin, added bool)
	end()
}

// decoders holds the decoders of tokenizer.json by type.
var decoders map[string]func(p *jsonPart) (decoder, error)

func init() { // a Sequence reads the table that it stands in
	decoders = map[string]func(p *jsonPart) (decoder, error){
		"BPEDecoder":   readBPEDecoder,
		"ByteFallback": fixed[decoder](byteFallbackDecoder{}),
		"ByteLevel":    fixed[decoder](byteLevelDecoder{}),
		"CTC":          readCTC,
		"Fuse":         fixed[decoder](fuseDecoder{}),
		"Metaspace":    readMetaspaceDecoder,
		"Replace":      readReplaceDecoder,
		"Sequence":     readDecoderSequence,
		"Strip":        readStripDecoder,
		"WordPiece":    readWordPieceDecoder,
	}
}

// Decode turns ids into text; ids that the vocabulary lacks are left out, broken UTF-8 becomes U+FFFD.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	var out collector
	head := t.decoder.open(&out)
	for _, id := range ids {
		t.decodeToken(head, id, skipSpecial)
	}
	head.end()
	return string(out.text)
}

// decodeToken passes one id's token to a decoder.
func (t *Tokenizer) decodeToken(to sink, id int32, skipSpecial bool) {
	token, ok := t.Token(id)
	if !ok || skipSpecial && t.added.skips(id) {
		return
	}
	to.part(viewBytes(token), true, t.added.added.has(id))
}

// collector is the last sink: it keeps what is complete in text, and the beginning of a character back.
type collector struct {
	text    []byte
	pending []byte
}

func (c *collector) part(text []byte, _, _ bool) {
	c.pending = append(c.pending, text...)
	whole := len(c.pending) - incomplete(c.pending)
	c.text = appendValid(c.text, c.pending[:whole])
	c.pending = append(c.pending[:0], c.pending[whole:]...)
}

func (c *collector) end() {
	c.text = appendValid(c.text, c.pending)
	c.pending = c.pending[:0]
}

// Stream decodes ids as they come. It leaves special tokens out unless KeepSpecial is set.
type Stream struct {
	KeepSpecial bool

	t    *Tokenizer
	head sink
	out  collector
	kept strings.Builder // what Push and Flush returned last; pieces share its memory
}

// keptBytes is the size of the memory that the pieces of a stream share: an allocation each would be one a
// token.
const keptBytes = 512

// NewStream begins an incremental decoding.
func (t *Tokenizer) NewStream() *Stream {
	s := &Stream{t: t}
	s.head = t.decoder.open(&s.out)
	return s
}

// Push takes the next id and returns the text that is complete with it: all that was returned, and
// Flush at the end, make what Decode gives. Bytes that make no character yet are kept back, and where the
// model spells characters by tokens of single bytes, all of them until another token comes: only then is
// it certain that they are characters.
func (s *Stream) Push(id int32) string {
	s.t.decodeToken(s.head, id, !s.KeepSpecial)
	return s.take()
}

// Flush returns what is left, an incomplete character as U+FFFD, and makes the stream ready for
// another text.
func (s *Stream) Flush() string {
	s.head.end()
	return s.take()
}

func (s *Stream) take() string {
	text := s.out.text
	s.out.text = text[:0]
	if s.kept.Cap()-s.kept.Len() < len(text) {
		s.kept.Reset()
		s.kept.Grow(max(len(text), keptBytes))
	}
	from := s.kept.Len()
	s.kept.Write(text)
	return s.kept.String()[from:]
}
