package profile

import (
	"cmp"
	"math"
	"unsafe"
)

// batchRuns is how many runs of a plan are folded together, step after step: the
// aggregates of a step are touched once for all of them, and the stamps of so many
// runs of a small model fit into the first cache.
const batchRuns = 8

// batch is scratch for folding runs together.
type batch struct {
	stamps [][]StepStamps // [run × lanes + lane]
	absent []StepStamps   // of lanes that are absent: no stamps
	start  [batchRuns]int64
	ended  [batchRuns]int64 // the end of the step before
	shared [batchRuns]bool  // some steps of the run overlap
	good   [batchRuns]*Run
	steps  []stepSum // [step]
	lanes  []laneSum // [step × lanes + lane]
}

// stepSum is one step in the runs of a batch.
type stepSum struct {
	span, least, most int64 // sum and extremes of its calls
	longest           int64 // as that of stepFold
	bucket            [batchRuns]uint16
}

// laneSum is one lane in one step of the runs of a batch. even is of calls that had as
// many lanes as the lane's number, counted from 1.
type laneSum struct{ compute, wait, even int64 }

func newBatch(steps, lanes int) *batch {
	return &batch{stamps: make([][]StepStamps, batchRuns*lanes), absent: make([]StepStamps, steps),
		steps: make([]stepSum, steps), lanes: make([]laneSum, steps*lanes)}
}

// gather prepares to add runs. It is false if some run has bad stamps.
func (b *batch) gather(p *Plan, runs []*Run) bool {
	lanes := len(p.Lanes)
	for k, r := range runs {
		if cmp.Or(r.checkCosts(p), r.checkEnds(p)) != nil {
			return false
		}
		b.start[k], b.ended[k], b.shared[k] = r.Start, 0, false
		for i := range r.Lanes {
			l := &r.Lanes[i]
			if l.checkEnds(p, i) != nil {
				return false
			}
			stamps := l.Steps
			if l.Absent {
				for s := range stamps {
					if stamps[s].late(r.Start) {
						return false
					}
				}
				stamps = b.absent
			}
			b.stamps[k*lanes+i] = stamps
		}
	}
	return true
}

// late reports whether some stamp is not from before a run that began at start. If
// none is, it clears them: they are of an older run.
func (st *StepStamps) late(start int64) bool {
	if max(st.Arrive, st.Begin, st.End) >= start {
		return true
	}
	if *st != (StepStamps{}) {
		*st = StepStamps{}
	}
	return false
}

// add sums up the steps of runs that gather has prepared. Meanwhile it prefetches the
// stamps of the next runs. It is false if some run has bad stamps.
func (b *batch) add(lanes int, runs, next []*Run) bool {
	bad := int64(0) // negative if something is
	fetched, toFetch := 0, len(next)*lanes
	for s := range b.steps {
		for ; fetched*len(b.steps) < s*toFetch; fetched++ {
			next[fetched/lanes].expectLane(fetched % lanes)
		}
		sum, sums := stepSum{least: math.MaxInt64}, b.lanes[s*lanes:(s+1)*lanes]
		clear(sums)
		for k := range runs {
			start, span := b.start[k], stepSpan{first: math.MaxInt64}
			for i, stamps := range b.stamps[k*lanes : (k+1)*lanes] {
				st := &stamps[s]
				if st.Arrive < start {
					if st.Begin|st.End|st.Arrive != 0 && st.late(start) {
						bad = -1
					}
					continue
				}
				took, wait := st.End-st.Begin, st.Begin-st.Arrive
				bad |= took | wait
				span.first, span.last = min(span.first, st.Begin), max(span.last, st.End)
				span.longest = max(span.longest, took)
				span.busy += took
				span.lanes++
				sums[i].compute += took
				sums[i].wait += wait
			}
			took := span.last - span.first
			if bad |= took; bad < 0 { // also if no lane had a part in it
				return false
			}
			if span.first < b.ended[k] {
				b.shared[k] = true
			}
			b.ended[k] = span.last
			sums[span.lanes-1].even += span.busy
			sum.span += took
			sum.least, sum.most = min(sum.least, took), max(sum.most, took)
			sum.longest += span.longest
			sum.bucket[k] = uint16(histIndex(took))
		}
		b.steps[s] = sum
	}
	for ; fetched < toFetch; fetched++ {
		next[fetched/lanes].expectLane(fetched % lanes)
	}
	return true
}

// expect prefetches the run itself, expectEnds its lanes and expectLane what a lane
// stamped: between its end and its folding the run was evicted from the caches.
func (r *Run) expect() {
	own(&r.Start)
	own((*int64)(unsafe.Pointer(&r.Lanes)))
	own(&r.index)
}

func (r *Run) expectEnds() {
	for i := range r.Lanes {
		own(&r.Lanes[i].Wake)
	}
	if len(r.Inputs) > 0 {
		own((*int64)(unsafe.Pointer(&r.Inputs[0])))
	}
}

func (r *Run) expectLane(lane int) {
	if lane >= len(r.Lanes) {
		return
	}
	if l := &r.Lanes[lane]; len(l.Steps) > 0 {
		ownAll(&l.Steps[0].Arrive, uintptr(len(l.Steps))*unsafe.Sizeof(l.Steps[0]))
	}
}
