package profile

import (
	"cmp"
	"slices"
)

// settle checks and folds at most batchRuns released runs of one scope. It returns the
// first error of several; the recorder has all of them. next are the runs to be folded
// after these.
func (f *planFold) settle(runs, next []*Run) (first error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range runs {
		if r.Timing != nil {
			r.Timing.Times(r)
			r.Timing = nil // the run may be kept for longer than its device
		}
	}
	if !f.batch.gather(&f.plan, runs) || !f.batch.add(len(runs), next) {
		runs, first = f.dropBad(runs)
		if len(runs) == 0 || !f.batch.gather(&f.plan, runs) || !f.batch.add(len(runs), nil) {
			return first
		}
	}
	f.fold(runs)
	return first
}

// dropBad returns the runs with good stamps, and the first error of the others.
func (f *planFold) dropBad(runs []*Run) (good []*Run, first error) {
	good = f.batch.good[:0]
	for _, r := range runs {
		err := cmp.Or(r.checkCosts(&f.plan), r.check(&f.plan, f.spans))
		if err == nil {
			good = append(good, r)
			continue
		}
		f.rec.fail(err)
		first = cmp.Or(first, err)
		if len(r.Lanes) == len(f.plan.Lanes) && len(r.Costs) == len(f.plan.Steps) {
			f.recycle(r)
		}
	}
	return good, first
}

// fold adds runs to the aggregates. The batch has the sums of their steps.
func (f *planFold) fold(runs []*Run) {
	if scope := int(runs[0].scope); scope != f.scope {
		f.leaveScope()
		f.scope = scope
	}
	f.rec.gc.pauses(runs)
	if f.runs == 0 {
		f.first = runs[0].End - runs[0].Start
	}
	for _, r := range runs {
		r.index = f.runs
		f.runs++
		f.wall.addValue(r.End - r.Start)
		f.tokens += int64(r.Tokens)
		f.seqs += int64(r.Sequences)
		f.rows += int64(r.Rows)
		if r.meter != nil {
			f.foldHeap(r)
		}
	}
	f.foldSteps(int64(len(runs)))
	for i := range f.lanes {
		f.foldLane(runs, i)
	}
	for k, r := range runs {
		marks := int32(0)
		for i := range r.Lanes {
			marks += r.Lanes[i].marks
		}
		if f.batch.overlap[k] < 0 || marks > 0 {
			f.foldClock(r)
		}
		if marks > 0 {
			f.foldOff(r)
		}
	}
	f.foldCosts(runs)
	for _, r := range runs {
		if out, full := f.kept.keep(r); full {
			f.recycle(out)
		}
	}
}

func (f *planFold) foldHeap(r *Run) {
	f.heap.addCount(r.heap)
	if !r.entered {
		return
	}
	f.entered = true
	for s := range f.steps {
		f.steps[s].heap.addCount(r.stepHeap[s])
	}
}

// foldSteps adds what the steps of the batch's runs have over all lanes.
func (f *planFold) foldSteps(runs int64) {
	lanes := len(f.lanes)
	for s := range f.steps {
		st, sum := &f.steps[s], &f.batch.steps[s]
		st.longest += sum.longest
		st.span.addValues(runs, sum.span, sum.least, sum.most)
		for _, k := range sum.bucket[:runs] {
			st.span.bucket[k]++
		}
		even := f.even[s*lanes : (s+1)*lanes]
		for i, v := range f.batch.lanes[s*lanes : (s+1)*lanes] {
			even[i] += v.even
		}
	}
}

// foldLane adds the times of one lane. The wait after the lane's last step belongs to no
// step.
func (f *planFold) foldLane(runs []*Run, lane int) {
	var compute, wait int64
	computes, waits := f.compute[lane], f.wait[lane]
	for s, at := 0, lane; s < len(computes); s, at = s+1, at+len(f.lanes) {
		v := &f.batch.lanes[at]
		computes[s] += v.compute
		waits[s] += v.wait
		compute += v.compute
		wait += v.wait
	}
	sum := Ledger{Compute: compute, Barrier: wait}
	for _, r := range runs {
		l := &r.Lanes[lane]
		sum.addOutside(r, lane)
		f.exact = f.exact || l.exact
		f.gaps[lane] += max(0, l.Gap)
		if !l.exact || l.marks > 0 || r.learns() {
			f.suspects(r, lane)
		}
	}
	sum.balance()
	f.lanes[lane].addLedger(sum)
}

// foldClock adds the clock of a run whose steps overlap. The batch has checked the run.
func (f *planFold) foldClock(r *Run) {
	_ = r.check(&f.plan, f.spans)
	f.clock.take(f.spans)
	for s, clock := range f.clock.clock[:len(f.spans)] {
		if span := &f.spans[s]; clock != span.last-span.first {
			f.steps[s].shift += clock - (span.last - span.first)
		}
	}
}

// foldOff adds the part of the clock of each step in which a lane had no processor:
// the step ends when its last lane does, so the longest counts. It takes the same time off
// the lanes that addStep has compared: whoever lost its processor had no larger part.
func (f *planFold) foldOff(r *Run) {
	for s := range f.steps {
		var off, all, longest, before, lanes int64
		for i := range r.Lanes {
			l := &r.Lanes[i]
			if l.Steps[s].Begin == 0 {
				continue
			}
			on := l.Steps[s].End - l.Steps[s].Begin
			before, lanes = max(before, on), lanes+1
			if l.exact && l.marked(s) {
				off, all, on = max(off, l.off[s]), all+l.off[s], on-l.off[s]
			}
			longest = max(longest, on)
		}
		if off == 0 {
			continue
		}
		st := &f.steps[s]
		st.off += min(off, f.clock.clock[s])
		st.longest += longest - before
		f.even[s*len(f.lanes)+int(lanes)-1] -= all
	}
}

// foldCosts adds the costs of runs, and what is made of them. Runs that cost the same
// are added together.
func (f *planFold) foldCosts(runs []*Run) {
	var costs []Cost
	same := int64(0)
	for k, r := range runs {
		if k == 0 || !r.costsLike(runs[k-1], len(f.steps)) {
			f.addCosts(costs, same)
			costs, same = f.costsOf(r), 0
		}
		same++
		f.samples.addRun(r, costs)
		if len(r.Shares) > 0 {
			f.rec.mu.Lock()
			f.rec.requests.parts.addRun(&f.plan, r, costs)
			f.rec.mu.Unlock()
		}
	}
	f.addCosts(costs, same)
}

func (f *planFold) addCosts(costs []Cost, runs int64) {
	for s, c := range costs {
		f.steps[s].flops += runs * c.FLOPs
		f.steps[s].bytes += runs * c.Bytes
	}
}

// costsLike reports whether the costs of all steps are those of another run, which is
// folded already.
func (r *Run) costsLike(o *Run, steps int) bool {
	if r.Costing == nil || r.Costing != o.Costing || int(o.costed) != steps || r.Tokens != o.Tokens || r.Sequences != o.Sequences || r.Rows != o.Rows || !slices.Equal(r.Inputs, o.Inputs) {
		return false
	}
	r.costed = o.costed
	return true
}

// costsOf returns the costs of a run's steps, until the next call. They have no memory
// in the run, which the next run would evict from the caches.
func (f *planFold) costsOf(r *Run) []Cost {
	if r.Costing == nil {
		return r.Costs
	}
	n := r.Costing.Costs(r, f.costs)
	if r.costed = int32(n); n < len(f.costs) {
		copy(f.costs[n:], r.Costs[n:])
	}
	return f.costs
}
