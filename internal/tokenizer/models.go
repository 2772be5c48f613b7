package tokenizer

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"hotpath/internal/format"
)

// modelKind reads one type of model of tokenizer.json into t.vocab and t.model. byteLevel says that the
// pieces come as bytes which the vocabulary spells byte-level; more is what added tokens may need.
type modelKind func(t *Tokenizer, p *jsonPart, byteLevel bool, more room) error

var models = map[string]modelKind{
	"BPE":       readBPE,
	"Unigram":   readUnigram,
	"WordLevel": readWordLevel,
	"WordPiece": readWordPiece,
}

func (t *Tokenizer) readModel(p *jsonPart, byteLevel bool, more room) error {
	if p.kind == "" { // files older than 2020 do not say
		fields := pick(p.raw, "merges", "max_input_chars_per_word", "unk_id", "unk_token")
		for i, kind := range []string{"BPE", "WordPiece", "Unigram", "WordLevel"} {
			if fields[i] != nil && p.kind == "" {
				p.kind = kind
			}
		}
	}
	read, ok := models[p.kind]
	if !ok {
		return p.errorf("type", "is %.100q, expected one of %s: %w", p.kind, names(models), format.ErrUnsupported)
	}
	return read(t, p, byteLevel, more)
}

// readVocab reads {"token": id, ...}, with room for added tokens.
func (p *jsonPart) readVocab(raw []byte, more room) (*vocab, error) {
	size, top := more, int64(-1)
	ok, err := eachField(raw, func(key, value []byte) error {
		id, ok := asID(value)
		if !ok {
			return p.errorf("vocab", "token %.100s has id %.20s, expected 0..%d", key, value, math.MaxInt32)
		}
		size.reserve(stringLength(key))
		top = max(top, id)
		return nil
	})
	if err == nil && !ok {
		err = p.errorf("vocab", "expected an object of tokens and ids")
	}
	if err != nil {
		return nil, err
	}
	v, err := newVocab(size, top, more.tokens)
	if err != nil {
		return nil, p.errorf("vocab", "%w", err)
	}
	var buf []byte
	_, err = eachField(raw, func(key, value []byte) error {
		token := key[1 : len(key)-1]
		if bytes.IndexByte(token, '\\') >= 0 {
			buf = appendString(buf[:0], key)
			token = buf
		}
		id, _ := asID(value)
		if err := v.addToken(token, id, true); err != nil {
			return p.errorf("vocab", "%w", err)
		}
		return nil
	})
	return v, err
}

// unknown finds the token that a model names for what it does not know.
func (p *jsonPart) unknown(raw []byte, otherwise string, v *vocab) (int32, error) {
	name, ok, err := p.text("unk_token", raw)
	if err != nil {
		return -1, err
	}
	if !ok {
		name = otherwise
	}
	if name == "" && !ok {
		return -1, nil
	}
	id, ok := v.id(name)
	if !ok {
		return -1, p.errorf("unk_token", "%.100q is not in the vocabulary", name)
	}
	return id, nil
}

func readWordPiece(t *Tokenizer, p *jsonPart, byteLevel bool, more room) error {
	raw := pick(p.raw, "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word")
	v, err := p.readVocab(raw[0], more)
	if err != nil {
		return err
	}
	unk, err := p.unknown(raw[1], "[UNK]", v)
	if err != nil {
		return err
	}
	prefix, ok, err := p.text("continuing_subword_prefix", raw[2])
	if err != nil {
		return err
	}
	if !ok {
		prefix = "##"
	}
	maxChars := int64(100)
	if !isNull(raw[3]) {
		if maxChars, ok = asID(raw[3]); !ok {
			return p.errorf("max_input_chars_per_word", "is %.20s, expected a number", raw[3])
		}
	}
	model, err := newWordPiece(v, prefix, unk, int(maxChars))
	if err != nil {
		return p.errorf("vocab", "%w", err)
	}
	t.vocab, t.model = v, model
	if byteLevel {
		t.steps = append(t.steps, spellBytes{})
	}
	return nil
}

// readWordLevel reads a model whose every piece is one token.
func readWordLevel(t *Tokenizer, p *jsonPart, byteLevel bool, more room) error {
	raw := pick(p.raw, "vocab", "unk_token")
	v, err := p.readVocab(raw[0], more)
	if err != nil {
		return err
	}
	unk, err := p.unknown(raw[1], "<unk>", v)
	if err != nil {
		return err
	}
	t.vocab, t.model = v, &wordLevel{v, unk}
	if byteLevel {
		t.steps = append(t.steps, spellBytes{})
	}
	return nil
}

type wordLevel struct {
	vocab *vocab
	unk   int32
}

func (m *wordLevel) encode(dst []int32, word []byte, _ *Scratch) []int32 {
	if id, ok := m.vocab.known(word); ok {
		return append(dst, id)
	}
	return append(dst, m.unk)
}

func readBPE(t *Tokenizer, p *jsonPart, byteLevel bool, more room) error {
	raw := pick(p.raw, "vocab", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
		"fuse_unk", "byte_fallback", "ignore_merges", "merges", "dropout")
	v, err := p.readVocab(raw[0], more)
	if err != nil {
		return err
	}
	m := &bpe{vocab: v}
	if m.unk, err = p.unknown(raw[1], "", v); err != nil {
		return err
	}
	if m.prefix, _, err = p.text("continuing_subword_prefix", raw[2]); err != nil {
		return err
	}
	if m.suffix, _, err = p.text("end_of_word_suffix", raw[3]); err != nil {
		return err
	}
	fallback := false
	for i, flag := range []*bool{&m.fuseUnk, &fallback, &m.whole} {
		if *flag, err = p.flag([]string{"fuse_unk", "byte_fallback", "ignore_merges"}[i], raw[4+i]); err != nil {
			return err
		}
	}
	if drop, ok := asFloat(raw[8]); !isNull(raw[8]) && (!ok || drop != 0) {
		return p.errorf("dropout", "is %.20s, expected null or 0: ids would be random: %w", raw[8], format.ErrUnsupported)
	}
	if err := p.readMerges(m, raw[7]); err != nil {
		return err
	}
	if fallback {
		m.byteFallback = fallbackBytes(v)
	}
	m.spell(byteLevel)
	t.vocab, t.model = v, m
	if cut := m.breaks(); cut != nil {
		t.steps = append(t.steps, cut)
	}
	return nil
}

// readMerges reads ["a b", ...] or [["a", "b"], ...].
func (p *jsonPart) readMerges(m *bpe, raw []byte) error {
	count := 0
	ok, _ := eachItem(raw, func(int, []byte) error { count++; return nil })
	if !ok && !isNull(raw) {
		return p.errorf("merges", "expected an array of \"a b\" or of [\"a\", \"b\"]")
	}
	var err error
	// A pair is a place where a token can be cut, with or without the prefix.
	if m.merges, err = newPairTable(count, 2*len(m.vocab.text), len(m.vocab.at)); err != nil {
		return p.errorf("merges", "%w", err)
	}
	var buf []byte
	_, err = eachItem(raw, func(i int, item []byte) error {
		var left, right []byte
		switch item[0] {
		case '"':
			buf = appendString(buf[:0], item)
			if bytes.HasPrefix(buf, []byte("#version")) {
				return nil
			}
			var ok bool
			if left, right, ok = cutMerge(buf); !ok {
				return p.errorf("merges", "entry %d is %.100q, expected two tokens and a space between them", i, buf)
			}
		case '[':
			var parts [3][]byte
			n := 0
			eachItem(item, func(i int, part []byte) error {
				parts[min(i, 2)] = part
				n++
				return nil
			})
			if n != 2 {
				return p.errorf("merges", "entry %d has %d parts, expected 2", i, n)
			}
			if parts[0][0] != '"' || parts[1][0] != '"' {
				return p.errorf("merges", "entry %d is %.100s, expected two strings", i, item)
			}
			buf = appendString(buf[:0], parts[0])
			cut := len(buf)
			buf = appendString(buf, parts[1])
			left, right = buf[:cut], buf[cut:]
		default:
			return p.errorf("merges", "expected an array of \"a b\" or of [\"a\", \"b\"]")
		}
		if !m.addMerge(left, right, true) {
			return p.errorf("merges", "entry %d joins %.100q and %.100q: they or the result are not in the vocabulary", i, left, right)
		}
		return nil
	})
	return err
}

// cutMerge reads "a b".
func cutMerge(line []byte) (left, right []byte, ok bool) {
	left, right, ok = bytes.Cut(line, []byte(" "))
	return left, right, ok && len(left) > 0 && len(right) > 0 && bytes.IndexByte(right, ' ') < 0
}

// addMerge enters the next merge; ok is false where one of its tokens is missing.
func (m *bpe) addMerge(left, right []byte, replace bool) (ok bool) {
	a, okA := m.vocab.known(left)
	b, okB := m.vocab.known(right)
	if !okA || !okB {
		return false
	}
	leftText, _ := m.vocab.token(a)
	c, ok := m.vocab.pair(leftText, bytes.TrimPrefix(right, []byte(m.prefix)))
	if ok {
		m.merges.put(a, b, c, replace)
	}
	return ok
}

// spell fills the tables that lead from characters or bytes to symbols.
func (m *bpe) spell(byteLevel bool) {
	symbol := func(text string) int32 {
		if id, ok := m.vocab.known([]byte(text)); ok {
			return id
		}
		return -1
	}
	for c := range m.ascii {
		m.ascii[c] = symbol(string(rune(c)))
	}
	if byteLevel {
		m.bytes = new([256]int32)
		for b, r := range byteRunes {
			m.bytes[b] = symbol(string(r))
		}
		if m.prefix == "" && m.suffix == "" && !slices.Contains(m.bytes[:], -1) {
			m.byteFallback = nil // nothing is left to fall back from
		}
	}
}

// fallbackBytes finds the tokens <0x00>..<0xFF>, -1 for those that are missing.
func fallbackBytes(v *vocab) *[256]int32 {
	ids := new([256]int32)
	for b := range ids {
		ids[b] = -1
		if id, ok := v.known(fmt.Appendf(nil, "<0x%02X>", b)); ok {
			ids[b] = id
		}
	}
	return ids
}

// hasAll tells whether every byte of a text has a token.
func hasAll(ids *[256]int32, text []byte) bool {
	for _, c := range text {
		if ids[c] < 0 {
			return false
		}
	}
	return true
}
