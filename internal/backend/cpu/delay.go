package cpu

import (
	"fmt"

	"hotpath/internal/kernel/bf16"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// delays slows one of every so many calls of steps down: factor is the ratio of
// slowed to normal time.
type delays struct {
	factor func(*plan.Step) float64
	every  uint64
}

// Delay slows steps down from the next run of each session on. factor is the
// ratio of slowed to normal time; 1 or less changes nothing. nil ends the delay.
// It is for experiments: slowing one step shows its cost, slowing all others
// shows the gain if it were faster. No run may be in flight.
//
// Lanes wait after each share of a step, so that barriers and the claiming of
// shares happen as in a step that is really slower. The ratio is of time on a
// processor: a share that lost its processor is not slowed for that time too. What
// reading clocks takes is part of the wait.
func (b *Backend) Delay(factor func(*plan.Step) float64) { b.DelayCalls(1, factor) }

// DelayCalls is Delay for one of every so many calls of a step: all shares of such a
// call are slowed. The slowed steps take turns, evenly spread over the runs. So no
// run has all slow calls, and of any few runs about the same part is slow.
func (b *Backend) DelayCalls(every int, factor func(*plan.Step) float64) {
	if factor == nil {
		b.delays.Store(nil)
		return
	}
	b.delays.Store(&delays{factor, uint64(max(1, every))})
}

// dressed returns the kernels wrapped as d requests: with delays, with labels, or
// with counters of allocations. Without a request it returns the bound kernels.
func (e *exec) dressed(d *delays) []kernel {
	if d == nil && !e.labelled && !e.counted && !e.canaries {
		return e.bound
	}
	out := make([]kernel, len(e.bound))
	slow := e.slowKernels(d)
	for i, k := range e.bound {
		s := &e.plan.Steps[i]
		if slow[i] != nil {
			k = slow[i]
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

// slowKernels returns the kernels of the steps that d slows; nil for the others.
func (e *exec) slowKernels(d *delays) []*slowKernel {
	out := make([]*slowKernel, len(e.bound))
	if d == nil {
		return out
	}
	n := uint64(0)
	for i, k := range e.bound {
		if f := d.factor(&e.plan.Steps[i]); f > 1 {
			warm := classOf(&e.plan.Steps[i]) == BF16 && bf16.Tiles()
			out[i] = &slowKernel{k, f - 1, d.every, n, warm, slowLanes(len(e.workers))}
			n++
		}
	}
	for _, s := range out {
		if s != nil {
			s.turn = (2*s.turn + 1) * s.every / (2 * n)
		}
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

// slowKernel waits after each share of a slowed call for a fraction of the share's
// time on a processor.
type slowKernel struct {
	kernel
	more  float64
	every uint64 // one call of so many is slowed
	turn  uint64 // which one: it differs between steps
	warm  bool   // the step multiplies on tiles, which must not rest while it waits
	lanes []slowLane
}

// slowLane is what a lane keeps between the shares that it slows.
type slowLane struct {
	timer timer
	// debt is how much longer the lane took than it was asked to: reading clocks takes
	// time, and a wait ends a little late. The next wait is that much shorter.
	debt int64
	_    [104]byte // two lanes never share a pair of cache lines
}

func slowLanes(n int) []slowLane {
	lanes := make([]slowLane, n)
	for i := range lanes {
		lanes[i].timer = &laneTimer{}
	}
	return lanes
}

// mostDebt bounds the debt. More than that is no cost of reading clocks, but a thread
// that lost its processor where the system does not show it.
const mostDebt = 2000 // ns

func (s *slowKernel) name() string {
	if s.every > 1 {
		return fmt.Sprintf("%s, one call in %d %.3g times as long", s.kernel.name(), s.every, 1+s.more)
	}
	return fmt.Sprintf("%s, %.3g times as long", s.kernel.name(), 1+s.more)
}

func (s *slowKernel) runShare(w *worker, b tensor.Bind, i, n int) {
	if (w.run()+s.turn)%s.every != 0 {
		s.kernel.runShare(w, b, i, n)
		return
	}
	l := &s.lanes[w.lane]
	called := l.timer.now()
	l.timer.in()
	start := l.timer.now() // in may ask the system for the thread's clock
	s.kernel.runShare(w, b, i, n)
	now, off := l.timer.look()
	work := now - start - off
	end := now + int64(s.more*float64(work)) - (start - called) - l.debt
	for now < end {
		// A kernel that is really slower does not rest: if its tiles did, the next share
		// would be slower by more than it was asked to be. Runs of a few rows hardly use
		// tiles.
		l.timer.wait(s.warm && b.T >= bf16.MR)
		now, off = l.timer.look()
		end += off
	}
	l.debt = min(now-end, mostDebt)
}
