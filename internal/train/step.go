package train

import (
	"context"
	"time"

	"hotpath/internal/graph/grad"
	"hotpath/profile"
)

// Step makes one optimizer step. It allocates nothing once it is warm. Where
// ctx ends before the optimizer has begun to update, everything is as before
// the step; an update that has begun is completed. Where ctx ends in the evaluation
// behind the step, the next call makes that evaluation in place of a step.
func (t *Trainer) Step(ctx context.Context) (Step, error) {
	ctx, end := profile.Scope(ctx, "step")
	defer end()
	s := &t.last
	if !t.due {
		if err := t.update(ctx, s); err != nil {
			return *s, err
		}
	}
	t.due = true
	if err := t.evaluate(ctx, s); err != nil {
		return *s, err
	}
	t.due = false
	return *s, t.logs.addStep(s)
}

// update is a step without its evaluation.
func (t *Trainer) update(ctx context.Context, s *Step) error {
	start := time.Now()
	if t.began.IsZero() {
		t.began, t.first = start, t.step
	}
	*s = Step{Step: t.step + 1, Steps: t.cfg.Steps, Epoch: t.data.at.Epoch, LR: t.cfg.rate(t.step + 1)}
	at := t.data.at
	h := t.cfg.hyper(s.LR)
	h.Limit = t.norms.limit(&t.cfg)
	if err := t.runs(ctx, s, h); err != nil {
		t.data.at = at
		return err
	}
	if err := t.judge(s, h.Limit); err != nil {
		t.data.at = at
		return err
	}
	t.step++
	s.Elapsed = time.Since(start)
	s.Left = time.Since(t.began) / time.Duration(t.step-t.first) * time.Duration(t.cfg.Steps-t.step)
	if t.opts.Peak > 0 {
		s.MFU = t.flops * s.TokensPerSecond() / t.opts.Peak
	}
	return nil
}

// runs executes the runs of one step, and sets its loss, norm and sizes.
func (t *Trainer) runs(ctx context.Context, s *Step, h grad.Hyper) error {
	if err := t.data.plan(); err != nil {
		return err
	}
	in, parts := t.runner.in, t.data.runs
	t.losses = t.losses[:0]
	whole, cached := t.obj.(wholeStep)
	if cached = cached && t.data.split; cached {
		if err := t.firstPass(ctx, s, whole); err != nil {
			return err
		}
	}
	for i, p := range parts {
		_, end := profile.Scope(ctx, profile.DataScope)
		err := t.data.fill(ctx, in, p)
		end()
		if err != nil {
			return err
		}
		share := t.data.share(p)
		if cached {
			whole.again(in, s.Sequences)
			share = 1
		}
		if t.data.split {
			t.runner.accumulate(share, i == 0, i == len(parts)-1)
		}
		in.regularize(&t.cfg, s.Step, i)
		within, end := profile.Scope(ctx, "run")
		loss, norm, err := t.runner.runStep(within, h, s.Step)
		end()
		if err != nil {
			return err
		}
		t.losses = append(t.losses, loss)
		if s.GradNorm = norm; !cached {
			s.Loss += loss
		}
		s.Tokens, s.Sequences = s.Tokens+in.Bind.T, s.Sequences+in.Bind.S
	}
	return nil
}

// firstPass runs all of a step forward and gives it the loss.
func (t *Trainer) firstPass(ctx context.Context, s *Step, w wholeStep) error {
	w.begin()
	for i, p := range t.data.runs {
		_, end := profile.Scope(ctx, profile.DataScope)
		err := t.data.fill(ctx, t.runner.in, p)
		if end(); err != nil {
			return err
		}
		t.runner.in.regularize(&t.cfg, s.Step, i)
		if _, err := t.runner.forward(ctx); err != nil {
			return err
		}
		w.keep(t.runner.in)
	}
	var err error
	s.Loss, err = w.solve(ctx)
	return err
}
