package profile

// Idle is bookkeeping for a worker that has waited for the next run for some time. The zero
// value does nothing.
type Idle struct{ rec *Recorder }

// Idle is for a worker of the run. It stays valid when the run is released.
func (r *Run) Idle() Idle { return Idle{r.fold.rec} }

const (
	idleEach  = 2   // runs that are folded together
	idleMost  = 16  // runs that are taken from the queue: with so many, no pool runs empty
	idleSteps = 128 // of a run on all its lanes, at most: it is folded in some microseconds, memory being cold
)

// Fold folds some of the runs that were released, unless somebody else folds, and reports
// whether there are more. A worker calls it where it would park: runs that follow each other
// at once are folded by who releases them, because a worker that folds is late for the next
// run by as much as it saves. Runs that no idle worker comes to are folded as they are
// without any.
func (i Idle) Fold() (more bool) {
	r := i.rec
	if r == nil || r.meter != nil || !r.folding.TryLock() { // allocations would count as those of a run
		return false
	}
	defer r.folding.Unlock()
	if len(r.taken) == 0 {
		runs := r.released.takeIdle(r.spare, idleMost)
		if len(runs) == 0 {
			return false
		}
		r.taken, r.spare = runs, runs
		r.gc.update()
	}
	runs := r.taken[:min(idleEach, len(r.taken))]
	r.taken = r.taken[len(runs):]
	expectRuns(runs)
	r.foldRuns(runs, nil)
	return len(r.taken) > 0
}
