package cpu

import (
	"context"
	"sync/atomic"
	"unsafe"

	"hotpath/internal/backend/ref"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// flight is one run. A barrier waits for the shares of the group before it, not
// for workers: a preempted worker delays at most the share that it has claimed,
// and a sleeping worker delays nothing. A worker may return after the end of the
// run. It then finds every share claimed and touches no memory of the plan. Until
// it has left, the next run uses another flight.
//
// What workers write lies in pairs of cache lines of its own, because processors fetch lines
// in pairs. Per group a worker adds to done once. All workers wait for released, which
// is written once. So the cost of a barrier grows linearly with the number of workers.
type flight struct {
	exec    *exec
	job     job
	ctx     context.Context
	bind    tensor.Bind
	run     *profile.Run
	lanes   []profile.LaneSlots // of run
	ends    profile.RunEnd      // of run
	kernels []kernel
	cuts    []cut     // [step]
	by      cutKey    // what they were cut by
	lines   [][]*byte // [lane][group] what firstLine has kept since; nil: not known
	first   uint64    // the number of the first step, among those of all runs
	runs    uint64    // of the exec so far
	n       int       // workers in it
	side    int       // workers that compute at the same time, those of other runs included
	open    bool      // helpers may join
	stop    atomic.Bool
	err     error // why it stopped, where the context does not say it; written by who sets stop

	_        [128]byte
	claimed  atomic.Int64 // shares of queues that are claimed whole
	_        [120]byte
	done     atomic.Int64 // shares
	_        [120]byte
	released atomic.Int32 // the group that is worked on: those before it are done
	sleepers atomic.Int32 // workers that are parked, or about to be
	_        [120]byte
}

// cut is how a step is shared out.
type cut struct {
	shares, queues int32
	claims
	upTo int64 // shares of the run, with those of this step
}

// cutKey is what all steps are cut by, save those that look at their inputs.
type cutKey struct {
	bind    tensor.Bind
	workers int
	kernels *kernel // the first of them
}

// queue hands out the shares that one worker starts with. Its state is the number
// of a step and how many of its shares are claimed. Steps are numbered
// consecutively over all runs, and no worker reaches a step before all shares of
// the previous step are claimed. So a smaller number means that no share is
// claimed, a greater one that all are.
type queue struct {
	word atomic.Uint64
	_    [120]byte
}

// countBits is the part of a queue's word that counts. The rest numbers steps: enough
// for ten years of a model that makes 50,000 a second.
const countBits = 20

// bed is the place at which a worker sleeps at a barrier.
type bed struct {
	parked atomic.Bool
	wake   chan struct{} // capacity 1
	_      [104]byte
}

func newFlight(e *exec) *flight {
	f := &flight{exec: e, cuts: make([]cut, len(e.kernels)), lines: newLines(e)}
	f.job.left = make(chan struct{}, 1)
	f.job.work = func(lane int) { e.walk(f, lane) } // bound once so that a run allocates nothing
	return f
}

// prepare makes the flight one of a new run, cut for a number of workers, and returns how
// many of these have work in it: waking others takes longer than steps that are not worth sharing.
func (f *flight) prepare(ctx context.Context, b tensor.Bind, run *profile.Run, workers int) (most int) {
	e := f.exec
	e.runs++
	f.ctx, f.bind, f.run, f.kernels, f.runs, f.err = ctx, b, run, e.kernels, e.runs, nil
	if f.lanes, f.job.idle = nil, (profile.Idle{}); run != nil {
		f.lanes, f.ends, f.job.idle = run.Lanes, run.AtEnd(), run.Idle()
	}
	f.first = e.runs * uint64(len(e.kernels))
	f.stop.Store(false)
	f.claimed.Store(0)
	f.done.Store(0)
	f.released.Store(0)
	return f.cutFor(workers)
}

// forget lets go of what the run was given. No worker is inside.
func (f *flight) forget() {
	f.ctx, f.run, f.lanes, f.ends, f.job.idle = nil, nil, nil, profile.RunEnd{}, profile.Idle{}
}

// cutFor cuts the steps for a number of workers, and returns how many have work. A run of
// the same sizes as the last keeps the cuts of most steps: so the workers begin sooner.
func (f *flight) cutFor(workers int) (most int) {
	by := cutKey{f.bind, workers, unsafe.SliceData(f.kernels)}
	keep := by == f.by
	f.by = cutKey{} // until all steps are cut
	if !keep {
		for _, lines := range f.lines {
			clear(lines)
		}
	}
	sum, most := int64(0), 1
	for i := range f.kernels {
		c := &f.cuts[i]
		if !keep || f.exec.looks[i] {
			*c = f.cutStep(i, workers, sum)
		} else if upTo := sum + int64(c.shares); c.upTo != upTo { // a store would take the cache line from the others
			c.upTo = upTo
		}
		sum, most = c.upTo, max(most, int(c.queues))
	}
	f.by = by
	return most
}

// fly runs it to its end.
func (f *flight) fly(ctx context.Context) error {
	if f.n == 1 {
		f.job.began = profile.Now()
		f.exec.walk(f, 0)
	} else if err := f.exec.be.team.runJob(ctx, f.n, &f.job); err != nil {
		return err
	}
	return f.ended(ctx)
}

// ended is why the run stopped early, if it did.
func (f *flight) ended(ctx context.Context) error {
	if !f.stop.Load() {
		return nil
	}
	f.job.wait(f.exec.be.team.newWaiter(f.n)) // a step that was not come to has shares that could be claimed
	if f.err != nil {
		return f.err
	}
	return context.Cause(ctx)
}

// take claims shares of step i of group g and runs them: first this worker's own shares,
// whose rows are in its cache, then shares of workers that are absent or late. It
// returns the number of shares that it ran; ok is false if the run has stopped.
func (f *flight) take(w *worker, i int, g int32, st *stamps) (ran int, ok bool) {
	recorded := st.slots != nil
	var now int64
	var kept bool
	if recorded {
		now, kept = st.look() // before all else, see stamps
	}
	k, committed, number := f.kernels[i], i >= f.exec.plan.Commit, f.first+uint64(i)
	shares, queues, c, upTo := int(f.cuts[i].shares), int(f.cuts[i].queues), f.cuts[i].claims, f.cuts[i].upTo
all:
	for off := range f.n {
		for v := (w.lane + off) % f.n; v < queues; v += f.n {
			if v != w.lane && f.claimed.Load() >= upTo {
				break all
			}
			lo, hi := shares*v/queues, shares*(v+1)/queues // of queue v
			for {
				s, some := f.claim(v, number, lo, hi, c)
				if some == 0 {
					break
				}
				if f.halted(committed) {
					return ran, false
				}
				if recorded && ran == 0 {
					if v != w.lane {
						now, kept = st.clock.Look()
					}
					st.begin(i, now, kept)
				}
				if w.next = nil; v == w.lane && s+some == hi && i+1 == f.exec.groups[g+1] {
					w.next = f.firstLine(w.lane, g+1)
				}
				if some == 1 {
					k.runShare(w, f.bind, s, shares)
				} else {
					runClaim(k, w, f.bind, s, s+some, shares)
				}
				ran += some
			}
		}
	}
	switch {
	case recorded && ran > 0:
		profile.Own(&f.done) // for finish
		st.end(i)
	case recorded:
		st.detour()
	}
	return ran, true
}

// claim claims the next of shares [lo,hi) of a step from queue v: some shares from s on;
// none if none is left.
func (f *flight) claim(v int, number uint64, lo, hi int, c claims) (s, some int) {
	q := &f.exec.queues[v].word
	for {
		word := q.Load()
		count := 0
		switch at := word >> countBits; {
		case at > number:
			return 0, 0
		case at == number:
			count = int(word & (1<<countBits - 1))
		}
		if s = lo + count; s >= hi {
			return 0, 0
		}
		if some = 1; c.most > 1 {
			some = c.guide(hi - s)
		}
		if !q.CompareAndSwap(word, number<<countBits|uint64(count+some)) {
			continue
		}
		if s+some == hi {
			f.claimed.Add(int64(hi - lo))
		}
		return s, some
	}
}

// finish counts the shares of group g that a worker ran. The worker that runs the
// last share releases all into the next group.
func (f *flight) finish(g int32, ran int, st *stamps) {
	e := f.exec
	if ran == 0 || f.done.Add(int64(ran)) < f.cuts[e.groups[g+1]-1].upTo {
		return
	}
	if e.dead != nil {
		ref.Poison(e.mem, e.dead[g]) // every step is a group
		st.detour()
	}
	if f.open && int(g+2) < len(e.groups) {
		f.recut(g + 1)
	}
	f.released.Store(g + 1)
	if f.sleepers.Load() != 0 {
		e.rouse()
		st.detour()
	}
}

// await returns when group g can begin, or not ok when the run is stopped. Meanwhile
// the first weights of the next share come from memory. It spins shortly, then parks:
// on a busy machine the worker that is waited for may need this very processor.
func (f *flight) await(lane int, g int32, st *stamps) (ok bool) {
	if int(g) == len(f.exec.groups)-1 && st.slots != nil {
		f.ends.Expect() // the caller is about to end a recorded run
	}
	if f.released.Load() >= g {
		return true
	}
	st.waits()
	w := f.exec.be.team.newWaiter(f.side)
	w.lane = st
	next := f.ahead(lane, g)
	more := w.spins >= 0 && (next.streams > 0 || next.keys.some())
	for st.waits(); f.released.Load() < g; st.waits() {
		if f.stop.Load() {
			return false
		}
		if more {
			more = next.fetch()
			continue
		}
		if !w.again() {
			f.park(lane, g)
		}
	}
	st.released()
	return true
}

// park sleeps until a group begins, unless g has by now.
func (f *flight) park(lane int, g int32) {
	b := &f.exec.beds[lane]
	f.sleepers.Add(1)
	b.parked.Store(true)
	if f.released.Load() < g && !f.stop.Load() || !b.parked.CompareAndSwap(true, false) {
		<-b.wake
	}
	f.sleepers.Add(-1)
}

// rouse wakes every worker that is parked at a barrier, to look again.
func (e *exec) rouse() {
	for i := range e.beds {
		if b := &e.beds[i]; b.parked.CompareAndSwap(true, false) {
			b.wake <- struct{}{}
		}
	}
}

// fail stops the run with an error, unless it has stopped.
func (f *flight) fail(err error) {
	if f.stop.CompareAndSwap(false, true) {
		f.err = err
	}
	f.exec.rouse()
}

// halted reports whether the run has stopped early, because it failed or its
// context ended. All workers then leave. Only a worker with a share of a step
// before the committing step checks the context. No worker reaches the committing
// step before that share is done, so a run never stops after it has begun to
// commit.
func (f *flight) halted(committed bool) bool {
	if f.stop.Load() {
		return true
	}
	if committed || f.ctx.Err() == nil {
		return false
	}
	f.fail(nil)
	return true
}
