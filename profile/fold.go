package profile

import (
	"cmp"
	"sync"
	"unsafe"

	"hotpath/profile/internal/table"
)

// planFold is a registered plan with the pool of its runs and the aggregates
// that released runs are folded into.
type planFold struct {
	// In one cache line: what a run that begins or ends looks at.
	mu   sync.Mutex
	free *Run // each has the next one
	rec  *Recorder

	plan    Plan
	made    int64 // runs
	steps   []stepFold
	compute [][]int64   // [lane][step]
	wait    [][]int64   // [lane][step]
	lanes   []Ledger    // [lane]
	times   []LaneTime  // [lane]
	typical [][]float64 // [lane][step], ns per token: about the 0.2 quantile
	suspect [][]int64   // [lane][step], time without a processor, or beyond the typical where that is not known
	gaps    []int64     // [lane], the same between steps, where that is marked
	exact   bool        // those steps are marked, not guessed
	spans   []stepSpan  // [step], scratch of settle
	costs   []Cost      // [step], scratch of costsOf
	clock   *stepClock
	runs    int64
	wall    histogram
	tokens  int64
	seqs    int64
	rows    int64
	kept    *keeper[*Run]
	samples *sampler
	heap    HeapCount
	scopes  map[int]*ScopePart
	scope   int       // of the last run, as Run.scope
	entry   ScopePart // what was folded when runs of it began
	spare   []int64   // memory of the entry before
	entered bool      // steps say what they allocated
	first   int64     // wall time of the first run

	elapsed float64 // of what is divided; Recorder.elapsed.mu is held
}

// stepFold is one step over all runs, but for its lane times. A run touches its first
// two cache lines and one bucket.
type stepFold struct {
	clock        int64 // of all calls
	off          int64 // of clock, where marked: without a processor
	flops, bytes int64
	longest      int64     // of each call: the time on a processor of its busiest lane
	even         evenLanes // of each call: the same if its lanes had equal parts
	span         histogram // of each call: first Begin to last End over its lanes
	heap         HeapCount

	_ [1344 - 8*8 - unsafe.Sizeof(histogram{}) - unsafe.Sizeof(HeapCount{})]byte
}

// evenLanes adds up the mean time of the lanes of each call. It divides only if another
// number of lanes takes part than in the call before.
type evenLanes struct{ sum, busy, lanes int64 }

func (e *evenLanes) addCall(busy, lanes int64) {
	if lanes != e.lanes {
		e.sum, e.busy, e.lanes = e.total(), 0, lanes
	}
	e.busy += busy
}

func (e *evenLanes) total() int64 { return e.sum + e.busy/max(1, e.lanes) }

// spareRuns is the number of runs in a plan's pool in addition to those kept for
// the trace: runs that wait to be folded, one in flight, and one that the next
// caller fills.
const spareRuns = pendingRuns + 2

func newPlanFold(rec *Recorder, p Plan) *planFold {
	steps, lanes := len(p.Steps), len(p.Lanes)
	keep := min(rec.opts.Events/(steps*lanes), rec.opts.Runs)
	f := &planFold{rec: rec, plan: p, steps: make([]stepFold, steps), lanes: make([]Ledger, lanes), spans: make([]stepSpan, steps), costs: make([]Cost, steps), clock: newStepClock(&p),
		kept: newKeeper[*Run](keep), samples: newSampler(steps, rec.opts.Events, rec.opts.Canary)}
	for range lanes {
		f.compute = append(f.compute, make([]int64, steps))
		f.wait = append(f.wait, make([]int64, steps))
		f.typical = append(f.typical, make([]float64, steps))
		f.suspect = append(f.suspect, make([]int64, steps))
	}
	f.times, f.gaps = make([]LaneTime, lanes), make([]int64, lanes)
	for range keep + spareRuns {
		r := f.newRun()
		r.next, f.free = f.free, r
	}
	return f
}

// newRun makes a run of the plan. The caller holds f.mu.
func (f *planFold) newRun() *Run {
	f.made++
	return newRun(&f.plan, f.times, f.rec)
}

func (f *planFold) acquire() *Run {
	f.mu.Lock()
	r := f.free
	if r == nil {
		r = f.newRun()
	} else {
		f.free = r.next
	}
	f.mu.Unlock()
	r.reset() // now and not before, because its memory is needed now
	if r.burn != nil {
		f.rec.settle(nil) // means are of all runs so far; what it finds is kept by fail
		f.mu.Lock()
		f.plant(r)
		f.mu.Unlock()
	}
	return r
}

// recycle returns a run to the pool. The caller holds f.mu.
func (f *planFold) recycle(r *Run) {
	clear(r.Costs[r.costed:])
	r.next, f.free = f.free, r
}

// expect prefetches the aggregates.
func (f *planFold) expect() {
	for s := range f.steps {
		own(&f.steps[s].clock)
		own(&f.steps[s].span.count)
	}
	for i := range f.compute {
		ownAll(&f.compute[i][0], uintptr(len(f.steps))*8)
		ownAll(&f.wait[i][0], uintptr(len(f.steps))*8)
	}
}

// settle checks and folds a released run.
func (f *planFold) settle(r *Run) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Timing != nil {
		r.Timing.Times(r)
		r.Timing = nil // the run may be kept for longer than its device
	}
	if err := cmp.Or(r.checkCosts(&f.plan), r.check(&f.plan, f.spans)); err != nil {
		if len(r.Lanes) == len(f.plan.Lanes) && len(r.Costs) == len(f.plan.Steps) {
			f.recycle(r)
		}
		return err
	}
	f.fold(r)
	return nil
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

// fold adds a checked run to the aggregates.
func (f *planFold) fold(r *Run) {
	if scope := int(r.scope); scope != f.scope {
		f.leaveScope()
		f.scope = scope
	}
	r.gc = f.rec.gc.pause(r.Start, r.End)
	r.index = f.runs
	if f.runs == 0 {
		f.first = r.End - r.Start
	}
	f.runs++
	f.wall.addValue(r.End - r.Start)
	f.tokens += int64(r.Tokens)
	f.seqs += int64(r.Sequences)
	f.rows += int64(r.Rows)
	f.heap.addCount(r.heap)
	costs := f.costsOf(r)
	f.foldSteps(r, costs)
	marks := int32(0)
	for i := range r.Lanes {
		compute, wait := f.foldLane(r, i)
		f.lanes[i].addLedger(laneLedger(r, i, compute, wait))
		marks += r.Lanes[i].marks
	}
	if marks > 0 {
		f.foldOff(r)
	}
	f.samples.addRun(r, costs)
	if len(r.Shares) > 0 {
		f.rec.mu.Lock()
		f.rec.requests.parts.addRun(&f.plan, r, costs)
		f.rec.mu.Unlock()
	}
	if out, full := f.kept.keep(r); full {
		f.recycle(out)
	}
}

// foldSteps adds the steps of a run. check has computed their spans.
func (f *planFold) foldSteps(r *Run, costs []Cost) {
	f.clock.take(f.spans)
	steps, costs, clock := f.steps[:len(f.spans)], costs[:len(f.spans)], f.clock.clock[:len(f.spans)]
	for s, span := range f.spans {
		st := &steps[s]
		st.span.addValue(span.last - span.first)
		st.clock += clock[s]
		st.longest += span.longest
		st.even.addCall(span.busy, span.lanes)
		st.flops += costs[s].FLOPs
		st.bytes += costs[s].Bytes
	}
	if !r.entered {
		return
	}
	f.entered = true
	for s := range steps {
		steps[s].heap.addCount(r.stepHeap[s])
	}
}

// foldOff adds the part of the clock of each step in which a lane had no processor:
// the step ends when its last lane does, so the longest counts. It takes the same time off
// the lanes that foldSteps has compared: whoever lost its processor had no larger part.
func (f *planFold) foldOff(r *Run) {
	for s := range f.steps {
		var off, all, longest int64
		for i := range r.Lanes {
			l := &r.Lanes[i]
			if l.Steps[s].Begin == 0 {
				continue
			}
			on := l.Steps[s].End - l.Steps[s].Begin
			if l.exact && l.marked(s) {
				off, all, on = max(off, l.off[s]), all+l.off[s], on-l.off[s]
			}
			longest = max(longest, on)
		}
		if off == 0 {
			continue
		}
		st, span := &f.steps[s], &f.spans[s]
		st.off += min(off, f.clock.clock[s])
		st.longest += longest - span.longest
		st.even.addCall(-all, span.lanes)
	}
}

// foldLane adds the times of one lane and returns their sums. The wait after the
// lane's last step belongs to no step.
func (f *planFold) foldLane(r *Run, lane int) (compute, wait int64) {
	l, computes := &r.Lanes[lane], f.compute[lane]
	waits, steps := f.wait[lane][:len(computes)], l.Steps[:len(computes)]
	for s := range computes {
		st := &steps[s]
		c, w := st.End-st.Begin, st.Begin-st.Arrive // all 0 where the lane had no part
		computes[s] += c
		waits[s] += w
		compute += c
		wait += w
	}
	f.exact = f.exact || l.exact
	f.gaps[lane] += max(0, l.Gap)
	if !l.exact || l.marks > 0 || r.index%typicalEvery == 0 {
		f.suspects(r, lane)
	}
	return compute, wait + l.Wait
}

// typicalEvery: if the kernel marks preempted threads, a run without marks is
// examined only every typicalEvery-th time, to learn typical step times.
const typicalEvery = 4

// suspects finds the steps of a lane that may have lost their processor, and learns
// from the others how long steps take.
func (f *planFold) suspects(r *Run, lane int) {
	l, typical, tokens := &r.Lanes[lane], f.typical[lane], float64(max(r.Tokens, 1))
	for s := range typical {
		c := l.Steps[s].End - l.Steps[s].Begin
		if l.Steps[s].Begin == 0 {
			continue
		}
		switch usual := typical[s] * tokens; {
		case l.exact && l.marked(s):
			switch {
			case l.off[s] == unknownOff:
				l.off[s] = min(max(0, c-int64(usual)), c)
			case l.off[s] > c:
				l.off[s] = 0 // it was lost between a stamp and the look at the thread
			}
			f.suspect[lane][s] += l.off[s]
		case !l.exact && float64(c) > outlier*usual+outlierLeast && usual > 0:
			f.suspect[lane][s] += max(0, c-int64(usual))
		case usual == 0:
			typical[s] = float64(c) / tokens
		case float64(c) < usual:
			typical[s] *= 1 - 1.0/4
		default:
			typical[s] *= 1 + 1.0/16
		}
	}
}

// A step that takes this many times its typical time, and this many nanoseconds
// more, may have lost its processor: a context switch and what the processor did
// meanwhile take longer than that.
const (
	outlier      = 1.5
	outlierLeast = 20_000
)

// offCPU distributes the time in which a lane had no processor over its steps and
// the time between them. Steps that are marked get what was measured in them. Where
// the system marks none, steps that took much longer than usual get it, in proportion
// to their time beyond the typical. If the lane changed its thread, the time without
// a processor is unknown. Then the time beyond the typical counts instead, and
// guessed is its sum.
func (f *planFold) offCPU(lane int) (steps []int64, off, guessed int64) {
	off, blind := f.times[lane].off.Load(), f.times[lane].blind.Load()
	suspect := f.suspect[lane]
	all := table.Sum(suspect) + f.gaps[lane]
	guessed = max(0, min(blind, all-off))
	if off += guessed; off == 0 || all == 0 {
		return nil, off, guessed
	}
	placed := min(1, float64(off)/float64(all))
	steps = make([]int64, len(suspect))
	for s, ns := range suspect {
		steps[s] = min(int64(placed*float64(ns)), f.compute[lane][s])
	}
	return steps, off, guessed
}

// bytes is the memory of the plan's slots and aggregates, about.
func (f *planFold) bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	steps, lanes := int64(len(f.plan.Steps)), int64(len(f.plan.Lanes))
	run := lanes*(int64(unsafe.Sizeof(LaneSlots{}))+8*steps+24*(steps+2*slotPad)) + 16*steps + int64(unsafe.Sizeof(Run{})) + 4*int64(f.plan.Inputs)
	return f.made*run + steps*int64(unsafe.Sizeof(stepFold{})) + lanes*steps*4*8 + int64(len(f.samples.values))*int64(unsafe.Sizeof(stepSample{}))
}

// bytes estimates the memory of the recorder.
func (r *Recorder) bytes(plans []*planFold) int64 {
	n := int64(r.opts.ScopeEvents)*int64(unsafe.Sizeof(ScopeEvent{})) + int64(r.opts.Requests)*int64(unsafe.Sizeof(Request{})) +
		flightsKept*int64(unsafe.Sizeof(flight{})+2*unsafe.Sizeof(edge{}))
	for _, f := range plans {
		n += f.bytes()
	}
	return n
}
