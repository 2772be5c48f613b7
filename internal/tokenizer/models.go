package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"hotpath/internal/format"
)

// modelKind reads one type of model of tokenizer.json into t.vocab and t.model. byteLevel says that
// the pieces come as bytes which the vocabulary spells byte-level; added is how many tokens follow.
type modelKind func(t *Tokenizer, p *jsonPart, byteLevel bool, added int) error

var models = map[string]modelKind{
	"BPE":       readBPE,
	"WordPiece": readWordPiece,
}

func (t *Tokenizer) readModel(p *jsonPart, byteLevel bool, added int) error {
	if p.kind == "" { // files older than 2020 do not say
		var fields map[string]json.RawMessage
		if err := p.decode(&fields); err != nil {
			return err
		}
		switch {
		case fields["merges"] != nil:
			p.kind = "BPE"
		case fields["max_input_chars_per_word"] != nil:
			p.kind = "WordPiece"
		}
	}
	read, ok := models[p.kind]
	if !ok {
		return p.errorf("type", "is %q, expected one of %s: %w", p.kind, names(models), format.ErrUnsupported)
	}
	return read(t, p, byteLevel, added)
}

func readWordPiece(t *Tokenizer, p *jsonPart, byteLevel bool, added int) error {
	raw := struct {
		Vocab    vocabJSON
		Unk      string `json:"unk_token"`
		Prefix   string `json:"continuing_subword_prefix"`
		MaxChars int    `json:"max_input_chars_per_word"`
	}{Unk: "[UNK]", Prefix: "##", MaxChars: 100}
	if err := p.decode(&raw); err != nil {
		return err
	}
	v, err := raw.Vocab.build(added)
	if err != nil {
		return p.errorf("vocab", "%v", err)
	}
	unk, ok := v.id(raw.Unk)
	if !ok {
		return p.errorf("unk_token", "%q is not in the vocabulary", raw.Unk)
	}
	t.vocab, t.model = v, newWordPiece(v, raw.Prefix, unk, raw.MaxChars)
	if byteLevel {
		t.steps = append(t.steps, spellBytes{})
	}
	return nil
}

func readBPE(t *Tokenizer, p *jsonPart, byteLevel bool, added int) error {
	var raw struct {
		Vocab        vocabJSON
		Merges       mergesJSON
		Unk          *string `json:"unk_token"`
		Prefix       *string `json:"continuing_subword_prefix"`
		Suffix       *string `json:"end_of_word_suffix"`
		FuseUnk      bool    `json:"fuse_unk"`
		ByteFallback bool    `json:"byte_fallback"`
		IgnoreMerges bool    `json:"ignore_merges"`
	}
	if err := p.decode(&raw); err != nil {
		return err
	}
	v, err := raw.Vocab.build(added)
	if err != nil {
		return p.errorf("vocab", "%v", err)
	}
	m := &bpe{vocab: v, unk: -1, fuseUnk: raw.FuseUnk, whole: raw.IgnoreMerges}
	if raw.Prefix != nil {
		m.prefix = *raw.Prefix
	}
	if raw.Suffix != nil {
		m.suffix = *raw.Suffix
	}
	if raw.Unk != nil {
		id, ok := v.id(*raw.Unk)
		if !ok {
			return p.errorf("unk_token", "%q is not in the vocabulary", *raw.Unk)
		}
		m.unk = id
	}
	m.merges = newPairTable(len(raw.Merges))
	for i, merge := range raw.Merges {
		left, a := v.id(merge[0])
		right, b := v.id(merge[1])
		merged, c := v.id(merge[0] + strings.TrimPrefix(merge[1], m.prefix))
		if !a || !b || !c {
			return p.errorf("merges", "entry %d joins %.100q and %.100q: they or the result are not in the vocabulary", i, merge[0], merge[1])
		}
		m.merges.put(left, right, uint32(i), merged, true)
	}
	if raw.ByteFallback {
		m.byteFallback = fallbackBytes(v)
	}
	m.spell(byteLevel)
	t.vocab, t.model = v, m
	return nil
}

// spell fills the tables that lead from characters or bytes to symbols.
func (m *bpe) spell(byteLevel bool) {
	symbol := func(text string) int32 {
		if id, ok := m.vocab.id(text); ok {
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
	}
}

// fallbackBytes finds the tokens <0x00>..<0xFF>; nil if one is missing.
func fallbackBytes(v *vocab) *[256]int32 {
	ids := new([256]int32)
	for b := range ids {
		id, ok := v.id(fmt.Sprintf("<0x%02X>", b))
		if !ok {
			return nil
		}
		ids[b] = id
	}
	return ids
}

// vocabJSON is {"token": id, ...} in the file's order.
type vocabJSON []vocabEntry

type vocabEntry struct {
	token string
	id    int64
}

// UnmarshalJSON keeps the order, which a Go map would lose, and is several times as fast. The decoder
// has checked the syntax.
func (v *vocabJSON) UnmarshalJSON(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return fmt.Errorf("vocabulary: expected an object of tokens and ids")
	}
	for raw = raw[1:]; ; {
		raw = bytes.TrimLeft(raw, ", \t\r\n")
		if len(raw) == 0 || raw[0] != '"' {
			return nil
		}
		end := 1
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(raw) {
			return fmt.Errorf("vocabulary: a token has no end")
		}
		token, err := unquote(raw[:end+1])
		if err != nil {
			return fmt.Errorf("vocabulary: %w", err)
		}
		raw = bytes.TrimLeft(raw[end+1:], ": \t\r\n")
		id, n := int64(0), 0
		for n < len(raw) && n < 10 && raw[n] >= '0' && raw[n] <= '9' {
			id = id*10 + int64(raw[n]-'0')
			n++
		}
		if n == 0 || n == len(raw) || bytes.IndexByte([]byte(", }\t\r\n"), raw[n]) < 0 {
			return fmt.Errorf("vocabulary: token %.100q has id %.20s, expected 0..2147483647", token, raw)
		}
		*v = append(*v, vocabEntry{token, id})
		raw = raw[n:]
	}
}

// unquote reads a JSON string; most have neither escapes nor broken UTF-8.
func unquote(quoted []byte) (string, error) {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var s string
	err := json.Unmarshal(quoted, &s)
	return s, err
}

// build makes the vocabulary, with room for added tokens. A token that comes twice has its last id.
func (v vocabJSON) build(added int) (*vocab, error) {
	out := newVocab(len(v) + added)
	for i := len(v) - 1; i >= 0; i-- {
		if _, ok := out.ids[v[i].token]; ok {
			continue
		}
		if err := out.add(v[i].token, v[i].id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mergesJSON is ["a b", ...] or [["a", "b"], ...].
type mergesJSON [][2]string

func (m *mergesJSON) UnmarshalJSON(raw []byte) error {
	var pairs [][]string
	if json.Unmarshal(raw, &pairs) == nil {
		for i, pair := range pairs {
			if len(pair) != 2 {
				return fmt.Errorf("merges: entry %d has %d parts, expected 2", i, len(pair))
			}
			*m = append(*m, [2]string{pair[0], pair[1]})
		}
		return nil
	}
	var lines []string
	if err := json.Unmarshal(raw, &lines); err != nil {
		return fmt.Errorf("merges: expected an array of \"a b\" or of [\"a\", \"b\"]")
	}
	return m.parse(lines)
}

// parse reads "a b"; a line that begins with #version is a comment.
func (m *mergesJSON) parse(lines []string) error {
	for i, line := range lines {
		if strings.HasPrefix(line, "#version") {
			continue
		}
		left, right, ok := strings.Cut(line, " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") {
			return fmt.Errorf("merges: entry %d is %.100q, expected two tokens and a space between them", i, line)
		}
		*m = append(*m, [2]string{left, right})
	}
	return nil
}
