package hotpath

import (
	"context"
	"fmt"
	"math"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tokenizer"
	"hotpath/profile"
)

// EmbedOptions say how texts become vectors. The zero value does as the model
// was made for, with vectors of unit length.
type EmbedOptions struct {
	Pooling     string // "mean", "cls" or "last"; "" is the model's own
	NoNormalize bool   // leave vectors as long as they come
	Dim         int    // keep the first Dim elements, and make them unit length again; 0 keeps all
	NoTruncate  bool   // a text that is too long is an error instead of being cut
	Prompt      string // put before each text
	// Usage, if not nil, is filled with what was embedded.
	Usage *EmbedUsage
}

// EmbedUsage says what a call embedded. Its slices are reused when a call gets
// it again.
type EmbedUsage struct {
	Tokens    []int // of each text, after it was cut
	Truncated []int // indices of texts that were cut
}

// textBatch holds the buffers of one Embed call.
type textBatch struct {
	scratch tokenizer.Scratch
	ids     []int32
	ends    []int // of each text in ids
	seqs    [][]int32
	vectors []float32 // [texts,Dim of the model], for vectors that are cut
	usage   EmbedUsage
}

// Dim is the length of the vectors that Embed makes.
func (m *Model) Dim() int { return m.cfg.Dim }

// Embed gives one vector a text. Texts that are too long are cut to the
// model's maximum; Usage tells which.
func (m *Model) Embed(ctx context.Context, texts []string, o EmbedOptions) ([][]float32, error) {
	d := m.cfg.Dim
	if o.Dim > 0 {
		d = min(d, o.Dim)
	}
	flat := make([]float32, len(texts)*d)
	if err := m.EmbedInto(ctx, flat, texts, o); err != nil {
		return nil, err
	}
	out := make([][]float32, len(texts))
	for i := range out {
		out[i] = flat[i*d : (i+1)*d : (i+1)*d]
	}
	return out, nil
}

// EmbedInto is Embed into dst[len(texts),Dim]. After the first calls it
// allocates nothing.
func (m *Model) EmbedInto(ctx context.Context, dst []float32, texts []string, o EmbedOptions) (err error) {
	defer guard(&err)
	mo, err := m.embedOptions(o)
	if err != nil {
		return err
	}
	ctx = m.recorded(ctx)
	b := m.takeBatch()
	defer m.putBatch(b)
	_, end := profile.Scope(ctx, "tokenize")
	err = m.tokenizeAll(b, texts, o)
	end()
	if err != nil {
		return err
	}
	if o.Usage != nil {
		o.Usage.Tokens = append(o.Usage.Tokens[:0], b.usage.Tokens...)
		o.Usage.Truncated = append(o.Usage.Truncated[:0], b.usage.Truncated...)
	}
	d := m.cfg.Dim
	if o.Dim == 0 || o.Dim >= d {
		return m.eng.EmbedIDs(ctx, b.seqs, dst, mo)
	}
	if len(dst) < len(texts)*o.Dim {
		return fmt.Errorf("%w: room for %d floats, expected %d for %d embeddings", ErrInput, len(dst), len(texts)*o.Dim, len(texts))
	}
	b.vectors = slices.Grow(b.vectors[:0], len(texts)*d)[:len(texts)*d]
	if err := m.eng.EmbedIDs(ctx, b.seqs, b.vectors, mo); err != nil {
		return err
	}
	for i := range texts {
		v := dst[i*o.Dim : (i+1)*o.Dim]
		copy(v, b.vectors[i*d:])
		if !o.NoNormalize {
			normalize(v)
		}
	}
	return nil
}

func (m *Model) embedOptions(o EmbedOptions) (model.EmbedOptions, error) {
	mo := model.EmbedOptions{Pooling: m.cfg.Pooling, Normalize: !o.NoNormalize}
	if o.Dim < 0 {
		return mo, fmt.Errorf("%w: %d dimensions, expected 0 or more", ErrInput, o.Dim)
	}
	if o.Pooling == "" {
		return mo, nil
	}
	for _, k := range [...]graph.PoolKind{graph.PoolMean, graph.PoolCLS, graph.PoolLast} {
		if k.String() == o.Pooling {
			mo.Pooling = k
			return mo, nil
		}
	}
	return mo, fmt.Errorf("%w: pooling %q, expected mean, cls or last", ErrInput, o.Pooling)
}

// tokenizeAll fills b.seqs and b.usage.
func (m *Model) tokenizeAll(b *textBatch, texts []string, o EmbedOptions) error {
	b.ids, b.ends, b.seqs = b.ids[:0], b.ends[:0], b.seqs[:0]
	b.usage.Tokens, b.usage.Truncated = b.usage.Tokens[:0], b.usage.Truncated[:0]
	for i, text := range texts {
		if o.Prompt != "" {
			text = o.Prompt + text
		}
		from := len(b.ids)
		b.ids = m.tok.Encode(b.ids, text, tokenizer.Options{Special: true, ParseSpecial: true}, &b.scratch)
		if bos, ok := m.tok.BOS(); ok && len(b.ids) == from {
			b.ids = append(b.ids, bos) // a text without tokens is the beginning of one
		}
		if n := len(b.ids) - from; n > m.cfg.MaxSeq {
			if o.NoTruncate {
				return fmt.Errorf("%w: text %d has %d tokens, expected at most %d", ErrTooLong, i, n, m.cfg.MaxSeq)
			}
			b.ids = b.ids[:from+m.closing.cut(b.ids[from:], m.cfg.MaxSeq)]
			b.usage.Truncated = append(b.usage.Truncated, i)
		}
		b.ends = append(b.ends, len(b.ids))
		b.usage.Tokens = append(b.usage.Tokens, len(b.ids)-from)
	}
	from := 0
	for _, end := range b.ends {
		b.seqs = append(b.seqs, b.ids[from:end])
		from = end
	}
	return nil
}

// closing is the number of ids that a tokenizer adds behind a text.
type closing int

// findClosing compares a text with and without special tokens.
func findClosing(t *tokenizer.Tokenizer) closing {
	plain := t.Encode(nil, "a", tokenizer.Options{}, nil)
	full := t.Encode(nil, "a", tokenizer.Options{Special: true}, nil)
	for k := 0; k+len(plain) <= len(full); k++ {
		if slices.Equal(full[k:k+len(plain)], plain) {
			return closing(len(full) - k - len(plain))
		}
	}
	return 0
}

// cut shortens ids to n, keeps what closes the text, and returns n.
func (c closing) cut(ids []int32, n int) int {
	tail := min(int(c), n)
	copy(ids[n-tail:n], ids[len(ids)-tail:])
	return n
}

// normalize makes v unit length.
func normalize(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
}

func (m *Model) takeBatch() *textBatch {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.free); n > 0 {
		b := m.free[n-1]
		m.free = m.free[:n-1]
		return b
	}
	return new(textBatch)
}

func (m *Model) putBatch(b *textBatch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, b)
}
