package hotpath

import (
	"fmt"

	"hotpath/internal/tokenizer"
)

// chunks reads how long texts are split.
func (p *embedPlan) chunks(o *EmbedOptions) error {
	if !o.Chunk {
		if o.ChunkTokens != 0 || o.ChunkOverlap != 0 {
			return fmt.Errorf("%w: the size or overlap of chunks is set, but chunking is off", ErrInput)
		}
		return nil
	}
	if p.prompt != "" {
		p.ids = p.tok.Encode(nil, p.prompt, tokenizer.Options{ParseSpecial: true}, nil)
	}
	size := o.ChunkTokens
	if size == 0 {
		size = p.maxSeq
	}
	p.window, p.overlap = size-p.framed(), o.ChunkOverlap
	switch {
	case size < 0 || size > p.maxSeq:
		return fmt.Errorf("%w: chunks of %d tokens, expected 1 to %d", ErrInput, size, p.maxSeq)
	case p.window < 1:
		return fmt.Errorf("%w: chunks of %d tokens, but prompt and special tokens need %d, expected a larger chunk size", ErrInput, size, p.framed())
	case p.overlap < 0 || p.overlap >= p.window:
		return fmt.Errorf("%w: chunks with an overlap of %d tokens, expected 0 to %d", ErrInput, p.overlap, p.window-1)
	}
	return nil
}

// framed is what a chunk has beside its share of the text.
func (p *embedPlan) framed() int { return p.frame.head + len(p.ids) + p.frame.tail }

// split appends the chunks of b.whole: each has the special tokens and the
// prompt that the text has, and its share of what lies between.
func (b *textBatch) split(p *embedPlan) {
	// The prompt's last tokens may have merged with the text's first: what
	// merged belongs to the text.
	head := p.frame.head
	for _, id := range p.ids {
		if b.whole[head] != id {
			break
		}
		head++
	}
	tail := len(b.whole) - p.frame.tail
	before, body, behind := b.whole[:head], b.whole[head:tail], b.whole[tail:]
	for {
		n := min(p.window, len(body))
		b.ids = append(b.ids, before...)
		b.ids = append(b.ids, body[:n]...)
		b.ids = append(b.ids, behind...)
		b.pieces = append(b.pieces, piece{end: len(b.ids), weight: n})
		if n == len(body) {
			return
		}
		body = body[p.window-p.overlap:]
	}
}

// mean writes the mean of vectors [pieces,width], each counted as often as its
// piece has tokens, cut to the length of dst.
func mean(dst []float32, pieces []piece, vectors []float32, width int) {
	total := 0
	for _, p := range pieces {
		total += p.weight
	}
	clear(dst)
	for i, p := range pieces {
		w := float32(p.weight) / float32(total)
		for k, x := range vectors[i*width : i*width+len(dst)] {
			dst[k] += w * x
		}
	}
}
