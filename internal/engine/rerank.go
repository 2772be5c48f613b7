package engine

import (
	"context"
	"fmt"
	"sync"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// reranker scores pairs of texts: an embedder whose rows are one score.
type reranker struct {
	*embedder
	pairs *model.Pairs

	spare sync.Mutex // guards free
	free  []*pairBatch
}

// pairBatch holds the tokens of the pairs of one call.
type pairBatch struct {
	scratch        model.PairScratch
	ids, parts     []int32
	ends           []int     // of each pair in ids
	seqs, segments [][]int32 // of each pair
}

func newReranker(e *Engine) *reranker {
	r := &reranker{embedder: newEmbedder(e, reranking, "rerank")}
	r.tokens = &e.stats.rerank
	r.build = func(most tensor.Bind) (*graph.Graph, *model.Ports, *graph.Value, error) {
		g, p, err := e.model.BuildClassify(most)
		if err != nil {
			return nil, nil, nil, err
		}
		return g, p, p.Scores, nil
	}
	return r
}

// Rerank scores each document against the query into scores[len(docs)]. A higher
// score is more relevant. Scores are from 0 to 1 unless the model's files
// configure otherwise. Texts are truncated to the model's context. Before that,
// long is called, unless it is nil, with the document, its number of tokens with
// the query, and the model's maximum. An error of long ends the call. Concurrent
// calls are merged into common runs; ctx ends only this call.
func (e *Engine) Rerank(ctx context.Context, query string, docs []string, scores []float32, long func(doc, tokens, most int) error) (err error) {
	if err := e.enter(reranking); err != nil {
		return err
	}
	defer e.leave(reranking)
	defer Guard(&err)
	if !e.cfg.CanRerank {
		return fmt.Errorf("%w: this %s model computes no scores for pairs of texts, expected a reranker", ErrUnsupported, e.cfg.Arch)
	}
	if e.cfg.Labels != 1 {
		return fmt.Errorf("%w: the model computes %d numbers per pair, expected 1", ErrUnsupported, e.cfg.Labels)
	}
	if len(scores) < len(docs) {
		return fmt.Errorf("%w: scores has length %d, expected %d, one per document", ErrInput, len(scores), len(docs))
	}
	r := e.rerank
	if err := r.prog.open(ctx, e, r.open); err != nil {
		return err
	}
	if len(docs) == 0 {
		return context.Cause(ctx)
	}
	ctx = e.scoped(ctx)
	b := r.takeBatch()
	defer r.giveBatch(b)
	_, end := profile.Scope(ctx, "tokenize")
	err = b.encode(ctx, r.pairs, query, docs, long)
	end()
	if err != nil {
		return err
	}
	l, err := e.loadOf(b.seqs, r.pairs.Most())
	if err != nil {
		return err
	}
	return r.embed(ctx, b.seqs, b.segments, scores, l)
}

// open makes the program when first wanted.
func (r *reranker) open(ctx context.Context) error {
	pairs, err := r.eng.model.Pairs()
	if err != nil {
		return err
	}
	r.pairs, r.most = pairs, pairs.Most()
	return r.compile(ctx, false)
}

func (r *reranker) takeBatch() *pairBatch {
	r.spare.Lock()
	defer r.spare.Unlock()
	n := len(r.free)
	if n == 0 {
		return &pairBatch{}
	}
	b := r.free[n-1]
	r.free = r.free[:n-1]
	return b
}

func (r *reranker) giveBatch(b *pairBatch) {
	r.spare.Lock()
	defer r.spare.Unlock()
	r.free = append(r.free, b)
}

// encode makes the tokens of all pairs.
func (b *pairBatch) encode(ctx context.Context, pairs *model.Pairs, query string, docs []string, long func(doc, tokens, most int) error) error {
	b.ids, b.parts, b.ends = b.ids[:0], b.parts[:0], b.ends[:0]
	b.scratch.Done = ctx.Done()
	defer func() { b.scratch.Done = nil }()
	for i, doc := range docs {
		var whole int
		b.ids, b.parts, whole = pairs.Append(b.ids, b.parts, query, doc, &b.scratch)
		b.ends = append(b.ends, len(b.ids))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if most := pairs.Most(); long != nil && whole > most {
			if err := long(i, whole, most); err != nil {
				return err
			}
		}
	}
	b.seqs, b.segments = b.seqs[:0], b.segments[:0]
	from := 0
	for _, end := range b.ends {
		b.seqs, b.segments = append(b.seqs, b.ids[from:end]), append(b.segments, b.parts[from:end])
		from = end
	}
	return nil
}
