package engine

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"hotpath/profile"
)

// program is compiled by the first call that needs it. Other calls that need it
// wait, each until its own context ends. If the first compilation fails, the next
// call tries again. Programs do not wait for each other, and a call with a
// compiled program waits for nothing.
type program struct {
	turn  turn // held while it is compiled, its weights are packed and its sessions are bound
	ready atomic.Bool
}

func newProgram() program { return program{turn: make(turn, 1)} }

// open calls compile unless that was done.
func (p *program) open(ctx context.Context, e *Engine, compile func(context.Context) error) error {
	if p.ready.Load() {
		return nil
	}
	ctx, done := e.untilClosed(ctx)
	defer done()
	if err := p.turn.lock(ctx); err != nil {
		return err
	}
	defer p.turn.unlock()
	if p.ready.Load() {
		return nil
	}
	ctx, end := profile.Scope(e.scoped(ctx), "compile")
	defer end()
	if err := compile(ctx); err != nil {
		return err
	}
	p.ready.Store(true)
	return nil
}

// keep makes a runner the engine's to close.
func (e *Engine) keep(r *runner) {
	e.progs.Lock()
	defer e.progs.Unlock()
	r.sess.Pause(e.paused.Load())
	e.runners = append(e.runners, r)
}

// drop frees the sessions of a program that could not be opened whole.
func (e *Engine) drop(runners ...*runner) error {
	e.progs.Lock()
	defer e.progs.Unlock()
	e.runners = slices.DeleteFunc(e.runners, func(r *runner) bool { return slices.Contains(runners, r) })
	var errs []error
	for _, r := range runners {
		errs = append(errs, r.sess.Close())
	}
	return errors.Join(errs...)
}

// Pause stops recording of runs, of the engine's own scopes and of requests, or
// resumes it, and keeps the recorder. Compiling is recorded meanwhile. Runs with and
// without recording can alternate, so that the cost of recording can be measured.
func (e *Engine) Pause(on bool) {
	e.progs.Lock()
	defer e.progs.Unlock()
	e.paused.Store(on) // for the sessions that come later too
	for _, r := range e.runners {
		r.sess.Pause(on)
	}
}

// ProbeRest takes the samples of ceilings that the recording lacks, for a snapshot
// before Close, which takes them too. No call may be in progress.
func (e *Engine) ProbeRest() {
	e.progs.Lock()
	defer e.progs.Unlock()
	for _, r := range e.runners {
		r.sess.ProbeRest()
	}
}

// turn is a lock whose waiters can give up: lock returns when the context ends.
// Its capacity is 1.
type turn chan struct{}

func (t turn) lock(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) unlock() { <-t }
