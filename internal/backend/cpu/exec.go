package cpu

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"hotpath/internal/backend/ref"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// kernel is a step bound to memory.
type kernel interface {
	// name says what runs, for the profile.
	name() string
	// width is into how many shares the step is worth cutting: at most n, unless
	// a share would take so long that who cancels would wait for it, or small
	// ones cost no more. It depends on the sizes only, so all workers agree on
	// it.
	width(b tensor.Bind, n int) int
	// run does share i of n. It must not allocate, and what it computes must
	// not depend on who does it.
	run(w *worker, b tensor.Bind, i, n int)
}

// sharesEach is how many shares of a large step each worker begins with. One
// that is done early takes over from the others: processors of a shared
// machine are not equally fast, and a barrier waits for the last.
const sharesEach = 4

// worker is what one worker has for itself while it walks the steps.
type worker struct {
	lane    int
	scratch *scratch
	// epoch changes with each run and each barrier: what was derived from an
	// operand stays valid while it is the same.
	epoch uint64
	_     [64]byte
}

// exec walks the steps of a plan with the team: every worker walks the same
// list as (i of n), with barriers where the planner asked for one.
type exec struct {
	be      *Backend
	plan    *plan.Plan
	mem     *plan.Memory
	kernels []kernel // of the next run
	bound   []kernel // as they were bound: what kernels is unless Delay or LabelSteps say otherwise
	delays  *delays  // that kernels are made for
	counted bool     // kernels count what they allocate
	// Of LabelSteps.
	labelled bool
	program  string

	workers []worker
	dead    [][]plan.Place // test mode: poisoned when they die
	job     func(lane int) // walk, bound once so that a run allocates nothing

	// Of the run in flight.
	ctx     context.Context
	bind    tensor.Bind
	run     *profile.Run
	n       int          // workers in it
	stop    atomic.Bool  // cancelled or failed: everybody leaves
	err     atomic.Value // of type runError
	arrived []arrival    // [worker]
	claimed []claims     // [step]
	runs    uint64       // so far
	sleeper atomic.Int32 // workers parked at a barrier, or about to
}

// arrival is a worker's own state at barriers, on its own cache lines.
type arrival struct {
	count  atomic.Int32 // barriers reached
	parked atomic.Bool
	wake   chan struct{} // capacity 1
	_      [104]byte
}

// claims counts, per worker, the shares of a step that were taken out of the
// ones it begins with.
type claims []atomic.Int32

type runError struct{ error }

func (e *exec) Describe(p *profile.Plan) {
	p.Lanes, p.Walks = p.Lanes[:0], true
	for i := range e.workers {
		p.Lanes = append(p.Lanes, fmt.Sprintf("worker %d", i))
	}
	for i := range p.Steps {
		p.Steps[i].Kernel = e.bound[i].name()
		p.Steps[i].Class = string(classOf(&e.plan.Steps[i]))
	}
}

// Enqueue runs the plan to its end: the CPU completes inside.
func (e *exec) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d, counted := e.be.delays.Load(), run.CountsHeap(); d != e.delays || counted != e.counted {
		e.delays, e.counted = d, counted
		e.kernels = e.dressed(d)
	}
	e.ctx, e.bind, e.run, e.n = ctx, b, run, len(e.workers)
	n := e.needed()
	e.n = n
	if run != nil {
		for i := range run.Lanes {
			run.Lanes[i].Absent = i >= n
		}
	}
	e.stop.Store(false)
	e.runs++
	for i := range e.arrived {
		e.arrived[i].count.Store(0)
	}
	if n > 1 {
		for _, c := range e.claimed {
			for i := range c {
				c[i].Store(0)
			}
		}
	}
	var err error
	if n == 1 {
		e.walk(0)
	} else {
		err = e.be.team.run(ctx, n, e.job)
	}
	e.ctx, e.run = nil, nil
	if err != nil {
		return err
	}
	if e.stop.Load() {
		if err, ok := e.err.Load().(runError); ok && err.error != nil {
			e.err.Store(runError{})
			return err.error
		}
		return context.Cause(ctx)
	}
	return nil
}

func (e *exec) Wait() error  { return nil }
func (e *exec) Close() error { return nil }

// fail records the first error of a run and stops everybody.
func (e *exec) fail(err error) {
	if !e.stop.Swap(true) {
		e.err.Store(runError{err})
	}
	e.rouse()
}

// halted reports whether the run is over before its end, because it failed or
// because its context has ended: then everybody leaves. After the barrier of
// the step that commits nobody asks the context any more, and nobody gets there
// while another can still ask.
func (e *exec) halted(committed bool) bool {
	if e.stop.Load() {
		return true
	}
	if committed || e.ctx.Err() == nil {
		return false
	}
	e.stop.Store(true)
	e.rouse()
	return true
}

// arrive tells the others that this worker has reached barrier k.
func (e *exec) arrive(lane int, k int32) {
	e.arrived[lane].count.Store(k)
	if e.sleeper.Load() != 0 {
		e.rouse()
	}
}

// rouse wakes every worker that is parked at a barrier, to look again.
func (e *exec) rouse() {
	for i := range e.arrived {
		if a := &e.arrived[i]; a.parked.CompareAndSwap(true, false) {
			a.wake <- struct{}{}
		}
	}
}

// walk is one worker's way through the steps.
func (e *exec) walk(lane int) {
	defer func() {
		if r := recover(); r != nil {
			buf := make([]byte, 4096)
			e.fail(fmt.Errorf("cpu: worker %d failed: %v\n%s", lane, r, buf[:runtime.Stack(buf, false)]))
		}
	}()
	var slots *profile.LaneSlots
	var left int64 // when the last stamped step, or the way into the run, ended
	worked := -1   // the step whose end is not stamped yet
	if e.run != nil {
		slots = &e.run.Lanes[lane]
		left = slots.Enter()
	}
	w := &e.workers[lane]
	var reached, passed int32 // barriers arrived at, barriers waited for
	for i, k := range e.kernels {
		if lane == 0 {
			e.halted(i > e.plan.Commit)
		}
		if e.plan.Steps[i].Barrier || e.dead != nil {
			reached++
			e.arrive(lane, reached)
		}
		if worked >= 0 { // after the others know, who may be waiting
			left = profile.Now()
			slots.End[worked], worked = left, -1
		}
		shares, n := e.cut(k)
		if e.dead != nil && i > 0 {
			if !e.poison(lane, i-1, &reached) {
				break
			}
			passed = reached
		}
		if lane >= n {
			continue // it arrived, and need not wait for a step it has no part in
		}
		waited := false
		if passed < reached {
			ok := false
			if waited, ok = e.await(lane, reached); !ok {
				break
			}
			passed = reached
		}
		if e.stop.Load() {
			break
		}
		w.epoch = e.runs<<32 | uint64(reached)
		if slots == nil {
			e.take(w, i, shares, n)
			continue
		}
		// A worker is on its way to a barrier from the end of what it did
		// last, so that needs no stamp of its own. The last to arrive waits for
		// nobody, and everybody waits for it: one stamp ends its step and begins
		// the next.
		slots.Begin[i] = left
		if waited {
			slots.Begin[i] = profile.Now()
		}
		slots.Expect(i)
		e.take(w, i, shares, n)
		worked = i
	}
	if slots != nil {
		slots.Done = profile.Now()
		if worked >= 0 {
			slots.End[worked] = slots.Done
		}
	}
}

// needed is how many workers have work in the run. Waking the others takes longer
// than steps that are not worth sharing.
func (e *exec) needed() int {
	if e.dead != nil { // a test wants everybody at every barrier
		return e.n
	}
	most := 1
	for i := 0; i < len(e.kernels) && most < e.n; i++ {
		_, n := e.cut(e.kernels[i])
		most = max(most, n)
	}
	return most
}

// cut is into how many shares a step is cut, and how many workers begin with
// one or more of them: with equally many, unless there are more than enough.
func (e *exec) cut(k kernel) (shares, n int) {
	most := e.n * sharesEach
	if e.n == 1 {
		most = 1
	}
	shares = k.width(e.bind, most)
	n = min(e.n, shares)
	if shares <= most {
		shares -= shares % n
	}
	return shares, n
}

// take does shares of step i: first those that lie with this worker, so that
// it meets its own rows again, then those that others have not begun. Between
// two shares it looks whether anybody wants the rest.
func (e *exec) take(w *worker, i, shares, n int) {
	k, committed := e.kernels[i], i >= e.plan.Commit
	if n == 1 {
		k.run(w, e.bind, 0, shares)
		for s := 1; s < shares && !e.halted(committed); s++ {
			k.run(w, e.bind, s, shares)
		}
		return
	}
	for v := range n {
		owner := (w.lane + v) % n
		lo, hi := shares*owner/n, shares*(owner+1)/n
		for {
			s := lo + int(e.claimed[i][owner].Add(1)) - 1
			if s >= hi || e.halted(committed) {
				break
			}
			k.run(w, e.bind, s, shares)
		}
	}
}

// await returns when every worker has arrived at barrier k, and whether that
// took a wait, or not ok when the run is stopped. It spins shortly, then parks:
// on a busy machine the worker that is waited for may need this very processor.
func (e *exec) await(lane int, k int32) (waited, ok bool) {
	if e.n == 1 {
		return false, !e.stop.Load()
	}
	w := newWaiter(e.n)
	for i := range e.arrived[:e.n] {
		for e.arrived[i].count.Load() < k {
			if e.stop.Load() {
				return waited, false
			}
			waited = true
			if !w.again() {
				e.park(lane, i, k)
			}
		}
	}
	return waited, true
}

// park sleeps until somebody arrives anywhere, unless worker i has arrived at
// barrier k by now.
func (e *exec) park(lane, i int, k int32) {
	a := &e.arrived[lane]
	e.sleeper.Add(1)
	a.parked.Store(true)
	if e.arrived[i].count.Load() < k && !e.stop.Load() || !a.parked.CompareAndSwap(true, false) {
		<-a.wake
	}
	e.sleeper.Add(-1)
}

// poison fills what died with step i, between two barriers of its own.
func (e *exec) poison(lane, i int, reached *int32) bool {
	if _, ok := e.await(lane, *reached); !ok {
		return false
	}
	if lane == 0 {
		ref.Poison(e.mem, e.dead[i])
	}
	*reached++
	e.arrive(lane, *reached)
	_, ok := e.await(lane, *reached)
	return ok
}
