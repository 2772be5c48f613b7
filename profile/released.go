package profile

import (
	"sync"
	"sync/atomic"
)

// released is the queue of runs that have ended and are not folded yet. It also has
// what the end of each run is compared with. All of it is one cache line: a run of a
// model evicts everything else from the caches, and the end of a run waits for each
// line that it looks at.
type released struct {
	mu    sync.Mutex
	top   *Run  // the last one; each has the one before it
	n     int   // runs
	since int64 // the end of the first

	look  atomic.Int64 // when the threads that wait are looked at next
	probe atomic.Bool  // a sample of a ceiling is due

	_ [64 - 5*8 - 4]byte
}

// Runs are folded together, because a run of a model evicts the aggregates from the
// caches: folding runs one by one cost more than all stamps.
const (
	pendingRuns = 32          // so many runs
	pendingTime = 250_000_000 // or runs of so many nanoseconds
)

// push appends a run and reports whether the queue is to be folded.
func (q *released) push(r *Run) (full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == 0 {
		q.since = r.End
	}
	r.next, q.top = q.top, r
	q.n++
	return q.n == pendingRuns || r.End-q.since > pendingTime
}

// take empties the queue and returns its first run; each has the one after it.
func (q *released) take() (first *Run) {
	q.mu.Lock()
	top := q.top
	q.top, q.n = nil, 0
	q.mu.Unlock()
	for top != nil {
		before := top.next
		top.next, first, top = first, top, before
	}
	return first
}

// settle folds every run that was released. It returns the first error; all are kept
// by fail.
func (r *Recorder) settle() (first error) {
	r.folding.Lock()
	defer r.folding.Unlock()
	run := r.released.take()
	if run == nil {
		return nil
	}
	start := Now()
	r.gc.update()
	var ran int64
	for run != nil {
		next := run.next
		r.elapsed.addSpan(run.fold, run.Start, run.End)
		ran += max(0, run.End-run.Start)
		if err := run.fold.settle(run); err != nil {
			r.fail(err)
			if first == nil {
				first = err
			}
		}
		run = next
	}
	r.probes.addRun(ran, &r.released.probe)
	r.folded += Now() - start
	return first
}
