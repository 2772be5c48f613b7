package profile

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// released is the queue of runs that have ended and are not folded yet. It also has
// what the end of each run is compared with. All of it is one cache line: a run of a
// model evicts everything else from the caches, and the end of a run waits for each
// line that it looks at.
type released struct {
	mu    sync.Mutex
	runs  []*Run
	since int64 // the end of the first

	left  int64       // time of runs until the next sample of a ceiling
	ran   int64       // time of runs since the threads that wait were looked at
	probe atomic.Bool // a sample of a ceiling is due

	_ [64 - 7*8 - 4]byte
}

func newReleased() *released {
	q := &released{runs: make([]*Run, 0, 2*pendingRuns), ran: waitingInterval} // the first run begins the first sample
	q.dueProbe()
	return q
}

// Runs are folded together, because a run of a model evicts the aggregates and the code
// from the caches: folding runs one by one cost more than all stamps.
const (
	pendingRuns = 128         // so many runs of a small plan
	fewestRuns  = 32          // and of a large one
	pendingTime = 250_000_000 // or runs of so many nanoseconds
	pendingSize = 400 << 10   // bytes of stamps that wait, about
)

// FoldsAfter says when the runs of a plan of this size are folded: as soon as so many
// wait, or a run ends so long after the first of them. Whoever measures the cost of
// recording wants a whole number of folds.
func FoldsAfter(steps, lanes int) (runs int, since time.Duration) {
	return foldsAfter(steps, lanes), pendingTime
}

func foldsAfter(steps, lanes int) (runs int) {
	return max(fewestRuns, min(pendingRuns, pendingSize/(max(1, steps*lanes)*int(unsafe.Sizeof(StepStamps{})))))
}

// dueProbe says that a sample of a ceiling is due. No other one is until paceProbe
// says when. The caller holds q.mu.
func (q *released) dueProbe() {
	q.left = math.MaxInt64
	q.probe.Store(true)
}

// paceProbe says after how much time of runs the next sample is due.
func (q *released) paceProbe(left int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left = left
}

// take returns the runs and leaves an empty queue, in the memory of spare.
func (q *released) take(spare []*Run) []*Run {
	q.mu.Lock()
	defer q.mu.Unlock()
	runs := q.runs
	q.runs = spare[:0]
	return runs
}

// takeIdle is take if at most so many runs wait and an idle worker may fold each of them,
// else it takes none: what it does not fold would wait with it until somebody settles.
func (q *released) takeIdle(spare []*Run, most int) []*Run {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.runs) == 0 || len(q.runs) > most || slices.ContainsFunc(q.runs, func(r *Run) bool { return r.Timing != nil || !r.fold.small }) {
		return nil
	}
	runs := q.runs
	q.runs = spare[:0]
	return runs
}

// each calls do with every run of the queue.
func (q *released) each(do func(*Run)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.runs {
		do(r)
	}
}

// settle folds every run that was released. All errors are kept by fail; it returns
// the first of one plan, own.
func (r *Recorder) settle(own *planFold) error {
	r.folding.Lock()
	defer r.folding.Unlock()
	return r.foldReleased(own)
}

// foldReleased is settle for a caller that holds r.folding.
func (r *Recorder) foldReleased(own *planFold) (first error) {
	start := Now()
	older := r.taken // they were released before the others
	r.taken = nil
	first = r.foldRuns(older, own)
	runs := r.released.take(r.spare)
	r.spare = runs
	if len(runs) > 0 {
		expectRuns(runs)
		r.gc.update()
		first = cmp.Or(first, r.foldRuns(runs, own))
	}
	if len(older)+len(runs) > 0 {
		r.folded += Now() - start
	}
	return first
}

// expectRuns prefetches the first runs and the aggregates.
func expectRuns(runs []*Run) {
	for _, run := range runs[:min(2*batchRuns, len(runs))] {
		run.expect()
	}
	runs[0].fold.expect()
	for _, run := range runs[:min(batchRuns, len(runs))] {
		run.expectEnds()
	}
	for _, run := range runs[:min(batchRuns, len(runs))] {
		for i := range run.Lanes {
			run.expectLane(i)
		}
	}
}

// foldRuns folds runs and clears the slice. They ended before the last call of
// r.gc.update.
func (r *Recorder) foldRuns(runs []*Run, own *planFold) (first error) {
	for rest := runs; len(rest) > 0; {
		n := together(rest)
		for _, run := range rest[min(n+batchRuns, len(rest)):min(n+2*batchRuns, len(rest))] {
			run.expect()
		}
		fold, next := rest[0].fold, rest[n:min(n+batchRuns, len(rest))]
		for _, run := range next {
			run.expectEnds()
		}
		r.elapsed.addRuns(fold, rest[:n])
		if err := fold.settle(rest[:n], next); first == nil && fold == own {
			first = err
		}
		rest = rest[n:]
	}
	clear(runs)
	return first
}

// together is how many of the first runs can be folded at once: they are of one plan
// and one scope.
func together(runs []*Run) int {
	n := 1
	for n < min(batchRuns, len(runs)) && runs[n].fold == runs[0].fold && runs[n].scope == runs[0].scope {
		n++
	}
	return n
}
