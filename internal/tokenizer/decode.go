package tokenizer

import "strings"

// decoder turns tokens back into text. append is called once a token, in order; first says that
// nothing was decoded before it.
type decoder interface {
	append(dst []byte, token string, added, first bool) []byte
}

// decoders holds the decoders of tokenizer.json by type.
var decoders = map[string]func(p *jsonPart) (decoder, error){
	"ByteLevel": fixed[decoder](byteLevelDecoder{}),
	"WordPiece": readWordPieceDecoder,
}

// byteLevelDecoder turns each character into the byte that it stands for.
type byteLevelDecoder struct {
	rawAdded bool // added tokens are text, not byte-level spelling (GGUF)
}

func (d byteLevelDecoder) append(dst []byte, token string, added, _ bool) []byte {
	if added && d.rawAdded {
		return append(dst, token...)
	}
	return appendBytes(dst, token)
}

// spaceDecoder joins tokens with spaces, for tokenizers that have no decoder.
type spaceDecoder struct{}

func (spaceDecoder) append(dst []byte, token string, _, first bool) []byte {
	if !first {
		dst = append(dst, ' ')
	}
	return append(dst, token...)
}

// wordPieceDecoder joins words with spaces and the pieces of a word without.
type wordPieceDecoder struct {
	prefix  string
	cleanup bool
}

func readWordPieceDecoder(p *jsonPart) (decoder, error) {
	raw := struct {
		Prefix  string
		Cleanup bool
	}{"##", true}
	err := p.decode(&raw)
	return wordPieceDecoder{raw.Prefix, raw.Cleanup}, err
}

// cleanups takes spaces away that English does not write, in this order.
var cleanups = [][2]string{
	{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
	{" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
}

func (d wordPieceDecoder) append(dst []byte, token string, _, first bool) []byte {
	if !first {
		if rest, ok := strings.CutPrefix(token, d.prefix); ok {
			token = rest
		} else {
			token = " " + token
		}
	}
	if d.cleanup {
		for _, c := range cleanups {
			token = strings.ReplaceAll(token, c[0], c[1])
		}
	}
	return append(dst, token...)
}

// Decode turns ids into text; ids that the vocabulary lacks are left out, broken UTF-8 becomes U+FFFD.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	var raw []byte
	first := true
	for _, id := range ids {
		raw, first = t.appendToken(raw, id, skipSpecial, first)
	}
	return string(appendValid(nil, raw))
}

// appendToken decodes one id, and says whether the next one is still the first.
func (t *Tokenizer) appendToken(dst []byte, id int32, skipSpecial, first bool) ([]byte, bool) {
	token, ok := t.vocab.token(id)
	added := t.added.byID[id]
	if !ok || skipSpecial && added != nil && added.special {
		return dst, first
	}
	return t.decoder.append(dst, token, added != nil, first), false
}

// Stream decodes ids as they come. It leaves special tokens out unless KeepSpecial is set.
type Stream struct {
	KeepSpecial bool

	t       *Tokenizer
	pending []byte // the beginning of a character
	begun   bool
}

// NewStream begins an incremental decoding.
func (t *Tokenizer) NewStream() *Stream { return &Stream{t: t} }

// Push takes the next id and returns the text that is complete with it: all that was returned, and
// Flush at the end, make what Decode gives.
func (s *Stream) Push(id int32) string {
	var first bool
	s.pending, first = s.t.appendToken(s.pending, id, !s.KeepSpecial, !s.begun)
	s.begun = !first
	whole := len(s.pending) - incomplete(s.pending)
	text := string(appendValid(nil, s.pending[:whole]))
	s.pending = append(s.pending[:0], s.pending[whole:]...)
	return text
}

// Flush returns what is left, an incomplete character as U+FFFD, and makes the stream ready for
// another text.
func (s *Stream) Flush() string {
	text := string(appendValid(nil, s.pending))
	s.pending, s.begun = s.pending[:0], false
	return text
}
