package engine

import (
	"context"
	"fmt"

	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// reranker scores pairs of texts. One run is on its way at a time.
type reranker struct {
	prog     program
	runner   *runner
	segments []int32 // [T]; nil where the model has none
	pairs    *model.Pairs
	turn     turn // held by the call at work

	// Of the call that has the turn.
	scratch    model.PairScratch
	ids, parts []int32
	ends       []int // of each pair in ids
}

// Rerank scores each document against the query, higher being more relevant,
// into scores[len(docs)]: a number from 0 to 1 unless the model's own files
// say otherwise. Texts are cut to what the model takes, after long has been
// asked, which may be nil: it gets the document, how many tokens it has with
// the query and how many the model takes, and its error ends the call. Calls at
// the same time take turns; ctx ends a call, also while it waits.
func (e *Engine) Rerank(ctx context.Context, query string, docs []string, scores []float32, long func(doc, tokens, most int) error) (err error) {
	if err := e.enter(reranking); err != nil {
		return err
	}
	defer e.leave(reranking)
	defer Guard(&err)
	if !e.cfg.CanRerank {
		return fmt.Errorf("%w: this %s model has no scores for pairs of texts", ErrUnsupported, e.cfg.Arch)
	}
	if e.cfg.Labels != 1 {
		return fmt.Errorf("%w: the model gives %d numbers for a pair, expected one to rank by", ErrUnsupported, e.cfg.Labels)
	}
	if len(scores) < len(docs) {
		return fmt.Errorf("%w: room for %d scores, expected %d", ErrInput, len(scores), len(docs))
	}
	r := e.rerank
	if err := r.prog.open(ctx, e, func(ctx context.Context) error { return r.compile(ctx, e) }); err != nil {
		return err
	}
	ctx = e.scoped(ctx)
	if err := r.turn.lock(ctx); err != nil {
		return err
	}
	defer r.turn.unlock()
	_, end := profile.Scope(ctx, "tokenize")
	err = r.encode(ctx, query, docs, long)
	end()
	if err != nil {
		return err
	}
	return r.score(ctx, e, scores[:len(docs)])
}

// compile makes the program when first wanted.
func (r *reranker) compile(ctx context.Context, e *Engine) error {
	pairs, err := e.model.Pairs()
	if err != nil {
		return err
	}
	t := max(e.opts.MaxBatchTokens, pairs.Most()) // a pair is scored in one run
	g, p, err := e.model.BuildClassify(tensor.Bind{T: t, S: e.opts.MaxSeqs, R: 1})
	if err != nil {
		return err
	}
	run, err := e.newRunner(ctx, "rerank", g, p, p.Scores, plan.CompileOptions{}, plan.ProfileLabels{Phases: []string{"rerank"}})
	if err != nil {
		return err
	}
	r.runner, r.pairs = run, pairs
	if p.Segments != nil {
		r.segments = run.sess.I32(p.Segments)
	}
	return nil
}

// encode makes the tokens of all pairs.
func (r *reranker) encode(ctx context.Context, query string, docs []string, long func(doc, tokens, most int) error) error {
	r.ids, r.parts, r.ends = r.ids[:0], r.parts[:0], r.ends[:0]
	r.scratch.Done = ctx.Done()
	defer func() { r.scratch.Done = nil }()
	for i, doc := range docs {
		var whole int
		r.ids, r.parts, whole = r.pairs.Append(r.ids, r.parts, query, doc, &r.scratch)
		r.ends = append(r.ends, len(r.ids))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if most := r.pairs.Most(); long != nil && whole > most {
			if err := long(i, whole, most); err != nil {
				return err
			}
		}
	}
	return nil
}

// score runs the pairs in ragged batches, whole pairs up to the engine's
// number of tokens.
func (r *reranker) score(ctx context.Context, e *Engine, scores []float32) error {
	from, limit := 0, e.opts.MaxBatchTokens
	for i, first := 0, 0; i < len(scores); first = i {
		if e.closing.Load() {
			return ErrClosed
		}
		r.runner.reset()
		for i < len(scores) && r.runner.bind.S < r.runner.max.S {
			ids := r.ids[from:r.ends[i]]
			t := r.runner.bind.T
			if t > 0 && t+len(ids) > limit {
				break
			}
			if err := e.checkIDs(i, ids, r.pairs.Most()); err != nil {
				return err
			}
			if r.segments != nil {
				copy(r.segments[t:], r.parts[from:r.ends[i]])
			}
			r.runner.add(ids, 0, len(ids))
			from = r.ends[i]
			i++
		}
		if err := r.runner.run(ctx); err != nil {
			return err
		}
		got := r.runner.out[:i-first]
		if !finite(got) {
			return errNumbers
		}
		copy(scores[first:], got)
	}
	return context.Cause(ctx)
}
