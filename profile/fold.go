package profile

import "sync"

// planFold is a registered plan with the pool of its runs and the aggregates
// that released runs are folded into.
type planFold struct {
	rec  *Recorder
	plan Plan

	mu      sync.Mutex
	free    []*Run
	pending []*Run // released, not folded yet
	steps   []stepFold
	compute [][]int64  // [lane][step]
	wait    [][]int64  // [lane][step]
	lanes   []Ledger   // [lane]
	spans   []stepSpan // [step], scratch of flush
	clock   *stepClock
	runs    int64
	wall    histogram
	tokens  int64
	seqs    int64
	rows    int64
	kept    *keeper[*Run]
	samples *sampler
	heap    HeapCount
	entered bool  // steps say what they allocated
	folding int64 // time spent in flush

	elapsed float64 // of what is divided; Recorder.elapsed.mu is held
}

// stepFold is one step over all runs, but for its lane times.
type stepFold struct {
	span         histogram // of each call: first Begin to last End over its lanes
	clock        int64     // of all calls
	flops, bytes int64
	heap         HeapCount
}

// pendingRuns is how many released runs wait to be folded together.
const pendingRuns = 32

// spareRuns is how many runs a plan's pool has beyond those kept for the trace:
// those that wait to be folded, one in flight and one being filled by the next
// caller.
const spareRuns = pendingRuns + 2

func newPlanFold(rec *Recorder, p Plan) *planFold {
	steps, lanes := len(p.Steps), len(p.Lanes)
	keep := min(rec.opts.Events/(steps*lanes), rec.opts.Runs)
	f := &planFold{rec: rec, plan: p, steps: make([]stepFold, steps), lanes: make([]Ledger, lanes), spans: make([]stepSpan, steps), clock: newStepClock(&p),
		kept: newKeeper[*Run](keep), samples: newSampler(steps, rec.opts.Events, rec.opts.Canary)}
	for range lanes {
		f.compute = append(f.compute, make([]int64, steps))
		f.wait = append(f.wait, make([]int64, steps))
	}
	f.pending = make([]*Run, 0, pendingRuns)
	f.free = make([]*Run, 0, keep+spareRuns)
	for range keep + spareRuns {
		f.free = append(f.free, newRun(&f.plan, rec))
	}
	return f
}

func (f *planFold) acquire() *Run {
	f.mu.Lock()
	n := len(f.free)
	if n == 0 {
		f.mu.Unlock()
		return newRun(&f.plan, f.rec)
	}
	r := f.free[n-1]
	f.free = f.free[:n-1]
	f.mu.Unlock()
	r.reset() // now and not before, because its memory is needed now
	if f.rec.opts.Canary {
		f.mu.Lock()
		f.plant(r)
		f.mu.Unlock()
	}
	return r
}

// recycle takes a run for the next that acquires one; f.mu is held.
func (f *planFold) recycle(r *Run) { f.free = append(f.free, r) }

func (f *planFold) release(r *Run) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, r)
	if len(f.pending) == cap(f.pending) {
		return f.flush()
	}
	return nil
}

// flush checks and folds what was released; f.mu is held. Runs are taken many
// at a time because the aggregates are cold after a run that walked through a
// model: one by one, fetching them again cost more than all the stamps.
func (f *planFold) flush() (first error) {
	if len(f.pending) == 0 {
		return nil
	}
	start := Now()
	f.rec.gc.update()
	for _, r := range f.pending {
		if err := r.check(&f.plan, f.spans); err != nil {
			f.rec.fail(err)
			if first == nil {
				first = err
			}
			if len(r.Lanes) == len(f.plan.Lanes) && len(r.Costs) == len(f.plan.Steps) {
				f.recycle(r)
			}
			continue
		}
		if r.Costing != nil {
			r.Costing.Costs(r)
		}
		f.fold(r)
	}
	clear(f.pending)
	f.pending = f.pending[:0]
	f.folding += Now() - start
	return first
}

// fold takes in a run that was checked.
func (f *planFold) fold(r *Run) {
	r.gc = f.rec.gc.pause(r.Start, r.End)
	r.index = f.runs
	f.runs++
	f.wall.add(r.End - r.Start)
	f.tokens += int64(r.Tokens)
	f.seqs += int64(r.Sequences)
	f.rows += int64(r.Rows)
	f.heap.add(r.heap)
	f.foldSteps(r)
	for i := range r.Lanes {
		compute, wait := f.foldLane(&r.Lanes[i], i)
		f.lanes[i].add(laneLedger(r, i, compute, wait))
	}
	f.samples.add(r)
	if len(r.Shares) > 0 {
		f.rec.mu.Lock()
		f.rec.requests.parts.add(&f.plan, r)
		f.rec.mu.Unlock()
	}
	if out, full := f.kept.add(r); full {
		f.recycle(out)
	}
}

// foldSteps takes in the steps of a run, whose spans check has found.
func (f *planFold) foldSteps(r *Run) {
	f.clock.take(f.spans)
	steps, costs, clock := f.steps[:len(f.spans)], r.Costs[:len(f.spans)], f.clock.clock[:len(f.spans)]
	for s, span := range f.spans {
		st := &steps[s]
		st.span.add(span.last - span.first)
		st.clock += clock[s]
		st.flops += costs[s].FLOPs
		st.bytes += costs[s].Bytes
	}
	if !r.entered {
		return
	}
	f.entered = true
	for s := range steps {
		steps[s].heap.add(r.stepHeap[s])
	}
}

// foldLane takes in the times of a lane and returns their sums over the steps.
func (f *planFold) foldLane(l *LaneSlots, lane int) (compute, wait int64) {
	computes := f.compute[lane]
	waits := f.wait[lane][:len(computes)]
	begin, end, left := l.Begin[:len(computes)], l.End[:len(computes)], l.Wake
	for s := range computes {
		b, e := begin[s], end[s]
		if b == 0 {
			continue
		}
		c, w := e-b, b-l.arrival(s, left)
		left = e
		computes[s] += c
		waits[s] += w
		compute += c
		wait += w
	}
	return compute, wait
}

// keeper holds the first half and the last half of what it was given, within
// a fixed size: warm-up and steady state both stay visible.
type keeper[T any] struct {
	first, last []T
	next        int // where the oldest of last stands
	total       int64
}

func newKeeper[T any](n int) *keeper[T] {
	return &keeper[T]{first: make([]T, 0, n/2), last: make([]T, 0, n-n/2)}
}

// add keeps v and returns what fell out for it: an older value, or v itself
// where nothing is kept.
func (k *keeper[T]) add(v T) (out T, full bool) {
	k.total++
	switch {
	case len(k.first) < cap(k.first):
		k.first = append(k.first, v)
	case len(k.last) < cap(k.last):
		k.last = append(k.last, v)
	case cap(k.last) == 0:
		return v, true
	default:
		out, k.last[k.next] = k.last[k.next], v
		k.next = (k.next + 1) % len(k.last)
		return out, true
	}
	return out, false
}

// all lists what is kept, oldest first.
func (k *keeper[T]) all() []T {
	all := make([]T, 0, len(k.first)+len(k.last))
	all = append(all, k.first...)
	all = append(all, k.last[k.next:]...)
	return append(all, k.last[:k.next]...)
}
