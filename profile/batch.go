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
	stamps  [][batchRuns]*StepStamps // [lane][run], of the first step
	absent  []StepStamps             // of lanes that are absent, and of runs that are not there: no stamps
	start   [batchRuns]int64
	ended   [batchRuns]int64 // the end of the steps before
	overlap [batchRuns]int64 // negative if some steps of the run do
	good    [batchRuns]*Run
	after   []int64   // [step] -1 if it follows all steps before it, else 0
	steps   []stepSum // [step]
	lanes   []laneSum // [step × lanes + lane]
	wide    bool      // with addStepWide
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

func newBatch(p *Plan) *batch {
	steps, lanes := len(p.Steps), len(p.Lanes)
	b := &batch{stamps: make([][batchRuns]*StepStamps, lanes), absent: make([]StepStamps, steps+slotPad), wide: hasWide,
		after: make([]int64, steps), steps: make([]stepSum, steps), lanes: make([]laneSum, steps*lanes)}
	for s := range p.Steps {
		if p.followsAll(&p.Steps[s]) {
			b.after[s] = -1
		}
	}
	return b
}

// gather prepares to add runs. It is false if some run has bad stamps.
func (b *batch) gather(p *Plan, runs []*Run) bool {
	for k, r := range runs {
		if cmp.Or(r.checkCosts(p), r.checkEnds(p)) != nil {
			return false
		}
		b.start[k], b.ended[k], b.overlap[k] = r.Start, 0, 0
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
			b.stamps[i][k] = &stamps[0]
		}
	}
	for i := range b.stamps {
		for k := len(runs); k < batchRuns; k++ {
			b.stamps[i][k] = &b.absent[0]
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
func (b *batch) add(runs int, next []*Run) bool {
	lanes := len(b.stamps)
	fetched, toFetch := 0, len(next)*lanes
	for s := range b.steps {
		for ; fetched*len(b.steps) < s*toFetch; fetched++ {
			next[fetched/lanes].expectLane(fetched % lanes)
		}
		if !b.addStep(s, uint(runs), b.lanes[s*lanes:(s+1)*lanes]) {
			return false
		}
	}
	for ; fetched < toFetch; fetched++ {
		next[fetched/lanes].expectLane(fetched % lanes)
	}
	return true
}

// addStep is add for one step.
func (b *batch) addStep(s int, runs uint, lanes []laneSum) bool {
	if !b.wide {
		return b.addStepPlain(s, runs, lanes)
	}
	bad, old := addStepWide(b, s, runs, lanes)
	for i := 0; old && i < len(lanes); i++ {
		bad = bad || b.late(s, i, runs)
	}
	return !bad
}

// addStepPlain is addStep in plain Go. The loops are over runs and not over lanes, because
// the processor then computes several of them at once.
func (b *batch) addStepPlain(s int, runs uint, lanes []laneSum) bool {
	var first, last, busy, longest, parts [batchRuns]int64 // [run]; parts are lanes that had one
	for k := range first {
		first[k] = math.MaxInt64
	}
	bad, start := int64(0), &b.start // bad is negative if something is
	for i := range lanes {
		var compute, wait, old int64
		stamps := &b.stamps[i]
		for k := uint(0); k < runs && k < batchRuns; k++ {
			st := (*StepStamps)(unsafe.Add(unsafe.Pointer(stamps[k]), uintptr(s)*unsafe.Sizeof(StepStamps{})))
			arrive, begin, end := st.Arrive, st.Begin, st.End
			if arrive < start[k] {
				old |= arrive | begin | end
				continue
			}
			took, waited := end-begin, begin-arrive
			bad |= took | waited
			compute += took
			wait += waited
			busy[k] += took
			parts[k]++
			first[k], last[k], longest[k] = min(first[k], begin), max(last[k], end), max(longest[k], took)
		}
		lanes[i] = laneSum{compute: compute, wait: wait}
		if old != 0 && b.late(s, i, runs) {
			return false
		}
	}
	var span, most, busiest int64
	least := int64(math.MaxInt64)
	st, after := &b.steps[s], b.after[s]
	for k := uint(0); k < runs && k < batchRuns; k++ {
		if bad |= last[k] - first[k]; bad < 0 { // also if no lane had a part in it
			return false
		}
		begin := min(max(first[k], b.ended[k]&after), last[k])
		took := last[k] - begin
		b.overlap[k] |= begin - b.ended[k]
		b.ended[k] = max(b.ended[k], last[k])
		lanes[parts[k]-1].even += busy[k]
		span += took
		least, most = min(least, took), max(most, took)
		busiest += longest[k]
		st.bucket[k] = uint16(histIndex(took))
	}
	st.span, st.least, st.most, st.longest = span, least, most, busiest
	return true
}

// late reports whether a lane has a bad stamp in a step of some run, in which it did not arrive.
func (b *batch) late(s, lane int, runs uint) bool {
	for k := range runs {
		st := (*StepStamps)(unsafe.Add(unsafe.Pointer(b.stamps[lane][k]), uintptr(s)*unsafe.Sizeof(StepStamps{})))
		if st.Arrive < b.start[k] && st.late(b.start[k]) {
			return true
		}
	}
	return false
}

// expectEnds prefetches a run's lanes and what else folding touches, expectLane what a lane
// stamped: between its end and its folding the run was evicted from the caches.
func (r *Run) expectEnds() {
	own(&r.index)
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
