package model

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// Pairs of texts as one sequence: what the tokenizer's files put around and
// between them, or the words that a model is asked with.

// Pairs puts two texts together. It may be used by many goroutines at once,
// each with a Scratch of its own.
type Pairs struct {
	tok    *tokenizer.Tokenizer
	pieces []pairPiece
	most   int // tokens of a pair
	asked  bool
	before []int32
	after  []int32
	trim   int32 // at the end of a pair it is none of it; -1: nothing is
}

// pairPiece is one of the texts or special tokens.
type pairPiece struct {
	text    int // 1 and 2 are the texts, 0 is ids
	ids     []int32
	segment int32
}

// PairScratch holds the buffers of one goroutine. The zero value is ready.
type PairScratch struct {
	tok  tokenizer.Scratch
	a, b []int32
	Done <-chan struct{} // ends long texts early, as tokenizer.Options.Done does
}

// Pairs reads how the model wants two texts together.
func (m *Model) Pairs() (*Pairs, error) {
	tok, err := m.Tokenizer()
	if err != nil {
		return nil, err
	}
	p := &Pairs{tok: tok, most: m.cfg.MaxSeq, trim: -1}
	o := tokenizer.Options{ParseSpecial: true}
	switch {
	case m.cfg.scorer.asked:
		p.asked, p.most = true, min(p.most, askMost)
		p.before, p.after = tok.Encode(nil, askBefore, o, nil), tok.Encode(nil, askAfter, o, nil)
	case m.store.HF() != nil:
		if p.pieces, err = pairHF(m.store.HF()); err == nil {
			err = p.limits(m)
		}
	default:
		p.pieces, err = pairGGUF(m, tok)
	}
	if err != nil {
		return nil, err
	}
	if s, ok := m.desc.(segmenter); ok && s.segmentRows() > 1 {
		if h := m.store.HF(); h != nil {
			told, err := h.TellsSegments()
			if err != nil {
				return nil, err
			}
			for i := range p.pieces {
				if !told {
					p.pieces[i].segment = 0
				}
			}
		}
		for _, piece := range p.pieces {
			if int(piece.segment) >= s.segmentRows() {
				return nil, fmt.Errorf("%s: the pair's template has segment %d, expected less than the model's %d: %w", m.store.Path(), piece.segment, s.segmentRows(), weights.ErrInvalid)
			}
		}
	}
	if own := p.own(); own >= p.most {
		return nil, fmt.Errorf("%s: a pair has %d tokens of its own, expected fewer than the %d that the model takes: %w", m.store.Path(), own, p.most, weights.ErrInvalid)
	}
	return p, nil
}

// limits reads where pairs are cut, and which token a decoder does not score:
// transformers takes the last one that is not padding, and some families put
// the padding's token behind every text.
func (p *Pairs) limits(m *Model) error {
	h := m.store.HF()
	if h.TokenizerConfig != nil {
		n, err := h.TokenizerConfig.FloatOr("model_max_length", 0)
		if err != nil {
			return err
		}
		if n >= 1 && n < float64(p.most) {
			p.most = int(n)
		}
	}
	if m.cfg.scorer.key != "" && h.Config.Has("pad_token_id") {
		pad, err := h.Config.ID("pad_token_id")
		if err != nil {
			return err
		}
		p.trim = int32(pad)
	}
	return nil
}

// own is the number of tokens that belong to neither text.
func (p *Pairs) own() int {
	n := len(p.before) + len(p.after)
	for _, piece := range p.pieces {
		n += len(piece.ids)
	}
	return n
}

// Most is the largest number of tokens that a pair becomes.
func (p *Pairs) Most() int { return p.most }

// Append adds the ids of a pair to ids and the texts that they belong to, 0 or
// 1, to segments. What is longer than Most loses its end: of two texts the
// longer one first, as Hugging Face cuts pairs; whole is how long it was.
func (p *Pairs) Append(ids, segments []int32, first, second string, s *PairScratch) (_, _ []int32, whole int) {
	room := p.most - p.own()
	if p.asked {
		s.a = p.tok.Encode(s.a[:0], fmt.Sprintf(askPair, first, second), tokenizer.Options{ParseSpecial: true, Done: s.Done}, &s.tok)
		whole = p.own() + len(s.a)
		s.a = s.a[:min(len(s.a), room)]
		n := len(ids)
		ids = append(append(append(ids, p.before...), s.a...), p.after...)
		return ids, append(segments, make([]int32, len(ids)-n)...), whole
	}
	o := tokenizer.Options{ParseSpecial: true, Done: s.Done}
	s.a = p.tok.Encode(s.a[:0], first, o, &s.tok)
	s.b = p.tok.Encode(s.b[:0], second, o, &s.tok)
	na, nb := cutPair(len(s.a), len(s.b), room)
	whole = p.own() + len(s.a) + len(s.b)
	texts := [3][]int32{nil, s.a[:na], s.b[:nb]}
	from := len(ids)
	for _, piece := range p.pieces {
		part := piece.ids
		if piece.text > 0 {
			part = texts[piece.text]
		}
		ids = append(ids, part...)
		for range part {
			segments = append(segments, piece.segment)
		}
	}
	for len(ids) > from+1 && ids[len(ids)-1] == p.trim {
		ids, segments = ids[:len(ids)-1], segments[:len(segments)-1]
	}
	return ids, segments, whole
}

// cutPair is how many tokens of two texts are kept so that room holds them:
// the longer one loses tokens until both are equally long, then both do.
func cutPair(a, b, room int) (int, int) {
	if a+b <= room {
		return a, b
	}
	short := min(a, b, room/2)
	if a > b {
		return room - short, short
	}
	return short, room - short
}

// pairHF reads the pair's template of tokenizer.json.
func pairHF(h *weights.HFDir) ([]pairPiece, error) {
	file := filepath.Join(h.Dir, "tokenizer.json")
	var raw struct {
		Post json.RawMessage `json:"post_processor"`
	}
	if err := json.Unmarshal(h.TokenizerJSON, &raw); err != nil {
		return nil, fmt.Errorf("%s: %v: %w", file, err, weights.ErrInvalid)
	}
	pieces, err := pairTemplate(raw.Post)
	if err != nil {
		return nil, fmt.Errorf("%s: field post_processor: %w", file, err)
	}
	if pieces == nil { // nothing is put around texts
		pieces = []pairPiece{{text: 1}, {text: 2, segment: 1}}
	}
	return pieces, nil
}

// pairTemplate is nil where a post-processor puts nothing around texts.
func pairTemplate(raw json.RawMessage) ([]pairPiece, error) {
	var p struct {
		Type       string
		Processors []json.RawMessage
		Cls, Sep   []json.RawMessage
		Pair       []struct {
			SpecialToken *templatePiece
			Sequence     *templatePiece
		}
		SpecialTokens map[string]struct{ IDs []int32 } `json:"special_tokens"`
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("%v: %w", err, weights.ErrInvalid)
	}
	switch p.Type {
	case "ByteLevel":
		return nil, nil
	case "Sequence":
		var found []pairPiece
		for _, part := range p.Processors {
			pieces, err := pairTemplate(part)
			if err == nil && pieces != nil && found != nil {
				err = fmt.Errorf("two processors add tokens to a pair, expected one: %w", weights.ErrUnsupported)
			}
			if err != nil {
				return nil, err
			}
			if pieces != nil {
				found = pieces
			}
		}
		return found, nil
	case "BertProcessing", "RobertaProcessing":
		cls, err := idOf("cls", p.Cls)
		if err != nil {
			return nil, err
		}
		sep, err := idOf("sep", p.Sep)
		if err != nil {
			return nil, err
		}
		if p.Type == "BertProcessing" {
			return bertPair(cls, sep), nil
		}
		return robertaPair(cls, sep, sep), nil
	case "TemplateProcessing":
	default:
		return nil, fmt.Errorf("type %q, expected a kind that knows pairs of texts: %w", p.Type, weights.ErrUnsupported)
	}
	var pieces []pairPiece
	var found [3]int
	for _, piece := range p.Pair {
		switch {
		case piece.Sequence != nil:
			text := strings.Index("AB", piece.Sequence.ID) + 1
			if text == 0 || len(piece.Sequence.ID) != 1 {
				return nil, fmt.Errorf("field pair: sequence %q, expected A or B: %w", piece.Sequence.ID, weights.ErrInvalid)
			}
			found[text]++
			pieces = append(pieces, pairPiece{text: text, segment: piece.Sequence.TypeID})
		case piece.SpecialToken != nil:
			ids := p.SpecialTokens[piece.SpecialToken.ID].IDs
			if len(ids) == 0 {
				return nil, fmt.Errorf("field pair: names %q, which special_tokens does not have: %w", piece.SpecialToken.ID, weights.ErrInvalid)
			}
			pieces = append(pieces, pairPiece{ids: ids, segment: piece.SpecialToken.TypeID})
		}
	}
	if found != [3]int{0, 1, 1} {
		return nil, fmt.Errorf("field pair: expected both texts once: %w", weights.ErrInvalid)
	}
	for _, piece := range pieces {
		if piece.segment < 0 || slices.ContainsFunc(piece.ids, func(id int32) bool { return id < 0 }) {
			return nil, fmt.Errorf("field pair: a token or segment id is negative, expected 0 or more: %w", weights.ErrInvalid)
		}
	}
	return pieces, nil
}

type templatePiece struct {
	ID     string
	TypeID int32 `json:"type_id"`
}

// idOf reads ["[CLS]", 101].
func idOf(field string, pair []json.RawMessage) (int32, error) {
	var id int32
	if len(pair) != 2 || json.Unmarshal(pair[1], &id) != nil || id < 0 {
		return 0, fmt.Errorf("field %s: expected [token, id]: %w", field, weights.ErrInvalid)
	}
	return id, nil
}

func bertPair(cls, sep int32) []pairPiece {
	return []pairPiece{{ids: []int32{cls}}, {text: 1}, {ids: []int32{sep}}, {text: 2, segment: 1}, {ids: []int32{sep}, segment: 1}}
}

func robertaPair(bos, eos, sep int32) []pairPiece {
	return []pairPiece{{ids: []int32{bos}}, {text: 1}, {ids: []int32{eos, sep}}, {text: 2}, {ids: []int32{eos}}}
}

// pairGGUF knows pairs by the kind of the tokenizer: files have no template.
func pairGGUF(m *Model, tok *tokenizer.Tokenizer) ([]pairPiece, error) {
	around := tok.Encode(nil, "", tokenizer.Options{Special: true}, nil)
	if len(around) == 0 {
		return []pairPiece{{text: 1}, {text: 2, segment: 1}}, nil
	}
	if len(around) != 2 {
		return nil, fmt.Errorf("%s: the tokenizer puts %d tokens around a text, expected 2: one before it, and one after it that also separates two texts: %w", m.store.Path(), len(around), weights.ErrUnsupported)
	}
	kind, _ := m.store.GGUF().String("tokenizer.ggml.model")
	if kind == "bert" || m.cfg.Arch == "modernbert" {
		return bertPair(around[0], around[1]), nil
	}
	return robertaPair(around[0], around[1], around[1]), nil
}
