package tokenizer

import (
	"bytes"
	"strings"
	"unicode/utf8"
	"unsafe"
)

func viewBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// byteLevelDecoder turns each character into the byte that it stands for. All tokens become one.
type byteLevelDecoder struct {
	rawAdded bool // added tokens are text, not byte-level spelling (GGUF)
}

func (d byteLevelDecoder) open(next sink) sink { return &byteLevelSink{d: d, next: next} }

type byteLevelSink struct {
	d     byteLevelDecoder
	next  sink
	begun bool
	buf   []byte
}

func (b *byteLevelSink) part(text []byte, _, added bool) {
	if !added || !b.d.rawAdded {
		b.buf = appendBytes(b.buf[:0], text)
		text = b.buf
	}
	b.next.part(text, !b.begun, false)
	b.begun = true
}

func (b *byteLevelSink) end() {
	b.begun = false
	b.next.end()
}

// spaceDecoder joins tokens with spaces, for tokenizers that have no decoder.
type spaceDecoder struct{}

func (spaceDecoder) open(next sink) sink { return &spaceSink{next: next} }

type spaceSink struct {
	next  sink
	begun bool
}

func (s *spaceSink) part(text []byte, _, _ bool) {
	if s.begun {
		s.next.part([]byte(" "), true, false)
	}
	s.begun = true
	s.next.part(text, true, false)
}

func (s *spaceSink) end() {
	s.begun = false
	s.next.end()
}

// eachDecoder turns one token into another; first says that it is the first.
type eachDecoder struct {
	turn  func(dst, token []byte, first bool) []byte
	grows growth
}

func (d eachDecoder) open(next sink) sink { return &eachSink{d: d, next: next} }

type eachSink struct {
	d     eachDecoder
	next  sink
	begun bool
	buf   []byte
}

func (e *eachSink) part(text []byte, _, added bool) {
	e.buf = e.d.turn(e.buf[:0], text, !e.begun)
	e.begun = true
	e.next.part(e.buf, true, added)
}

func (e *eachSink) end() {
	e.begun = false
	e.next.end()
}

// readWordPieceDecoder joins words with spaces and the pieces of a word without.
func readWordPieceDecoder(p *jsonPart) (decoder, error) {
	raw := struct {
		Prefix  string
		Cleanup bool
	}{"##", true}
	err := p.decode(&raw)
	return wordPieceDecoder(raw.Prefix, raw.Cleanup), err
}

func wordPieceDecoder(prefix string, cleanup bool) decoder {
	return eachDecoder{grows: growth{1, 1}, turn: func(dst, token []byte, first bool) []byte {
		if !first {
			if rest, ok := bytes.CutPrefix(token, []byte(prefix)); ok {
				token = rest
			} else {
				dst = append(dst, ' ')
			}
		}
		if dst = append(dst, token...); cleanup {
			dst = append(dst[:0], cleaned(string(dst))...)
		}
		return dst
	}}
}

// cleanups takes spaces away that English does not write, in this order.
var cleanups = [][2]string{
	{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
	{" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
}

func cleaned(text string) string {
	for _, c := range cleanups {
		text = strings.ReplaceAll(text, c[0], c[1])
	}
	return text
}

func readMetaspaceDecoder(p *jsonPart) (decoder, error) {
	m, err := readMetaspaceFields(p)
	return m.decoder(), err
}

func readReplaceDecoder(p *jsonPart) (decoder, error) {
	r, err := readReplacement(p)
	if err != nil {
		return nil, err
	}
	if l, ok := r.finder.(literal); ok {
		return l.decoder(r.content), err
	}
	return eachDecoder{grows: r.growth(), turn: func(dst, token []byte, _ bool) []byte {
		return r.normalize(dst, token, new(Scratch))
	}}, err
}

// decoder puts content in the place of the literal.
func (l literal) decoder(content string) decoder {
	return eachDecoder{grows: replace{l, content}.growth(), turn: func(dst, token []byte, _ bool) []byte {
		return l.replace(dst, token, content)
	}}
}

// ctcDecoder drops tokens that repeat and paddings, and turns delimiters into spaces.
type ctcDecoder struct {
	pad, delimiter string
	cleanup        bool
}

func readCTC(p *jsonPart) (decoder, error) {
	raw := struct {
		Pad       string `json:"pad_token"`
		Delimiter string `json:"word_delimiter_token"`
		Cleanup   bool
	}{"<pad>", "|", true}
	err := p.decode(&raw)
	return ctcDecoder{raw.Pad, raw.Delimiter, raw.Cleanup}, err
}

func (d ctcDecoder) open(next sink) sink { return &ctcSink{d: d, next: next} }

type ctcSink struct {
	d     ctcDecoder
	next  sink
	begun bool
	last  []byte
}

func (c *ctcSink) part(text []byte, _, added bool) {
	if c.begun && bytes.Equal(c.last, text) {
		return
	}
	c.begun, c.last = true, append(c.last[:0], text...)
	token := replaceAll(string(text), c.d.pad, "")
	if c.d.cleanup {
		token = replaceAll(cleaned(token), c.d.delimiter, " ")
	}
	if token != "" {
		c.next.part([]byte(token), true, added)
	}
}

// replaceAll leaves the text as it is where old is empty.
func replaceAll(text, old, with string) string {
	if old == "" {
		return text
	}
	return strings.ReplaceAll(text, old, with)
}

func (c *ctcSink) end() {
	c.begun = false
	c.next.end()
}

// bpeDecoder turns the suffix of a word's last token into a space, but at the end.
type bpeDecoder string

func readBPEDecoder(p *jsonPart) (decoder, error) {
	raw := struct{ Suffix string }{"</w>"}
	err := p.decode(&raw)
	return bpeDecoder(raw.Suffix), err
}

func (d bpeDecoder) open(next sink) sink { return &bpeSink{suffix: string(d), next: next} }

type bpeSink struct {
	suffix string
	next   sink
	held   []byte // the last token: another may come
	holds  bool
	added  bool
}

func (b *bpeSink) part(text []byte, _, added bool) {
	b.pass(" ")
	b.held, b.holds, b.added = append(b.held[:0], text...), true, added
}

func (b *bpeSink) pass(space string) {
	if b.holds {
		b.next.part([]byte(replaceAll(string(b.held), b.suffix, space)), true, b.added)
	}
	b.holds = false
}

func (b *bpeSink) end() {
	b.pass("")
	b.next.end()
}

// byteFallbackDecoder turns runs of <0x..> into the characters that they spell, or else each into U+FFFD.
type byteFallbackDecoder struct{}

func (byteFallbackDecoder) open(next sink) sink { return &fallbackSink{next: next} }

type fallbackSink struct {
	next sink
	run  []byte
}

func (f *fallbackSink) part(text []byte, _, added bool) {
	if b, ok := fallbackByte(text); ok {
		f.run = append(f.run, b)
		return
	}
	f.pass()
	f.next.part(text, true, added)
}

// fallbackByte reads <0xHH>.
func fallbackByte(token []byte) (byte, bool) {
	if len(token) != 6 || string(token[:3]) != "<0x" || token[5] != '>' {
		return 0, false
	}
	high, low := hexDigit(token[3]), hexDigit(token[4])
	if token[3] == '+' { // the reference reads a sign
		high = 0
	}
	return byte(high<<4 | low), high >= 0 && low >= 0
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

func (f *fallbackSink) pass() {
	switch {
	case len(f.run) == 0:
	case utf8.Valid(f.run):
		f.next.part(f.run, true, false)
	default:
		for range f.run {
			f.next.part([]byte(replacement), true, false)
		}
	}
	f.run = f.run[:0]
}

func (f *fallbackSink) end() {
	f.pass()
	f.next.end()
}
