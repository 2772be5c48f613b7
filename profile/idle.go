package profile

// Idle is bookkeeping for a worker that waits for the next run. The zero value does
// nothing.
type Idle struct {
	rec   *Recorder
	began bool // Fold was called
}

// Idle is for a worker of the run. It stays valid when the run is released.
func (r *Run) Idle() Idle { return Idle{rec: r.fold.rec} }

const (
	idleWaits = 8   // waits of workers between two that take runs
	idleMost  = 16  // the most that is taken
	idleSteps = 128 // of a run on all its lanes, at most: a larger one is not worth the parts
	idleEach  = 4   // steps of a batch that are added up at once
)

// Fold does a small part of folding the runs that were released, unless somebody else
// folds, and reports whether there is more. A worker calls it again until it is wanted for
// a run: most parts take less than half a microsecond, so a run that follows at once does
// not wait for it. Runs that no idle worker comes to are folded as they are without any.
func (i *Idle) Fold() (more bool) {
	r := i.rec
	if r == nil || r.meter != nil || !r.folding.TryLock() { // allocations would count as those of a run
		return false
	}
	defer r.folding.Unlock()
	if !i.began {
		i.began = true
		r.idle.waits++
	}
	if len(r.taken) == 0 {
		r.takeIdle()
	} else {
		r.foldPart()
	}
	return len(r.taken) > 0
}

// takeIdle takes runs for the next calls of Idle.Fold. It does so rarely, because
// whoever releases a run then waits for the queue's memory.
func (r *Recorder) takeIdle() {
	if r.idle.waits < idleWaits {
		return
	}
	r.idle.waits = 0
	if runs := r.released.takeIdle(r.spare, idleMost); len(runs) > 0 {
		r.taken, r.spare = runs, runs
		r.gc.update()
	}
}

// idleFold is what idle workers do: the first of the taken runs are a batch, of which
// so many parts are done. They change nothing but scratch before the last part.
type idleFold struct {
	waits int // since the last that took runs
	batch int // runs; 0: none has begun
	part  int
}

// foldPart does the next part of folding the first taken runs.
func (r *Recorder) foldPart() {
	i := &r.idle
	if i.batch == 0 {
		i.batch, i.part = together(r.taken), 0
	}
	runs := r.taken[:i.batch]
	f := runs[0].fold
	more, ok := f.prepare(runs, i.part)
	if i.part++; more && ok {
		return
	}
	r.elapsed.addRuns(f, runs) // first: a run that is folded may become another one
	if ok {
		f.foldBatch(runs)
	} else {
		f.settle(runs, nil) // finds the bad ones, which fail keeps
	}
	clear(runs)
	r.taken, i.batch = r.taken[i.batch:], 0
}

// prepare does one part of what comes before foldBatch: it prefetches what the next parts
// touch, or sums up some steps. It is not ok if some run has bad stamps; more is false if
// nothing is left.
func (f *planFold) prepare(runs []*Run, part int) (more, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch part {
	case 0:
		for _, r := range runs {
			r.expect()
		}
		return true, true
	case 1:
		for _, r := range runs {
			r.expectEnds()
		}
		return true, true
	case 2:
		ok = f.batch.gather(&f.plan, runs)
		f.batch.expectSteps(0, idleEach, len(runs))
		return true, ok
	}
	from := (part - 3) * idleEach
	to := min(from+idleEach, len(f.steps))
	f.batch.expectSteps(to, to+idleEach, len(runs))
	for s := from; s < to; s++ {
		own(&f.steps[s].flops)
		if !f.batch.addStep(s, uint(len(runs))) {
			return false, false
		}
	}
	return to < len(f.steps), true
}

// foldBatch folds runs that prepare has summed up.
func (f *planFold) foldBatch(runs []*Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fold(runs)
}
