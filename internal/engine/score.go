package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"hotpath/internal/kv"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Bounds of a scoring run. Each scored row has logits over the whole vocabulary,
// which is most of the run's memory. Tokens that are only read cost little. A backend
// may name another number of rows (plan.RunSizes); the tokens are twice as many.
const scoreRows = 256

// scorer computes likelihoods. Its queue merges calls. The bits of a text do not
// depend on the other texts of its run.
type scorer struct {
	queue
	prog program
	pool *kv.Pool // guarded by mu
}

func newScorer(e *Engine) *scorer {
	s := &scorer{prog: newProgram()}
	s.queue.init(e, scoring)
	s.round, s.hand, s.begin = s.pipe, s.handNLL, s.compose
	return s
}

// ScoreIDs returns nll[i][k] = -log p(seqs[i][k+1] | seqs[i][..k]), natural
// logarithm, with bits that do not depend on the other texts. Texts of fewer than two tokens have none.
func (e *Engine) ScoreIDs(ctx context.Context, seqs [][]int32) ([][]float32, error) {
	return e.ScoreTails(ctx, seqs, nil)
}

// ScoreTails is ScoreIDs of the tokens from first[i] on, at least 1: nll[i][0]
// is that of seqs[i][first[i]]. A nil first is 1 everywhere.
func (e *Engine) ScoreTails(ctx context.Context, seqs [][]int32, first []int) (_ [][]float32, err error) {
	if err := e.enter(scoring); err != nil {
		return nil, err
	}
	defer e.leave(scoring)
	defer Guard(&err)
	if !e.cfg.CanGenerate {
		return nil, fmt.Errorf("%w: %s models compute no likelihoods", ErrUnsupported, e.cfg.Arch)
	}
	if first != nil && len(first) != len(seqs) {
		return nil, fmt.Errorf("%d first tokens, expected %d, one per text", len(first), len(seqs))
	}
	out := make([][]float32, len(seqs))
	for i, ids := range seqs {
		if len(ids) == 0 {
			continue
		}
		if err := e.checkIDs(i, ids, e.opts.Ctx); err != nil {
			return nil, err
		}
		n := len(ids) - 1
		if first != nil {
			if first[i] < 1 || first[i] > len(ids) {
				return nil, fmt.Errorf("text %d: the first token is %d, expected 1 to %d", i+1, first[i], len(ids))
			}
			n = len(ids) - first[i]
		}
		out[i] = make([]float32, n)
	}
	if !slices.ContainsFunc(out, func(nll []float32) bool { return len(nll) > 0 }) {
		return out, context.Cause(ctx)
	}
	s, err := e.openScorer(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.score(e.scoped(ctx), seqs, out); err != nil {
		return nil, err
	}
	return out, nil
}

// openScorer compiles the score program once.
func (e *Engine) openScorer(ctx context.Context) (*scorer, error) {
	return e.scorer, e.scorer.prog.open(ctx, e, e.scorer.compile)
}

func (s *scorer) compile(ctx context.Context) error {
	e := s.eng
	rows := cmp.Or(e.caps.Runs.Scored, scoreRows)
	t := min(e.opts.MaxBatchTokens, 2*rows)
	b := tensor.Bind{T: t, S: min(e.opts.MaxSeqs, t), R: min(t, rows)}
	// At most one text continues from run to run at a time. All other texts of a
	// run begin and end in it.
	slots := 1
	if e.caps.Async {
		slots = 2
	}
	blocks := kv.Blocks(e.opts.Ctx) + slots*(kv.Blocks(t)+b.S)
	g, p, err := e.model.BuildScore(b, e.kvLayout(blocks))
	if err != nil {
		return err
	}
	r, err := e.newRunner(ctx, "score", g, p, p.NLL, 2, plan.CompileOptions{Invariant: true}, plan.ProfileLabels{Phases: []string{"score"}})
	if err != nil {
		return err
	}
	s.slots, s.pool = r.workers, kv.NewPool(blocks)
	return nil
}

// score queues a call and sees it through.
func (s *scorer) score(ctx context.Context, seqs [][]int32, nll [][]float32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.take()
	*c = call{ctx: ctx, seqs: seqs, nll: nll, order: c.order, signal: c.signal}
	return s.do(c)
}

// compose fills a batch from the head of the queue: all tokens of each text
// except the last, in order, and as many rows with likelihoods as fit. A text
// that does not fit continues in the next run, and its call stays at the head.
func (s *scorer) compose(w *worker) context.Context {
	_, end := profile.Scope(s.eng.hosted(), "batch")
	defer end()
	w.Reset()
	w.parts = w.parts[:0]
	for c := s.head; c != nil; c = s.head {
		if !s.feed(w, c) {
			break
		}
		s.remove(c)
	}
	s.eng.stats.score.Add(int64(w.Bind.T))
	return s.context(w)
}

// feed adds as much of a call to the batch as fits. It returns false if the batch
// is full.
func (s *scorer) feed(w *worker, c *call) bool {
	for c.text < len(c.seqs) {
		ids, nll := c.seqs[c.text], c.nll[c.text]
		if len(nll) == 0 {
			c.text++
			continue
		}
		fed := len(ids) - 1                 // tokens that the model reads
		wanted := max(c.from, fed-len(nll)) // the next whose successor is scored
		n := min(fed-c.from, w.Max.T-w.Bind.T, wanted-c.from+w.Max.R-w.Bind.R)
		if n <= 0 || w.Bind.S == w.Max.S {
			if k := len(w.parts); c.from == 0 && k > 0 && w.parts[k-1].call == c {
				s.rotate(c)
			}
			return false
		}
		if err := s.addPart(w, c, n, wanted); err != nil {
			s.fail(c, err)
			if c.flying == 0 {
				s.finish(c)
			}
			return true
		}
		if c.from += n; c.from < fed {
			return false
		}
		c.text, c.from = c.text+1, 0
	}
	return true
}

// addPart puts the next n tokens of a call's text into the batch. Tokens from wanted on
// have rows.
func (s *scorer) addPart(w *worker, c *call, n, wanted int) error {
	ids, nll := c.seqs[c.text], c.nll[c.text]
	seq := c.seq
	if seq == nil {
		if k := len(s.spare); k > 0 {
			seq, s.spare = s.spare[k-1], s.spare[:k-1]
		} else {
			seq = s.pool.NewSequence(w.MaxBlocks)
		}
	}
	c.seq = seq
	fed := len(ids) - 1
	p := part{call: c, first: c.text, from: wanted - (fed - len(nll)), n: max(0, c.from+n-wanted), row: w.Bind.R}
	at := w.Bind.T - c.from // of token 0
	if err := w.AddCached(seq, ids[c.from:c.from+n], len(ids)); err != nil {
		return err
	}
	for i := range p.n {
		w.Target(at+wanted+i, ids[wanted+i+1])
	}
	if c.from+n == fed {
		p.seq, c.seq = seq, nil
	}
	w.parts = append(w.parts, p)
	c.flying++
	return nil
}

// handNLL copies the likelihoods of a part to its call.
func (s *scorer) handNLL(w *worker, p part) error {
	rows := w.out[p.row : p.row+p.n]
	if !finite(rows) {
		return errNumbers
	}
	if !p.call.gone {
		copy(p.call.nll[p.first][p.from:], rows)
	}
	return nil
}
