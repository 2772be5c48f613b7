package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hotpath/internal/calib"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// EmbedIDs embeds sequences of token ids into dst[len(seqs),EmbedDim]. Calls at the
// same time are merged into common runs; ctx ends this call and no other.
// After the first calls it allocates nothing.
func (e *Engine) EmbedIDs(ctx context.Context, seqs [][]int32, dst []float32, o model.EmbedOptions) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	if !e.cfg.CanEmbed {
		return fmt.Errorf("%w: %s has no embeddings", ErrUnsupported, e.cfg.Arch)
	}
	if len(dst) < len(seqs)*e.cfg.EmbedDim {
		return fmt.Errorf("%w: room for %d floats, expected %d for %d embeddings", ErrInput, len(dst), len(seqs)*e.cfg.EmbedDim, len(seqs))
	}
	var l load
	for i, ids := range seqs {
		if err := e.checkIDs(i, ids, e.cfg.MaxSeq); err != nil {
			return err
		}
		l.tokens += len(ids)
		l.longest = max(l.longest, len(ids))
	}
	if l.seqs = len(seqs); l.seqs == 0 {
		return context.Cause(ctx)
	}
	m, err := e.embedder(ctx, o)
	if err != nil {
		return err
	}
	return m.do(e.scoped(ctx), seqs, dst, l)
}

// embedder returns the program for one way of pooling.
func (e *Engine) embedder(ctx context.Context, o model.EmbedOptions) (*embedder, error) {
	if err := e.compile.lock(ctx); err != nil {
		return nil, err
	}
	defer e.compile.unlock()
	if m := e.embedders[o]; m != nil {
		return m, nil
	}
	m := &embedder{eng: e}
	m.work, m.alone = m.coarseWorker, m.serve
	name := "embed"
	if n := len(e.embedders); n > 0 {
		name = fmt.Sprintf("embed.%d", n)
	}
	labels := plan.ProfileLabels{Phases: []string{"embed"}}
	// A text is embedded in one run, however long it is.
	t := max(e.opts.MaxBatchTokens, e.cfg.MaxSeq)
	g, p, err := e.model.BuildEmbed(tensor.Bind{T: t, S: e.opts.MaxSeqs, R: 1}, o)
	if err != nil {
		return nil, err
	}
	if m.fine, err = e.newRunner(ctx, name, g, p, p.Embedding, plan.BindOptions{}, labels); err != nil {
		return nil, err
	}
	if e.caps.Coarse != nil && e.opts.Parallel != Fine {
		if err := e.openCoarse(ctx, m, name+".coarse", o, labels); err != nil {
			return nil, errors.Join(err, e.drop(m))
		}
	}
	m.sched = scheduler{mode: e.opts.Parallel, coarse: len(m.coarse) > 0, alike: m.fine.sess.Program().Uniform(), costs: e.costs, work: workOf(m.fine.sess), most: e.opts.MaxBatchTokens}
	e.embedders[o] = m
	return m, nil
}

// drop frees the sessions of an embedder that could not be opened whole.
func (e *Engine) drop(m *embedder) error {
	errs := []error{m.fine.sess.Close()}
	gone := []*runner{m.fine}
	for _, w := range m.coarse {
		errs = append(errs, w.sess.Close())
		gone = append(gone, w.runner)
	}
	e.runners = slices.DeleteFunc(e.runners, func(r *runner) bool { return slices.Contains(gone, r) })
	return errors.Join(errs...)
}

// openCoarse gives every worker a serial session: its own arenas, the same
// weights.
func (e *Engine) openCoarse(ctx context.Context, m *embedder, name string, o model.EmbedOptions, labels plan.ProfileLabels) error {
	t := min(CoarseRunTokens, max(e.opts.MaxBatchTokens, e.cfg.MaxSeq))
	g, p, err := e.model.BuildEmbed(tensor.Bind{T: t, S: min(t, e.opts.MaxSeqs), R: 1}, o)
	if err != nil {
		return err
	}
	prog, err := plan.Compile(name, g, e.be, plan.Buckets(e.be, g.Max), plan.CompileOptions{Invariant: e.opts.Invariant})
	if err != nil {
		return err
	}
	for range e.opts.Workers {
		r, err := e.newSession(ctx, prog, p, p.Embedding, plan.BindOptions{Serial: true}, labels)
		if err != nil {
			return err
		}
		m.coarse = append(m.coarse, &worker{runner: r})
	}
	names := make([]string, len(m.coarse))
	for i := range names {
		names[i] = fmt.Sprintf("worker %d", i)
	}
	m.rounds = e.opts.Recorder.Round(name, labels.Phases[0], names)
	return nil
}

// fineRun runs one batch of what waits on all workers. m.mu is held, except
// during the run.
func (m *embedder) fineRun() {
	w := &m.fineWorker
	w.runner = m.fine
	_, end := profile.Scope(m.eng.base, "batch")
	ctx := m.compose(w, m.eng.opts.MaxBatchTokens)
	end()
	m.eng.stats.fine.Add(1)
	m.mu.Unlock()
	err := w.run(ctx)
	m.mu.Lock()
	m.settle(w, err)
}

// coarseRound lets every worker run batches of its own until what waited at
// its beginning is done. m.mu is held, except while workers run.
func (m *embedder) coarseRound(l load, workers int) {
	n := min(workers, l.seqs)
	m.quota, m.split = l.seqs, calib.NewSplit(l.tokens, n, CoarseRunTokens)
	if n > 1 {
		for c := m.head; c != nil; c = c.next {
			c.longestFirst()
		}
	}
	ctx := m.eng.base
	if m.leader != nil {
		ctx = m.leader.ctx // which lead looks at next
	}
	m.mu.Unlock()
	m.rounds.Begin()
	_ = m.eng.caps.Coarse(ctx, n, m.work)
	m.rounds.End()
	m.mu.Lock()
	m.quota, m.split = 0, calib.Split{}
}

func (m *embedder) coarseWorker(i int) {
	w := m.coarse[i]
	m.rounds.Enter(i)
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.quota > 0 && m.head != nil && (m.split.Left() > 0 || m.head.empty()) && !m.joined() && !m.eng.closing.Load() {
		ctx := m.compose(w, m.split.Next())
		m.split.Take(w.bind.T)
		if w.bind.S == 0 {
			return // a long text arrived in the middle of the round
		}
		m.quota -= w.bind.S
		m.eng.stats.coarse.Add(1)
		m.mu.Unlock()
		err := w.run(ctx)
		start, end := w.sess.Ran()
		m.rounds.Ran(i, start, end)
		m.mu.Lock()
		m.settle(w, err)
	}
}
