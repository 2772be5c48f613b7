package profile

import (
	"errors"
	"fmt"
	"math"

	"hotpath/internal/aligned"
)

// ErrStamp is matched by every error about stamps that are missing or out of
// order.
var ErrStamp = errors.New("profile: bad stamp")

// Run is one preallocated set of slots. Lanes stamp it without locks: the
// owner of the run orders its own stamps and those of the lanes by dispatch
// and join.
type Run struct {
	next *Run      // in the plan's pool, or what was there when it was acquired
	fold *planFold // that it was acquired from, then that it is released to

	// Start is stamped by the caller before dispatch, End after the join.
	Start, End int64

	Tokens, Sequences, Rows int

	scope  int32 // 1 and the id of the scope that it began in; 0: none
	costed int32 // steps whose costs Costing knows, once it was asked

	// The above is one cache line, and so is each of the next two groups: they are all
	// that the borders of a run touch. Folding touches one group more.

	Lanes []LaneSlots // [lane]

	// Costing, where not nil, is asked for the costs of its steps when the run is
	// folded, many runs at a time, by one goroutine at a time for each plan. It is asked
	// again at each snapshot if the run is kept. Inputs are for it: the integers of the
	// run's inputs that costs depend on.
	Costing Costing
	Inputs  []int32

	// Shares lists the requests whose tokens the run computed, if it served
	// requests.
	Shares []Share

	// Request is the id of the request that the run served, where it served
	// exactly one.
	Request string

	meter   *heapMeter // nil unless asked for
	burns   bool       // it has canaries
	entered bool       // some step was, so the others allocated nothing
	_       [14]byte

	index int64 // position among the plan's released runs
	gc    int64 // pauses of collections that ended inside the run

	Costs []Cost // [step], of those that Costing does not know

	// Timing, where not nil, is asked for the stamps of a device's lanes before the run is
	// folded. Stamps are for it: readings of the device's clock.
	Timing Timing
	_      int64

	Stamps   []int64
	heap     HeapCount   // before the run, then what it allocated; where asked for
	stepHeap []HeapCount // [step]
	burn     []int64     // [step], time of canaries; nil unless asked for

	_ [384 - 43*8]byte
}

// Costing computes the costs of a run from its sizes and Inputs: those of its first
// steps, as many as it knows. Values are compared: equal ones cost equal runs the same.
type Costing interface {
	Costs(run *Run, costs []Cost) (steps int)
}

// Timing computes the stamps of a device's lanes from readings of its clock. The next run
// of the device need not wait for it.
type Timing interface{ Times(run *Run) }

// LaneSlots is what one lane stamps. All readings are of [Now]; 0 means not
// stamped. The slots of two lanes never share a pair of cache lines.
type LaneSlots struct {
	Steps []StepStamps // [step]

	Wake int64 // the lane left its parked or spinning state and entered the run
	Done int64 // it left the run and went back to waiting
	Gap  int64 // between steps, waits not counted, in which the lane's thread had no processor
	Wait int64 // waited for others after its last step and before Done

	marks  int32 // steps that are marked in switched
	Absent bool  // the lane was not called into this run: all of it is idle
	exact  bool  // Mark was called for each step that lost its processor

	// The above is one cache line. The rest is of interest if there are marks.

	Time     *LaneTime // of the plan's lane
	switched []uint64  // a bit per step: its thread lost the processor within
	off      []int64   // [step], for how long; of steps that are marked only

	_ [128 - 15*8]byte
}

// StepStamps are those of one lane in one step; all 0: it had no part in the step.
// Begin and End enclose the step's own work: its shares and their claims, the first of
// them only if it is one of the lane's own shares. A lane that goes straight on begins a
// step with the End of the one before, so that releasing the barrier between them is part
// of the later one. Begin minus Arrive is the time that the lane waited for others since
// the previous step. All other time between two steps is the residual.
type StepStamps struct{ Arrive, Begin, End int64 }

// Enter records that the lane takes part in the run since it woke, and the clock
// that follows it.
func (l *LaneSlots) Enter(woke int64, c *LaneClock) {
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

// ExpectAhead is called by a lane that is about to work on a step: it prefetches stamps of
// a later one, whose memory is cold. Otherwise the lane's next atomic operation would wait
// for that memory.
func ExpectAhead(steps []StepStamps, step int) {
	own(&steps[min(step+stepsAhead, len(steps)-1)].Arrive)
}

// stepsAhead steps are the least that is more than a cache line.
const stepsAhead = 3

// ExpectFirst prefetches the first stamps.
func ExpectFirst(steps []StepStamps) {
	for s := 0; s < min(stepsAhead, len(steps)); s += stepsAhead - 1 {
		own(&steps[s].End)
	}
}

// After is the run that the plan's pool will most likely give next, for
// [PlanHandle.Expect]. It is valid until Release.
func (r *Run) After() *Run { return r.next }

// slotPad separates the stamps of two lanes, in steps: more than a pair of cache lines.
const slotPad = 6

func newRun(p *Plan, times []LaneTime, rec *Recorder) *Run {
	steps, lanes, inputs := len(p.Steps), len(p.Lanes), p.Inputs
	r := &Run{Lanes: aligned.Slice[LaneSlots](lanes), Costs: make([]Cost, steps), Inputs: make([]int32, 0, inputs), meter: rec.meter}
	if rec.opts.Canary {
		r.burn, r.burns = make([]int64, steps), true
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
	l.Steps = make([]StepStamps, slotPad+steps+slotPad)[slotPad : slotPad+steps : slotPad+steps]
	l.switched, l.off, l.Time = make([]uint64, (steps+63)/64), make([]int64, steps), time
}

// stepSpan is one call of a step: its first Begin and last End over the lanes, and how
// long the lanes computed in it together. Behind a barrier it begins no earlier than the
// end of all steps before it: a lane that waited read the clock up to some 100 ns before
// the barrier was released.
type stepSpan struct{ first, last, busy int64 }

// check finds missing or unordered stamps before anything is folded, so that a
// bad run leaves the aggregates unchanged. It also computes the spans of the
// steps.
func (r *Run) check(p *Plan, spans []stepSpan) error {
	if err := r.checkEnds(p); err != nil {
		return err
	}
	for s := range spans {
		spans[s] = stepSpan{first: math.MaxInt64}
	}
	for i := range r.Lanes {
		if err := r.Lanes[i].check(p, i, r.Start, spans); err != nil {
			return err
		}
	}
	ended := int64(0)
	for s := range spans {
		span := &spans[s]
		if span.last == 0 {
			return fmt.Errorf("%w: plan %q: step %d %q was stamped by none of %d lanes", ErrStamp, p.ID, s, p.Steps[s].Name, len(r.Lanes))
		}
		if p.followsAll(&p.Steps[s]) {
			span.first = min(max(span.first, ended), span.last)
		}
		ended = max(ended, span.last)
	}
	return nil
}

// checkEnds checks all but the lanes.
func (r *Run) checkEnds(p *Plan) error {
	if r.Start <= 0 || r.End < r.Start {
		return fmt.Errorf("%w: plan %q: run from %d to %d, expected both stamped and in order", ErrStamp, p.ID, r.Start, r.End)
	}
	if len(r.Lanes) != len(p.Lanes) {
		return fmt.Errorf("%w: plan %q: run has %d lanes, expected %d: was it acquired from another plan?",
			ErrStamp, p.ID, len(r.Lanes), len(p.Lanes))
	}
	return nil
}

// checkCosts is for runs of a recorder; those of files have no Costs.
func (r *Run) checkCosts(p *Plan) error {
	if len(r.Costs) != len(p.Steps) {
		return fmt.Errorf("%w: plan %q: run has costs of %d steps, expected %d: was it acquired from another plan?", ErrStamp, p.ID, len(r.Costs), len(p.Steps))
	}
	return nil
}

// check also clears what an earlier run left where this one stamped nothing.
func (l *LaneSlots) check(p *Plan, lane int, start int64, spans []stepSpan) error {
	if err := l.checkEnds(p, lane); err != nil {
		return err
	}
	steps := l.Steps[:len(spans)]
	for s := range spans {
		st, span := &steps[s], &spans[s]
		if st.Arrive >= start && st.Begin >= st.Arrive && st.End >= st.Begin && !l.Absent {
			span.first, span.last, span.busy = min(span.first, st.Begin), max(span.last, st.End), span.busy+st.End-st.Begin
			continue
		}
		if st.late(start) {
			return fmt.Errorf("%w: plan %q: lane %q, step %d %q: arrive %d, begin %d, end %d, expected all stamped and in order by a lane that is not absent",
				ErrStamp, p.ID, p.Lanes[lane], s, p.Steps[s].Name, st.Arrive, st.Begin, st.End)
		}
	}
	return nil
}

// checkEnds checks all but the stamps of steps.
func (l *LaneSlots) checkEnds(p *Plan, lane int) error {
	if len(l.Steps) != len(p.Steps) {
		return fmt.Errorf("%w: plan %q: lane %q has slots for %d steps, expected %d: was the run acquired from another plan?",
			ErrStamp, p.ID, p.Lanes[lane], len(l.Steps), len(p.Steps))
	}
	if !l.Absent && (l.Wake <= 0 || l.Done < l.Wake) {
		return fmt.Errorf("%w: plan %q: lane %q woke at %d and was done at %d, expected both stamped and in order (or Absent)",
			ErrStamp, p.ID, p.Lanes[lane], l.Wake, l.Done)
	}
	if l.Wait < 0 {
		return fmt.Errorf("%w: plan %q: lane %q waited %d ns after its last step, expected none below 0", ErrStamp, p.ID, p.Lanes[lane], l.Wait)
	}
	return nil
}
