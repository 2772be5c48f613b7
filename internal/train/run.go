package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hotpath/profile"
)

// Run trains to the end of the configuration's steps. It writes a checkpoint
// every so many steps, at the end, and when ctx or OnStep ends it early; the
// result then comes with the error.
func Run(ctx context.Context, cfg Config, o Options) (res *Result, err error) {
	t, err := New(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return t.makeSteps(scoped(ctx, o.Recorder))
}

func (t *Trainer) makeSteps(ctx context.Context) (*Result, error) {
	start, res := time.Now(), &Result{Steps: t.step, Early: t.pastPatience()}
	var stop error
	defer func() {
		res.Best, res.BestLoss, res.BestValue = t.best.Step, t.best.Loss, t.best.Value
		res.BestFigure = t.deciding().name
	}()
	outer, epoch, end := ctx, -1, func() {}
	defer func() { end() }()
	for (t.step < t.cfg.Steps || t.due) && stop == nil && !res.Early {
		if t.data.at.Epoch != epoch {
			end()
			epoch = t.data.at.Epoch
			ctx, end = profile.Scope(outer, "epoch")
		}
		if ctx.Err() != nil {
			if t.due { // only its evaluation is missing
				res.Steps, res.Loss = t.step, t.last.Loss
			}
			stop = fmt.Errorf("stopped after step %d of %d: %w", t.step, t.cfg.Steps, context.Cause(ctx))
			break
		}
		s, err := t.Step(ctx)
		if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			continue // the step is undone, or only its evaluation is left
		}
		if err != nil {
			return res, err
		}
		res.Steps, res.Loss = s.Step, s.Loss
		res.Tokens += int64(s.Tokens)
		res.Elapsed = time.Since(start)
		if t.opts.OnStep != nil {
			stop = t.opts.OnStep(s)
		}
		if stop == nil {
			stop = t.sample(ctx)
		}
		res.Early = t.pastPatience()
		if every := t.cfg.CheckpointEvery; every > 0 && t.step%every == 0 || s.Eval.Best && t.cfg.Validation.KeepBest {
			if err := t.saveTo(ctx, res); err != nil {
				return res, errors.Join(stop, err)
			}
		}
	}
	if t.step == t.saved {
		return res, stop
	}
	return res, errors.Join(stop, t.saveTo(ctx, res))
}

func (t *Trainer) saveTo(ctx context.Context, res *Result) error {
	dir, err := t.Save(ctx)
	if dir != "" {
		res.Checkpoint = dir
	}
	return err
}
