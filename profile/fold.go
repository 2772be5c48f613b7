package profile

import (
	"sync"
	"unsafe"

	"hotpath/profile/internal/table"
)

// planFold is a registered plan with the pool of its runs and the aggregates
// that released runs are folded into.
type planFold struct {
	// In one cache line: what a run that begins or ends looks at. Runs that are folded
	// meanwhile do not hold it up, because the aggregates have another lock.
	pool  sync.Mutex
	free  *Run // each has the next one
	last  *Run // of those
	made  int64
	rec   *Recorder
	queue *released // of rec
	small bool      // Idle.Fold folds its runs
	_     [64 - 6*8 - 1]byte

	mu      sync.Mutex // held while the aggregates below change
	plan    Plan
	steps   []stepFold
	compute [][]int64   // [lane][step]
	wait    [][]int64   // [lane][step]
	lanes   []Ledger    // [lane]
	times   []LaneTime  // [lane]
	typical [][]float64 // [lane][step], ns per token: about the 0.2 quantile
	suspect [][]int64   // [lane][step], time without a processor, or beyond the typical where that is not known
	gaps    []int64     // [lane], the same between steps, where that is marked
	exact   bool        // those steps are marked, not guessed
	even    []int64     // [step × lanes + n-1], time on a processor of all lanes in calls that n lanes took part in
	batch   *batch
	spans   []stepSpan // [step], scratch
	costs   []Cost     // [step], scratch of costsOf
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

// stepFold is one step over all runs, but for its lane times. Folding touches its first
// cache line and some buckets.
type stepFold struct {
	flops, bytes int64
	longest      int64 // of each call: the time on a processor of its busiest lane
	_            int64
	span         histogram // of each call, of its stepSpan

	shift int64 // of the clock of all calls, against the sum of span: steps overlap
	off   int64 // of the clock, where marked: without a processor
	heap  HeapCount

	_ [1344 - 6*8 - unsafe.Sizeof(histogram{}) - unsafe.Sizeof(HeapCount{})]byte
}

// clock is the time of all calls in which no moment counts twice.
func (s *stepFold) clock() int64 { return s.span.sum + s.shift }

// evenOf is the mean time of the lanes in each call of a step, summed up.
func (f *planFold) evenOf(step int) (sum int64) {
	lanes := len(f.lanes)
	for i, busy := range f.even[step*lanes : (step+1)*lanes] {
		sum += busy / int64(i+1)
	}
	return sum
}

// spareRuns is the number of runs in a plan's pool in addition to those that wait to
// be folded, here or with an idle worker, and those kept for the trace: one in flight,
// and one that the next caller fills.
const spareRuns = 2

func newPlanFold(rec *Recorder, p Plan) *planFold {
	steps, lanes := len(p.Steps), len(p.Lanes)
	keep := min(rec.opts.Events/(steps*lanes), rec.opts.Runs)
	f := &planFold{rec: rec, queue: rec.released, plan: p, steps: make([]stepFold, steps), lanes: make([]Ledger, lanes), spans: make([]stepSpan, steps), costs: make([]Cost, steps), clock: newStepClock(&p), even: make([]int64, steps*lanes), batch: newBatch(&p),
		kept: newKeeper[*Run](keep), samples: newSampler(steps, rec.opts.Events, rec.opts.Canary)}
	for range lanes {
		f.compute = append(f.compute, make([]int64, steps))
		f.wait = append(f.wait, make([]int64, steps))
		f.typical = append(f.typical, make([]float64, steps))
		f.suspect = append(f.suspect, make([]int64, steps))
	}
	f.times, f.gaps = make([]LaneTime, lanes), make([]int64, lanes)
	ready := keep + foldsAfter(steps, lanes) + spareRuns
	if f.small = steps*lanes <= idleSteps; f.small {
		ready += idleMost
	}
	for range ready {
		f.recycle(f.newRun())
	}
	return f
}

// newRun makes a run of the plan. The caller holds f.pool.
func (f *planFold) newRun() *Run {
	f.made++
	return newRun(&f.plan, f.times, f.rec)
}

// recycle returns a run to the end of the pool, so that a run that is acquired knows the
// next one whoever folds meanwhile.
func (f *planFold) recycle(r *Run) {
	if int(r.costed) < len(r.Costs) {
		clear(r.Costs[r.costed:])
	}
	r.next = nil
	f.pool.Lock()
	defer f.pool.Unlock()
	if f.free == nil {
		f.free = r
	} else {
		f.last.next = r
	}
	f.last = r
}

// expect prefetches the aggregates.
func (f *planFold) expect() {
	for s := range f.steps {
		own(&f.steps[s].flops)
	}
	ownAll(&f.even[0], uintptr(len(f.even))*8)
	for i := range f.compute {
		ownAll(&f.compute[i][0], uintptr(len(f.steps))*8)
		ownAll(&f.wait[i][0], uintptr(len(f.steps))*8)
	}
}

// learns reports whether typical step times are learned from a run without marks, if the
// kernel marks preempted threads: from many of the first runs, then from few.
func (r *Run) learns() bool {
	return r.index%16 == 0 || r.index < 256 && r.index%4 == 0
}

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
	f.pool.Lock()
	defer f.pool.Unlock()
	steps, lanes := int64(len(f.plan.Steps)), int64(len(f.plan.Lanes))
	run := lanes*(int64(unsafe.Sizeof(LaneSlots{}))+8*steps+24*(steps+2*slotPad)) + 16*steps + int64(unsafe.Sizeof(Run{})) + 4*int64(f.plan.Inputs)
	return f.made*run + steps*int64(unsafe.Sizeof(stepFold{})) + lanes*steps*5*8 + int64(len(f.samples.values))*int64(unsafe.Sizeof(stepSample{}))
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
