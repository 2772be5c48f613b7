package profile

// Idle is bookkeeping for a worker that waits for the next run. The zero value does
// nothing.
type Idle struct{ rec *Recorder }

// Idle is for a worker of the run. It stays valid when the run is released.
func (r *Run) Idle() Idle { return Idle{r.fold.rec} }

const (
	idleRuns  = 8   // calls of Fold between two that take runs
	idleMost  = 16  // the most that it takes
	idleSteps = 128 // of a run on all its lanes, at most: it is folded in some microseconds, memory being cold
)

// Fold does a small part of folding the runs that were released, unless somebody else
// folds: mostly it folds one run, in about 8 us. A caller that needs as long to hand out the
// results of a run and to begin the next pays nothing. Runs that no idle worker comes to
// are folded as they are without any.
func (i Idle) Fold() {
	r := i.rec
	if r == nil || r.meter != nil || !r.folding.TryLock() { // allocations would count as those of a run
		return
	}
	defer r.folding.Unlock()
	r.idle++
	if len(r.taken) == 0 {
		r.takeIdle()
		return
	}
	n := 1
	if len(r.taken) >= idleRuns { // for the call that took them
		n = 2
	}
	runs := r.taken[:n]
	r.taken = r.taken[n:]
	expectRuns(runs)
	r.foldRuns(runs, nil)
}

// takeIdle takes runs for the next calls of Idle.Fold. It does so rarely, because
// whoever releases a run then waits for the queue's memory.
func (r *Recorder) takeIdle() {
	if r.idle < idleRuns {
		return
	}
	r.idle = 0
	if runs := r.released.takeIdle(r.spare, idleMost); len(runs) > 0 {
		r.taken, r.spare = runs, runs
		r.gc.update()
	}
}
