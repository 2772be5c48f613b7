package cpu

import (
	"fmt"

	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// delays slows steps down: factor is the ratio of slowed to normal time.
type delays struct{ factor func(*plan.Step) float64 }

// Delay slows steps down from the next run of each session on. factor is the
// ratio of slowed to normal time; 1 or less changes nothing. nil ends the delay.
// It is for experiments: slowing one step shows its cost, slowing all others
// shows the gain if it were faster. No run may be in flight.
//
// Lanes wait after each share of a step, so that barriers and the claiming of
// shares happen as in a step that is really slower.
func (b *Backend) Delay(factor func(*plan.Step) float64) {
	if factor == nil {
		b.delays.Store(nil)
		return
	}
	b.delays.Store(&delays{factor})
}

// dressed returns the kernels wrapped as d requests: with delays, with labels, or
// with counters of allocations. Without a request it returns the bound kernels.
func (e *exec) dressed(d *delays) []kernel {
	if d == nil && !e.labelled && !e.counted && !e.canaries {
		return e.bound
	}
	out := make([]kernel, len(e.bound))
	for i, k := range e.bound {
		s := &e.plan.Steps[i]
		if d != nil {
			if f := d.factor(s); f > 1 {
				k = &slowKernel{k, f - 1}
			}
		}
		if e.canaries {
			k = &canaryKernel{k, e, i}
		}
		if e.labelled {
			k = newLabelKernel(k, e.program, e.plan, s)
		}
		if e.counted {
			k = &meteredKernel{k, e, i}
		}
		out[i] = k
	}
	return out
}

// meteredKernel counts the allocations of its step. Shares do not wait for each
// other, so steps can be serialized.
type meteredKernel struct {
	kernel
	exec *exec
	step int
}

func (c *meteredKernel) runShare(w *worker, b tensor.Bind, i, n int) {
	run := c.exec.run
	run.EnterStep(c.step)
	defer run.LeaveStep()
	c.kernel.runShare(w, b, i, n)
}

// canaryKernel burns the canary time of the recorder once per step, in its first
// share.
type canaryKernel struct {
	kernel
	exec *exec
	step int
}

func (c *canaryKernel) runShare(w *worker, b tensor.Bind, i, n int) {
	c.kernel.runShare(w, b, i, n)
	if i == 0 {
		c.exec.run.Burn(c.step)
	}
}

// slowKernel waits after each share for a fraction of the share's time.
type slowKernel struct {
	kernel
	more float64
}

func (s *slowKernel) name() string {
	return fmt.Sprintf("%s, %.3g times as long", s.kernel.name(), 1+s.more)
}

func (s *slowKernel) runShare(w *worker, b tensor.Bind, i, n int) {
	start := profile.Now()
	s.kernel.runShare(w, b, i, n)
	now := profile.Now()
	for end := now + int64(s.more*float64(now-start)); now < end; now = profile.Now() {
		pause()
	}
}
