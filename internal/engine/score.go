package engine

import (
	"context"
	"fmt"

	"hotpath/internal/kv"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Bounds of a scoring run. Each of its rows has logits over the whole
// vocabulary, which is most of what it needs memory for; tokens that are only
// read cost little.
const (
	scoreTokens = 512
	scoreRows   = 256
)

// scorer computes likelihoods, one call at a time.
type scorer struct {
	eng    *Engine
	prog   program
	runner *runner
	pool   *kv.Pool
	turn   turn // held by the call at work
	seqs   []*kv.Sequence
	parts  []scorePart
}

// scorePart is n likelihoods of a text, from one on, which are in rows from row on.
type scorePart struct{ text, from, n, row int }

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
		return nil, fmt.Errorf("%w: %s has no likelihoods", ErrUnsupported, e.cfg.Arch)
	}
	if first != nil && len(first) != len(seqs) {
		return nil, fmt.Errorf("%d first tokens for %d texts", len(first), len(seqs))
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
				return nil, fmt.Errorf("text %d: the first token is %d, expected 1 to %d", i, first[i], len(ids))
			}
			n = len(ids) - first[i]
		}
		out[i] = make([]float32, n)
	}
	s, err := e.openScorer(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.turn.lock(ctx); err != nil {
		return nil, err
	}
	defer s.turn.unlock()
	return out, s.score(e.scoped(ctx), seqs, out)
}

// openScorer compiles the score program once.
func (e *Engine) openScorer(ctx context.Context) (*scorer, error) {
	return e.scorer, e.scorer.prog.open(ctx, e, e.scorer.compile)
}

func (s *scorer) compile(ctx context.Context) error {
	e := s.eng
	t := min(e.opts.MaxBatchTokens, scoreTokens)
	b := tensor.Bind{T: t, S: min(e.opts.MaxSeqs, t), R: min(t, scoreRows)}
	// One text is under way at a time; the others of a run begin and end in it.
	blocks := kv.Blocks(e.opts.Ctx) + kv.Blocks(t) + b.S
	g, p, err := e.model.BuildScore(b, e.kvLayout(blocks))
	if err != nil {
		return err
	}
	r, err := e.newRunner(ctx, "score", g, p, p.NLL, plan.CompileOptions{Invariant: true}, plan.ProfileLabels{Phases: []string{"score"}})
	if err != nil {
		return err
	}
	s.runner, s.pool = r, kv.NewPool(blocks)
	for range b.S {
		s.seqs = append(s.seqs, s.pool.NewSequence(r.maxBlocks))
	}
	return nil
}

// score feeds the texts in order, all but the last token of each, and fills as
// much of out as it has room for, from the end; a text that does not fit a run
// continues in the next one.
func (s *scorer) score(ctx context.Context, seqs [][]int32, out [][]float32) error {
	defer func() {
		for _, q := range s.seqs {
			q.Release()
		}
	}()
	text, from := 0, 0 // what comes next
	for {
		_, end := profile.Scope(ctx, "batch")
		var err error
		text, from, err = s.compose(seqs, out, text, from)
		end()
		if err != nil {
			return err
		}
		if s.runner.bind.T == 0 {
			return nil
		}
		if s.eng.closing.Load() {
			return ErrClosed
		}
		if err := s.runner.run(ctx); err != nil {
			return err
		}
		if !finite(s.runner.out[:s.runner.bind.R]) {
			return errNumbers
		}
		s.eng.stats.score.Add(int64(s.runner.bind.T))
		for i, p := range s.parts {
			copy(out[p.text][p.from:], s.runner.out[p.row:p.row+p.n])
			if i < len(s.parts)-1 || from == 0 {
				s.seqs[i].Release()
			}
		}
		// The text that is under way goes on as the first of the next run.
		if last := len(s.parts) - 1; from > 0 {
			s.seqs[0], s.seqs[last] = s.seqs[last], s.seqs[0]
		}
	}
}

// compose fills a run from token from of a text on, and returns where the next
// run begins.
func (s *scorer) compose(seqs [][]int32, out [][]float32, text, from int) (int, int, error) {
	r := s.runner
	r.reset()
	s.parts = s.parts[:0]
	for text < len(seqs) {
		fed := len(seqs[text]) - 1              // tokens that the model reads
		wanted := max(from, fed-len(out[text])) // the next whose successor is scored
		n := min(fed-from, r.max.T-r.bind.T, wanted-from+r.max.R-r.bind.R)
		if n <= 0 && fed > from || r.bind.S == r.max.S {
			break // the run is full
		}
		if n > 0 {
			p := scorePart{text: text, from: wanted - (fed - len(out[text])), n: max(0, from+n-wanted), row: r.bind.R}
			at := r.bind.T - from // of token 0
			if err := r.addCached(s.seqs[len(s.parts)], seqs[text][from:from+n], len(seqs[text])); err != nil {
				return 0, 0, err
			}
			for i := range p.n {
				r.targets[r.bind.R] = seqs[text][wanted+i+1]
				r.want(at + wanted + i)
			}
			s.parts = append(s.parts, p)
		}
		if from += n; from < fed {
			break
		}
		text, from = text+1, 0
	}
	return text, from, nil
}
