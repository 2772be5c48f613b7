package hotpath

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"hotpath/internal/engine"
)

// window is the texts that a stream hands to the model at once.
type window struct {
	plan   *embedPlan
	blocks []*block

	seqs    [][]int32 // of all pieces, long ones first
	order   []int32   // the piece of each of seqs
	tokens  int
	vectors []float32 // [pieces,width], in the order of texts
	sorted  []float32 // [pieces,width], in the order of seqs
	all     [][]int32 // of all pieces, in the order of texts
}

// embedBlocks embeds the texts of all blocks. An error ends the stream; answers before
// it count.
func (w *window) embedBlocks(ctx context.Context, m *Model) (out []answered, err error) {
	defer engine.Guard(&err)
	w.sort()
	width := w.plan.width
	n := len(w.seqs) * width
	w.sorted = slices.Grow(w.sorted[:0], n)[:n]
	if err := m.eng.EmbedIDs(ctx, w.seqs, w.sorted, w.plan.model); err != nil {
		if ends(ctx, err) {
			return nil, err
		}
		return w.each(ctx, m)
	}
	w.vectors = slices.Grow(w.vectors[:0], n)[:n]
	for i, k := range w.order {
		copy(w.vectors[int(k)*width:(int(k)+1)*width], w.sorted[i*width:])
	}
	return w.answers(), nil
}

// sort puts pieces in order of length: the few runs that hold a long one come
// first, the others are alike, and the last ones, which end at different times
// on different workers, are the shortest.
func (w *window) sort() {
	w.all, w.seqs, w.order, w.tokens = w.all[:0], w.seqs[:0], w.order[:0], 0
	for _, b := range w.blocks {
		w.all = append(w.all, b.seqs...)
		w.tokens += b.tokens
	}
	for k := range w.all {
		w.order = append(w.order, int32(k))
	}
	slices.SortStableFunc(w.order, func(a, b int32) int { return cmp.Compare(len(w.all[b]), len(w.all[a])) })
	for _, k := range w.order {
		w.seqs = append(w.seqs, w.all[k])
	}
}

// answers makes them of w.vectors.
func (w *window) answers() []answered {
	var out []answered
	flat := make([]float32, w.texts()*w.plan.dim) // the caller's
	first := 0
	for _, b := range w.blocks {
		for i, t := range b.texts {
			vector := flat[:w.plan.dim:w.plan.dim]
			flat = flat[w.plan.dim:]
			out = append(out, b.answer(w.plan, i, vector, w.vectors[(first+t.first)*w.plan.width:]))
		}
		first += len(b.pieces)
	}
	return out
}

func (w *window) texts() int {
	n := 0
	for _, b := range w.blocks {
		n += len(b.texts)
	}
	return n
}

// answer makes that of text i of the vectors of its pieces.
func (b *block) answer(p *embedPlan, i int, vector, pieces []float32) answered {
	t, a := b.texts[i], answered{Embedding: Embedding{Index: b.first + i}, err: b.errs[i]}
	if a.err == nil {
		a.Tokens, a.Chunks, a.Truncated, a.Vector = t.tokens, t.n, t.cut, vector
		p.finish(vector, b.pieces[t.first:t.first+t.n], pieces)
	}
	return a
}

// each embeds one text after the other, where the window as a whole failed, so
// that the error is of its text alone.
func (w *window) each(ctx context.Context, m *Model) ([]answered, error) {
	var out []answered
	for _, b := range w.blocks {
		for i, t := range b.texts {
			w.vectors = slices.Grow(w.vectors[:0], t.n*w.plan.width)[:t.n*w.plan.width]
			if err := m.eng.EmbedIDs(ctx, b.seqs[t.first:t.first+t.n], w.vectors, w.plan.model); err != nil {
				if ends(ctx, err) {
					return out, err
				}
				b.errs[i] = fmt.Errorf("text %d: %w", b.first+i+1, err)
			}
			out = append(out, b.answer(w.plan, i, make([]float32, w.plan.dim), w.vectors))
		}
	}
	return out, nil
}
