package hotpath

import (
	"context"
	"fmt"
	"slices"

	"hotpath/internal/tokenizer"
)

// textBatch holds tokenized texts and the buffers of one Embed call.
type textBatch struct {
	scratch tokenizer.Scratch
	ids     []int32 // of all pieces
	whole   []int32 // of one text, before it is split
	pieces  []piece
	texts   []tokenized
	seqs    [][]int32 // of each piece in ids
	vectors []float32 // [pieces,width], where they are not the answer yet
}

// piece is what one sequence of a run holds: a text, or a chunk of one.
type piece struct {
	end    int // in ids; it begins where the one before ends
	weight int // tokens of the text itself
}

// tokenized is one text.
type tokenized struct {
	first, n int // pieces
	tokens   int
	cut      bool
}

func (b *textBatch) reset() {
	b.ids, b.pieces, b.texts, b.seqs = b.ids[:0], b.pieces[:0], b.texts[:0], b.seqs[:0]
}

// addText tokenizes one text. On an error the batch is as before; where ctx ended
// under way, nobody may use it.
func (b *textBatch) addText(ctx context.Context, p *embedPlan, index int, text string, s *tokenizer.Scratch) error {
	if p.prompt != "" {
		text = p.prompt + text
	}
	from := len(b.ids)
	b.ids = p.tok.Encode(b.ids, text, tokenizer.Options{Special: true, ParseSpecial: true, Done: ctx.Done()}, s)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(b.ids) == from && !p.empty {
		// A text without tokens is the beginning of one, or else its end.
		id, ok := p.tok.BOS()
		if !ok {
			id, ok = p.tok.EOS()
		}
		if !ok {
			return fmt.Errorf("%w: text %d has no tokens", ErrInput, index+1)
		}
		b.ids = append(b.ids, id)
	}
	n, limit := len(b.ids)-from, p.maxSeq
	if p.window > 0 {
		limit = p.window + p.framed()
	}
	t := tokenized{first: len(b.pieces), n: 1, tokens: n}
	switch {
	case n <= limit:
		b.pieces = append(b.pieces, piece{end: len(b.ids), weight: n})
	case p.window > 0:
		b.whole = append(b.whole[:0], b.ids[from:]...)
		b.ids = b.ids[:from]
		b.split(p)
		t.n, t.tokens = len(b.pieces)-t.first, len(b.ids)-from
	case p.refuse:
		b.ids = b.ids[:from]
		return &TooLongError{Index: index, Tokens: n, Max: limit}
	default:
		b.ids = b.ids[:from+p.frame.cut(b.ids[from:], limit)]
		b.pieces = append(b.pieces, piece{end: len(b.ids), weight: limit})
		t.tokens, t.cut = limit, true
	}
	b.texts = append(b.texts, t)
	return nil
}

// sequences fills seqs, once all texts are there.
func (b *textBatch) sequences() {
	from := 0
	for _, p := range b.pieces {
		b.seqs = append(b.seqs, b.ids[from:p.end])
		from = p.end
	}
}

// use fills u, which may be nil.
func (b *textBatch) use(u *EmbedUsage) {
	if u == nil {
		return
	}
	u.Tokens, u.Chunks, u.Truncated = u.Tokens[:0], u.Chunks[:0], u.Truncated[:0]
	for i, t := range b.texts {
		u.Tokens, u.Chunks = append(u.Tokens, t.tokens), append(u.Chunks, t.n)
		if t.cut {
			u.Truncated = append(u.Truncated, i)
		}
	}
}

// frame is how many ids a tokenizer puts before and behind a text.
type frame struct{ head, tail int }

// findFrame compares a text with and without special tokens.
func findFrame(t *tokenizer.Tokenizer) frame {
	plain := t.Encode(nil, "a", tokenizer.Options{}, nil)
	full := t.Encode(nil, "a", tokenizer.Options{Special: true}, nil)
	for k := 0; k+len(plain) <= len(full); k++ {
		if slices.Equal(full[k:k+len(plain)], plain) {
			return frame{head: k, tail: len(full) - k - len(plain)}
		}
	}
	return frame{}
}

// cut shortens ids to n, keeps what closes the text, and returns n.
func (f frame) cut(ids []int32, n int) int {
	tail := min(f.tail, n)
	copy(ids[n-tail:n], ids[len(ids)-tail:])
	return n
}
