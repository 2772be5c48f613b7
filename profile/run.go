package profile

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// ErrStamp is matched by every error about stamps that are missing or out of
// order.
var ErrStamp = errors.New("profile: bad stamp")

// Run is one preallocated set of slots. Lanes stamp it without locks: the
// owner of the run orders its own stamps and those of the lanes by dispatch
// and join.
type Run struct {
	next *Run      // in the plan's pool
	fold *planFold // that it is released to

	// Start is stamped by the caller before dispatch, End after the join.
	Start, End int64

	Tokens, Sequences, Rows int

	scope int // 1 and the id of the scope that it began in; 0: none

	// The above is one cache line, and so is each of the next two groups: they are all
	// that most runs touch.

	Lanes []LaneSlots // [lane]

	// Costing, where not nil, is asked for Costs when the run is folded, many
	// runs at a time, by one goroutine at a time for each plan. Inputs are for
	// it: the integers of the run's inputs that costs depend on.
	Costing Costing
	Inputs  []int32

	// Shares lists the requests whose tokens the run computed, if it served
	// requests.
	Shares []Share

	// Request is the id of the request that the run served, where it served
	// exactly one.
	Request string

	meter   *heapMeter // nil unless asked for
	index   int64      // position among the plan's released runs
	entered bool       // some step was, so the others allocated nothing

	Costs []Cost // [step], filled before the run is released, or by Costing

	gc       int64       // pauses of collections that ended inside the run
	heap     HeapCount   // before the run, then what it allocated; where asked for
	stepHeap []HeapCount // [step]
	burn     []int64     // [step], time of canaries; nil unless asked for

	// Timing, where not nil, is asked for the stamps of a device's lanes before the run is
	// folded. Stamps are for it: readings of the device's clock.
	Timing Timing
	Stamps []int64

	_ [384 - 41*8]byte
}

// Costing computes the Costs of a run from its sizes and Inputs.
type Costing interface{ Costs(run *Run) }

// Timing computes the stamps of a device's lanes from readings of its clock. The next run
// of the device need not wait for it.
type Timing interface{ Times(run *Run) }

// LaneSlots is what one lane stamps. All readings are of [Now]; 0 means not
// stamped. The slots of two lanes never share a pair of cache lines.
type LaneSlots struct {
	// Per step; all 0: this lane had no part in it. Begin and End enclose the
	// step's own work. Begin minus Arrive is the time that the lane waited for
	// others since the previous step. All other time between two steps is the
	// residual.
	Begin, End []int64 // [step]

	Wake int64 // the lane left its parked or spinning state and entered the run
	Done int64 // it left the run and went back to waiting

	Arrive []int64 // [step]

	Gap    int64     // between steps, waits not counted, in which the lane's thread had no processor
	Wait   int64     // waited for others after its last step and before Done
	Time   *LaneTime // of the plan's lane
	marks  int32     // steps that are marked in switched
	Absent bool      // the lane was not called into this run: all of it is idle
	exact  bool      // Mark was called for each step that lost its processor

	// Of interest if there are marks.
	switched []uint64 // a bit per step: its thread lost the processor within
	off      []int64  // [step], for how long; of steps that are marked only

	_ [256 - 21*8]byte
}

// slotsALine is how many stamps of one kind a cache line holds.
const slotsALine = 8

// Enter records that the lane takes part in the run since it woke, and the clock
// that follows it.
func (l *LaneSlots) Enter(woke int64, c *LaneClock) {
	l.Expect(-slotsALine)
	l.Wake, l.Absent, l.exact, l.marks = woke, false, c.page != nil, 0
}

// Mark records that the lane's thread lost its processor within a step, and for how
// long, as [LaneClock.Lost] reports it.
func (l *LaneSlots) Mark(step int, off int64) {
	if l.marks == 0 {
		clear(l.switched) // marks of an older run
	}
	l.marks++
	l.switched[step/64] |= 1 << (step % 64)
	l.off[step] = off
}

// MarkGap records that the lane's thread lost its processor before a step, which
// the lane was free to begin at the moment arrive.
func (l *LaneSlots) MarkGap(woke, arrive, off int64) {
	gap := arrive - max(l.Done, woke)
	if off != unknownOff {
		gap = min(gap, off)
	}
	l.Gap += gap
}

func (l *LaneSlots) marked(step int) bool {
	return l.marks > 0 && l.switched[step/64]>>(step%64)&1 != 0
}

// Expect is called by a lane that is about to work on a step. It prefetches the
// cold memory of the coming stamps while the lane works. Otherwise the lane's
// next atomic operation would wait for that memory.
func (l *LaneSlots) Expect(step int) {
	if next := step + slotsALine; step%slotsALine == 0 && next < len(l.Begin) {
		own(&l.Arrive[next])
		own(&l.Begin[next])
		own(&l.End[next])
	}
}

// expect prefetches the run itself, and expectStamps what its lanes stamped and its
// costs: between its end and its folding the run was evicted from the caches.
func (r *Run) expect() {
	own(&r.Start)
	own((*int64)(unsafe.Pointer(&r.Lanes)))
	own(&r.index)
}

func (r *Run) expectStamps() {
	for i := range r.Lanes {
		l := &r.Lanes[i]
		own(&l.Wake)
		own(&l.Gap)
		for s := 0; s < len(l.Begin); s += slotsALine {
			own(&l.Arrive[s])
			own(&l.Begin[s])
			own(&l.End[s])
		}
	}
	for s := 0; s < len(r.Costs); s += slotsALine / 2 {
		own(&r.Costs[s].FLOPs)
	}
}

// slotPad separates the backing arrays of two lanes, in int64s.
const slotPad = 16

func newRun(p *Plan, times []LaneTime, rec *Recorder) *Run {
	steps, lanes, inputs := len(p.Steps), len(p.Lanes), p.Inputs
	r := &Run{Lanes: make([]LaneSlots, lanes), Costs: make([]Cost, steps), Inputs: make([]int32, 0, inputs), meter: rec.meter}
	if rec.opts.Canary {
		r.burn = make([]int64, steps)
	}
	if rec.meter != nil {
		r.stepHeap = make([]HeapCount, steps)
	}
	for i := range r.Lanes {
		r.Lanes[i].Init(steps, &times[i])
	}
	return r
}

// Init allocates the stamps of a lane for a number of steps. time is where its
// time is counted.
func (l *LaneSlots) Init(steps int, time *LaneTime) {
	b := make([]int64, 3*steps+2*slotPad)
	at := func(k int) []int64 {
		lo := slotPad + k*steps
		return b[lo : lo+steps : lo+steps]
	}
	l.Arrive, l.Begin, l.End = at(0), at(1), at(2)
	l.switched, l.off, l.Time = make([]uint64, (steps+63)/64), make([]int64, steps), time
}

// reset leaves the stamps of steps as they are: clearing them would fetch cold
// memory once more, and check knows by their time that they are an older run's.
// Costs were cleared when the run was folded, while they were at hand.
func (r *Run) reset() {
	r.next, r.fold, r.Start, r.End, r.Tokens, r.Sequences, r.Rows, r.scope = nil, nil, 0, 0, 0, 0, 0, 0
	r.Costing, r.Inputs = nil, r.Inputs[:0]
	r.Shares, r.Request, r.entered = r.Shares[:0], "", false
	for i := range r.Lanes {
		l := &r.Lanes[i]
		l.Wake, l.Done, l.Wait, l.Gap, l.marks, l.Absent, l.exact = 0, 0, 0, 0, 0, false, false
	}
	clear(r.stepHeap)
}

// stepSpan is from the first Begin of a step to its last End, over the lanes, and
// how long they computed in it together.
type stepSpan struct{ first, last, busy int64 }

// check finds missing or unordered stamps before anything is folded, so that a
// bad run leaves the aggregates unchanged. It also computes the spans of the
// steps.
func (r *Run) check(p *Plan, spans []stepSpan) error {
	if r.Start <= 0 || r.End < r.Start {
		return fmt.Errorf("%w: plan %q: run from %d to %d, expected both stamped and in order", ErrStamp, p.ID, r.Start, r.End)
	}
	if len(r.Lanes) != len(p.Lanes) || len(r.Costs) != len(p.Steps) {
		return fmt.Errorf("%w: plan %q: run has %d lanes and %d costs, expected %d and %d: was it acquired from another plan?",
			ErrStamp, p.ID, len(r.Lanes), len(r.Costs), len(p.Lanes), len(p.Steps))
	}
	for s := range spans {
		spans[s] = stepSpan{math.MaxInt64, 0, 0}
	}
	for i := range r.Lanes {
		if err := r.Lanes[i].check(p, i, r.Start, spans); err != nil {
			return err
		}
	}
	for s := range spans {
		if spans[s].last == 0 {
			return fmt.Errorf("%w: plan %q: step %d %q was stamped by none of %d lanes", ErrStamp, p.ID, s, p.Steps[s].Name, len(r.Lanes))
		}
	}
	return nil
}

// check also clears what an earlier run left where this one stamped nothing.
func (l *LaneSlots) check(p *Plan, lane int, start int64, spans []stepSpan) error {
	if len(l.Begin) != len(p.Steps) || len(l.End) != len(p.Steps) || len(l.Arrive) != len(p.Steps) {
		return fmt.Errorf("%w: plan %q: lane %q has slots for %d, %d, %d steps, expected %d",
			ErrStamp, p.ID, p.Lanes[lane], len(l.Arrive), len(l.Begin), len(l.End), len(p.Steps))
	}
	if !l.Absent && (l.Wake <= 0 || l.Done < l.Wake) {
		return fmt.Errorf("%w: plan %q: lane %q woke at %d and was done at %d, expected both stamped and in order (or Absent)",
			ErrStamp, p.ID, p.Lanes[lane], l.Wake, l.Done)
	}
	if l.Wait < 0 {
		return fmt.Errorf("%w: plan %q: lane %q waited %d ns after its last step, expected none below 0", ErrStamp, p.ID, p.Lanes[lane], l.Wait)
	}
	arrive, begin, end := l.Arrive[:len(spans)], l.Begin[:len(spans)], l.End[:len(spans)]
	for s := range spans {
		a, b, e := arrive[s], begin[s], end[s]
		if a >= start && b >= a && e >= b && !l.Absent {
			spans[s] = stepSpan{min(spans[s].first, b), max(spans[s].last, e), spans[s].busy + e - b}
			continue
		}
		if max(a, b, e) >= start {
			return fmt.Errorf("%w: plan %q: lane %q, step %d %q: arrive %d, begin %d, end %d, expected all stamped and in order by a lane that is not absent",
				ErrStamp, p.ID, p.Lanes[lane], s, p.Steps[s].Name, a, b, e)
		}
		if a|b|e != 0 {
			arrive[s], begin[s], end[s] = 0, 0, 0
		}
	}
	return nil
}
