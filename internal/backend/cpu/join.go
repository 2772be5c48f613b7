package cpu

import (
	"context"
	"sync/atomic"

	"hotpath/internal/tensor"
	"hotpath/profile"
)

// joining is what helpers need to join the run of a serial session: workers that have no
// run of their own any more compute shares of a run that is under way. A step has one
// share, which is faster than some small ones, unless a helper was there when the step was
// released.
type joining struct {
	open  atomic.Pointer[flight] // the run that helpers may join
	seats []atomic.Bool          // [lane] somebody has it; those of helpers
}

// alone is Enqueue of a serial session: the caller has all shares that helpers do not
// take. Nobody joins a recorded run.
func (e *exec) alone(ctx context.Context, f *flight, b tensor.Bind, run *profile.Run) error {
	f.prepare(ctx, b, run, 1)
	f.n, f.side, f.open = 1, 1, len(e.workers) > 1 && run == nil
	e.active, e.run = 1, run
	f.job.began = profile.Now()
	if f.open {
		f.n, f.side = len(e.workers), e.be.workers
		e.open.Store(f)
	}
	e.walk(f, 0)
	if f.open {
		e.open.Store(nil)
	}
	e.run = nil
	err := f.ended(ctx)
	if f.job.inside.Load() == 0 { // else a helper may look at them
		f.forget()
	}
	return err
}

// recut cuts the steps of group g of an open run for the workers that are there, if they
// are not as many as at its start. Whoever releases the group calls it before.
func (f *flight) recut(g int32) {
	e := f.exec
	workers := e.present()
	if workers == f.by.workers {
		return // all steps are cut for that many
	}
	f.by = cutKey{} // the next run cuts all steps
	upTo := f.cuts[e.groups[g]-1].upTo
	for i := e.groups[g]; i < e.groups[g+1]; i++ {
		f.cuts[i] = f.cutStep(i, workers, upTo)
		upTo = f.cuts[i].upTo
	}
}

// present is how many workers the run has now, helpers included.
func (e *exec) present() int {
	n := 1
	for i := range e.seats[1:] {
		if e.seats[1+i].Load() {
			n++
		}
	}
	return n
}

// Left is the part of the run that each of its workers has before it; 0 if there is no
// run, or no seat for another.
func (e *exec) Left() float64 {
	f, n := e.open.Load(), e.present()
	if f == nil || n == len(e.workers) {
		return 0
	}
	groups, released := len(e.groups)-1, int(f.released.Load())
	if released >= groups-1 { // the last group is under way: its shares are claimed soon
		return 0
	}
	return float64(groups-released) / float64(groups) / float64(n)
}

// Join takes a seat and computes shares of the run that is under way, until it ends.
func (e *exec) Join() {
	for lane := 1; lane < len(e.seats); lane++ {
		if e.seats[lane].CompareAndSwap(false, true) {
			e.help(lane)
			e.seats[lane].Store(false)
			return
		}
	}
}

// help walks the run that is under way, if there is one. The flight is not used for
// another run while a helper is inside.
func (e *exec) help(lane int) {
	f := e.open.Load()
	if f == nil {
		return
	}
	f.job.inside.Add(1)
	if e.open.Load() == f { // else it ended before the flight was kept from the next run
		e.walk(f, lane)
	}
	f.job.leave(nil)
}
