package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// CloseTimeout is how long Close waits for the runs in flight.
const CloseTimeout = 30 * time.Second

var (
	// ErrBusy reports runs that did not end within Close's bound.
	ErrBusy = errors.New("still running")
	// ErrInternal reports a defect of hotpath: a panic that was caught.
	ErrInternal = errors.New("internal error")
)

// PanicError is an ErrInternal with the value and the stack of a panic.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked, for people
}

func (e *PanicError) Error() string { return fmt.Sprintf("%v: panic: %v", ErrInternal, e.Value) }

// Unwrap makes errors.Is(err, ErrInternal) true.
func (e *PanicError) Unwrap() error { return ErrInternal }

// Guard turns a panic into an error. It is deferred.
func Guard(err *error) {
	if p := recover(); p != nil {
		*err = panicked(p)
	}
}

// panicked is the error of a value that was recovered. It is called by the
// deferred function, where the stack still has the frames that panicked.
func panicked(p any) error { return &PanicError{Value: p, Stack: debug.Stack()} }

// kind is what a call does.
type kind uint8

const (
	embedding kind = iota
	generating
	scoring
	reranking
	inspecting
	numKinds
)

var kindNames = [numKinds]string{"embed", "generate", "score", "rerank", "inspect"}

// enter counts a call; every call that got nil must leave.
func (e *Engine) enter(k kind) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing.Load() {
		return ErrClosed
	}
	e.calls[k]++
	return nil
}

// hold counts background work of a call that has entered. The work may outlast
// the call.
func (e *Engine) hold(k kind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[k]++
}

func (e *Engine) leave(k kind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[k]--
	if e.calls == [numKinds]int{} && e.closing.Load() {
		close(e.idle) // once: nobody enters any more
	}
}

// running names the calls that have not left.
func (e *Engine) running() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for k, n := range e.calls {
		if n > 0 {
			out = append(out, fmt.Sprintf("%s (%d)", kindNames[k], n))
		}
	}
	return strings.Join(out, ", ")
}

// Close ends compilations, waits for the runs in flight and frees all sessions.
// Calls that need another run end with ErrClosed. If runs do not end within
// Options.CloseTimeout, Close frees nothing, because a kernel may still read the
// memory. It then returns an ErrBusy that names the running work. Close may be
// called again, and by several goroutines.
func (e *Engine) Close() error {
	e.shut()
	select {
	case <-e.idle:
	case <-time.After(e.opts.CloseTimeout):
		if what := e.running(); what != "" {
			return fmt.Errorf("%w after %v: %s; nothing was freed, and Close can be called again", ErrBusy, e.opts.CloseTimeout, what)
		}
	}
	e.once.Do(func() {
		e.progs.Lock()
		defer e.progs.Unlock()
		var errs []error
		for _, r := range e.runners {
			errs = append(errs, r.sess.Close())
		}
		e.err = errors.Join(append(errs, e.weights.Close())...)
	})
	return e.err
}

// shut lets nobody enter any more and ends compilations.
func (e *Engine) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closing.Swap(true) && e.calls == [numKinds]int{} {
		close(e.idle)
	}
	for _, cancel := range e.cancels {
		(*cancel)(ErrClosed)
	}
}

// untilClosed is ctx that also ends when the engine closes. The caller calls
// done.
func (e *Engine) untilClosed(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing.Load() {
		cancel(ErrClosed)
	}
	e.cancels = append(e.cancels, &cancel)
	return ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.cancels = slices.DeleteFunc(e.cancels, func(c *context.CancelCauseFunc) bool { return c == &cancel })
		cancel(nil)
	}
}
