package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"hotpath/internal/calib"
	"hotpath/internal/graph"
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
		return fmt.Errorf("%w: %s models compute no embeddings", ErrUnsupported, e.cfg.Arch)
	}
	if len(dst) < len(seqs)*e.cfg.EmbedDim {
		return fmt.Errorf("%w: dst has %d floats, expected %d for %d embeddings", ErrInput, len(dst), len(seqs)*e.cfg.EmbedDim, len(seqs))
	}
	l, err := e.loadOf(seqs, e.cfg.MaxSeq)
	if err != nil {
		return err
	}
	if l.seqs == 0 {
		return context.Cause(ctx)
	}
	m, err := e.embedder(ctx, o)
	if err != nil {
		return err
	}
	return m.embed(e.scoped(ctx), seqs, nil, dst, l)
}

// loadOf checks sequences of at most longest tokens and returns their totals.
func (e *Engine) loadOf(seqs [][]int32, longest int) (load, error) {
	l := load{seqs: len(seqs)}
	for i, ids := range seqs {
		if err := e.checkIDs(i, ids, longest); err != nil {
			return l, err
		}
		l.tokens += len(ids)
		l.longest = max(l.longest, len(ids))
	}
	return l, nil
}

// embedder runs a program that computes one row per sequence: an embedding, or
// the score of a pair of texts. Its queue merges calls. Its runs are fine, or
// coarse if there are serial sessions.
type embedder struct {
	queue
	prog   program
	name   string // of the program
	build  func(most tensor.Bind) (*graph.Graph, *model.Ports, *graph.Value, error)
	most   int           // tokens that one sequence can have
	tokens *atomic.Int64 // counter of what its runs had
	fine   *runner
	rounds *profile.Round   // nil without a recorder
	work   func(worker int) // coarseWorker, made once
	sched  scheduler
	limits *limit.Classes // of the workers of coarse rounds

	// Guarded by mu.
	quota  int         // sequences left in a coarse round
	split  calib.Split // of a coarse round into runs
	broken error       // a worker of this coarse round panicked
}

func newEmbedder(e *Engine, k kind, name string) *embedder {
	m := &embedder{prog: newProgram(), name: name}
	m.queue.init(e, k)
	m.round, m.hand, m.begin, m.work = m.runRound, m.handRows, m.beginFine, m.coarseWorker
	return m
}

// embedder returns the compiled program for one kind of pooling.
func (e *Engine) embedder(ctx context.Context, o model.EmbedOptions) (*embedder, error) {
	m := e.embedderOf(o)
	return m, m.prog.open(ctx, e, func(ctx context.Context) error { return m.compile(ctx, e.opts.Parallel != Fine) })
}

// embedderOf returns the program, which may not be compiled yet.
func (e *Engine) embedderOf(o model.EmbedOptions) *embedder {
	e.progs.Lock()
	defer e.progs.Unlock()
	m := e.embedders[o]
	if m == nil {
		name := "embed"
		if n := len(e.embedders); n > 0 {
			name = fmt.Sprintf("embed.%d", n)
		}
		m = newEmbedder(e, embedding, name)
		m.most, m.tokens = e.cfg.MaxSeq, &e.stats.embedTokens
		m.build = func(most tensor.Bind) (*graph.Graph, *model.Ports, *graph.Value, error) {
			g, p, err := e.model.BuildEmbed(most, o)
			if err != nil {
				return nil, nil, nil, err
			}
			return g, p, p.Embedding, nil
		}
		e.embedders[o] = m
	}
	return m
}

// compile opens the program's sessions; coarse: also those for coarse runs.
func (m *embedder) compile(ctx context.Context, coarse bool) error {
	e, labels := m.eng, plan.ProfileLabels{Phases: []string{kindNames[m.kind]}}
	// A text is one sequence of one run, however long it is.
	g, p, out, err := m.build(tensor.Bind{T: max(e.opts.MaxBatchTokens, m.most), S: e.texts, R: 1})
	if err != nil {
		return err
	}
	fine, err := e.newRunner(ctx, m.name, g, p, out, 2, plan.CompileOptions{}, labels)
	if err != nil {
		return err
	}
	var workers []*worker
	if e.caps.Coarse != nil && coarse {
		if workers, err = m.openCoarse(ctx, m.name+".coarse", labels); err != nil {
			return errors.Join(err, e.drop(fine))
		}
		m.rounds = e.opts.Recorder.Round(m.name+".coarse", labels.Phases[0], workerNames(len(workers)))
	}
	m.fine, m.slots, m.others, m.limits = fine, fine.workers, workers, limit.NewClasses(len(workers))
	m.sched = scheduler{mode: e.opts.Parallel, coarse: len(workers) > 0, costs: e.costs, work: workOf(fine.sess), most: e.opts.MaxBatchTokens}
	return nil
}

// openCoarse gives every worker a serial session with its own arenas and shared
// weights. On an error it opens none.
func (m *embedder) openCoarse(ctx context.Context, name string, labels plan.ProfileLabels) ([]*worker, error) {
	e := m.eng
	t := min(CoarseRunTokens, max(e.opts.MaxBatchTokens, m.most))
	g, p, out, err := m.build(tensor.Bind{T: t, S: min(t, e.texts), R: 1})
	if err != nil {
		return nil, err
	}
	prog, err := e.compile(name, g, plan.CompileOptions{})
	if err != nil {
		return nil, err
	}
	var workers []*worker
	var runners []*runner
	for range e.opts.Workers {
		r, err := e.newSession(ctx, prog, p, out, plan.BindOptions{Serial: true, Helpers: helpers(e.opts.Workers)}, labels)
		if err != nil {
			return nil, errors.Join(err, e.drop(runners...))
		}
		workers, runners = append(workers, r.workers[0]), append(runners, r)
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

// embed queues a call and sees it through. segments may be nil.
func (m *embedder) embed(ctx context.Context, seqs, segments [][]int32, dst []float32, l load) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.take()
	*c = call{ctx: ctx, seqs: seqs, segments: segments, order: c.order[:0], dst: dst, load: l, signal: c.signal}
	for i := range seqs {
		c.order = append(c.order, int32(i))
	}
	return m.do(c)
}

// runRound runs a part of the waiting calls, fine or coarse.
func (m *embedder) runRound() {
	m.sched.mode = Mode(m.eng.mode.Load())
	if l := m.load(); m.sched.pick(l) == Coarse {
		m.coarseRound(l)
	} else {
		m.pipe()
	}
}

// beginFine composes a batch that all workers share.
func (m *embedder) beginFine(w *worker) context.Context {
	_, end := profile.Scope(m.eng.hosted(), "batch")
	defer end()
	m.eng.stats.fine.Add(1)
	return m.compose(w, m.eng.opts.MaxBatchTokens)
}

// coarseRound lets every worker run its own batches until all calls that waited
// at the beginning are done. The caller holds mu; it is released while workers
// run.
func (m *embedder) coarseRound(l load) {
	n := min(len(m.others), l.seqs)
	lim := m.limits.Of(l.tokens)
	active := min(n, lim.Workers()) // runs are cut for n workers, even if fewer take part
	m.ran, m.quota, m.split = 0, l.seqs, m.sched.work.Split(l.tokens, n, CoarseRunTokens)
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
	defer func() { m.quota, m.split = 0, calib.Split{} }()
	start := profile.Now()
	m.unlocked(func() {
		m.rounds.Begin()
		defer m.rounds.End()
		_ = m.eng.caps.Coarse(ctx, active, m.work)
	})
	// Only a round that ran its whole load, and no call that joined later, is a
	// valid sample of the speed with this number of workers.
	if m.ran == l.tokens && n == len(m.others) {
		lim.Took(float64(max(1, l.tokens)), float64(profile.Now()-start)/1e9, limit.Host)
	}
	if m.broken != nil {
		m.abort(m.broken)
	}
}

func (m *embedder) coarseWorker(i int) {
	w := m.others[i]
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
		m.split.Take(w.Bind.T)
		if w.Bind.S == 0 {
			return // a long text arrived in the middle of the round
		}
		m.quota -= w.Bind.S
		m.eng.stats.coarse.Add(1)
		var err error
		m.unlocked(func() {
			err = w.runBatch(ctx)
			start, end := w.slot.Ran()
			m.rounds.Ran(i, start, end)
		})
		m.settle(w, err)
	}
	for m.help() {
	}
}

// help lets a worker that finds no text any more join the run that will end last, and
// reports whether there was one. Texts cannot be cut, and the slowest of many workers is slower
// than that of a few.
func (m *embedder) help() bool {
	var last *worker
	most := 0.0
	for _, w := range m.others {
		if left := w.slot.Left(); left > most {
			last, most = w, left
		}
	}
	if last == nil {
		return false
	}
	m.unlocked(func() { last.slot.Join() }) // or it ended meanwhile
	return true
}

// helpers is how many workers may join a coarse run of another.
func helpers(workers int) int {
	if workers <= fewWorkers {
		return 0
	}
	return mostHelpers
}

const (
	// fewWorkers mostly end together.
	fewWorkers = 4
	// mostHelpers is how many workers may join one run: more would find too little in a
	// step of one text.
	mostHelpers = 3
)
