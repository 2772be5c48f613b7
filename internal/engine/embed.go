package engine

import (
	"context"
	"errors"
	"fmt"

	"hotpath/internal/calib"
	"hotpath/internal/limit"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// EmbedIDs embeds sequences of token ids into dst[len(seqs),EmbedDim]. Calls at the
// same time are merged into common runs; ctx ends this call and no other.
// After the first calls it allocates nothing.
func (e *Engine) EmbedIDs(ctx context.Context, seqs [][]int32, dst []float32, o model.EmbedOptions) (err error) {
	if err := e.enter(embedding); err != nil {
		return err
	}
	defer e.leave(embedding)
	defer Guard(&err)
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
	m := e.embedderOf(o)
	return m, m.prog.open(ctx, e, func(ctx context.Context) error { return m.compile(ctx, o) })
}

// embedderOf finds the program, which may have to be compiled.
func (e *Engine) embedderOf(o model.EmbedOptions) *embedder {
	e.progs.Lock()
	defer e.progs.Unlock()
	m := e.embedders[o]
	if m == nil {
		m = &embedder{eng: e, prog: newProgram(), name: "embed"}
		if n := len(e.embedders); n > 0 {
			m.name = fmt.Sprintf("embed.%d", n)
		}
		m.work, m.alone = m.coarseWorker, m.serve
		e.embedders[o] = m
	}
	return m
}

func (m *embedder) compile(ctx context.Context, o model.EmbedOptions) error {
	e, labels := m.eng, plan.ProfileLabels{Phases: []string{"embed"}}
	// A text is embedded in one run, however long it is.
	t := max(e.opts.MaxBatchTokens, e.cfg.MaxSeq)
	g, p, err := e.model.BuildEmbed(tensor.Bind{T: t, S: e.opts.MaxSeqs, R: 1}, o)
	if err != nil {
		return err
	}
	fine, err := e.newRunner(ctx, m.name, g, p, p.Embedding, plan.CompileOptions{}, labels)
	if err != nil {
		return err
	}
	var coarse []*worker
	if e.caps.Coarse != nil && e.opts.Parallel != Fine {
		if coarse, err = e.openCoarse(ctx, m.name+".coarse", o, labels); err != nil {
			return errors.Join(err, e.drop(fine))
		}
		m.rounds = e.opts.Recorder.Round(m.name+".coarse", labels.Phases[0], workerNames(len(coarse)))
	}
	m.fine, m.coarse, m.limits = fine, coarse, limit.NewClasses(len(coarse))
	m.sched = scheduler{mode: e.opts.Parallel, coarse: len(coarse) > 0, costs: e.costs, work: workOf(fine.sess), most: e.opts.MaxBatchTokens}
	return nil
}

// openCoarse gives every worker a serial session: its own arenas, the same
// weights. There are all of them, or none beside an error.
func (e *Engine) openCoarse(ctx context.Context, name string, o model.EmbedOptions, labels plan.ProfileLabels) ([]*worker, error) {
	t := min(CoarseRunTokens, max(e.opts.MaxBatchTokens, e.cfg.MaxSeq))
	g, p, err := e.model.BuildEmbed(tensor.Bind{T: t, S: min(t, e.opts.MaxSeqs), R: 1}, o)
	if err != nil {
		return nil, err
	}
	prog, err := plan.Compile(name, g, e.be, plan.Buckets(e.be, g.Max), plan.CompileOptions{Invariant: e.opts.Invariant})
	if err != nil {
		return nil, err
	}
	var workers []*worker
	var runners []*runner
	for range e.opts.Workers {
		r, err := e.newSession(ctx, prog, p, p.Embedding, plan.BindOptions{Serial: true}, labels)
		if err != nil {
			return nil, errors.Join(err, e.drop(runners...))
		}
		workers, runners = append(workers, &worker{runner: r, parts: make([]part, 0, 1)}), append(runners, r)
	}
	return workers, nil
}

func workerNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("worker %d", i)
	}
	return names
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
	var err error
	m.unlocked(func() { err = w.run(ctx) })
	m.settle(w, err)
}

// unlocked calls f without m.mu, which is held again after it and after a panic
// of it.
func (m *embedder) unlocked(f func()) {
	m.mu.Unlock()
	defer m.mu.Lock()
	f()
}

// coarseRound lets every worker run batches of its own until what waited at
// its beginning is done. m.mu is held, except while workers run.
func (m *embedder) coarseRound(l load) {
	n := min(len(m.coarse), l.seqs)
	lim := m.limits.Of(l.tokens)
	active := min(n, lim.Workers()) // runs are cut for n, whoever takes part
	m.ran, m.quota, m.split = 0, l.seqs, calib.NewSplit(l.tokens, n, CoarseRunTokens)
	if n > 1 {
		for c := m.head; c != nil; c = c.next {
			c.longestFirst()
		}
	}
	ctx := m.eng.base
	if m.leader != nil {
		ctx = m.leader.ctx // which lead looks at next
	}
	m.broken = nil
	start := profile.Now()
	m.unlocked(func() {
		m.rounds.Begin()
		defer m.rounds.End()
		_ = m.eng.caps.Coarse(ctx, active, m.work)
	})
	if m.ran == l.tokens && n == len(m.coarse) { // it and nothing else, to its end, whoever waits by now
		lim.Took(float64(max(1, l.tokens)), float64(profile.Now()-start)/1e9, limit.Host)
	}
	m.quota, m.split = 0, calib.Split{}
	if m.broken != nil {
		m.abort(m.broken)
	}
}

func (m *embedder) coarseWorker(i int) {
	w := m.coarse[i]
	m.rounds.Enter(i)
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() {
		if p := recover(); p != nil { // on a worker, whom no caller recovers for
			m.broken = panicked(p)
		}
	}()
	for m.quota > 0 && m.head != nil && (m.split.Left() > 0 || m.head.empty()) && !m.joined() && !m.eng.closing.Load() {
		ctx := m.compose(w, m.split.Next())
		m.split.Take(w.bind.T)
		if w.bind.S == 0 {
			return // a long text arrived in the middle of the round
		}
		m.quota -= w.bind.S
		m.eng.stats.coarse.Add(1)
		var err error
		m.unlocked(func() {
			err = w.run(ctx)
			start, end := w.sess.Ran()
			m.rounds.Ran(i, start, end)
		})
		m.settle(w, err)
	}
}
