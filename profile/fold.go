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
	lanes   []Ledger // [lane]
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

// stepFold is one step over all runs. Times are lane times.
type stepFold struct {
	span         histogram // of each call: first Begin to last End over its lanes
	flops, bytes int64
	laneCompute  []int64 // [lane]
	laneWait     []int64 // [lane]
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
	f := &planFold{rec: rec, plan: p, steps: make([]stepFold, steps), lanes: make([]Ledger, lanes),
		kept: newKeeper[*Run](keep), samples: newSampler(steps, rec.opts.Events)}
	for i := range f.steps {
		f.steps[i].laneCompute = make([]int64, lanes)
		f.steps[i].laneWait = make([]int64, lanes)
	}
	f.pending = make([]*Run, 0, pendingRuns)
	f.free = make([]*Run, 0, keep+spareRuns)
	for range keep + spareRuns {
		f.free = append(f.free, newRun(steps, lanes, p.Inputs, rec.meter))
	}
	return f
}

func (f *planFold) acquire() *Run {
	f.mu.Lock()
	n := len(f.free)
	if n == 0 {
		f.mu.Unlock()
		return newRun(len(f.plan.Steps), len(f.plan.Lanes), f.plan.Inputs, f.rec.meter)
	}
	r := f.free[n-1]
	f.free = f.free[:n-1]
	f.mu.Unlock()
	return r
}

// recycle clears a run for the next one that acquires it; f.mu is held.
func (f *planFold) recycle(r *Run) {
	r.reset()
	f.free = append(f.free, r)
}

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
// at a time because the slots and the aggregates are cold after a run that
// walked through a model: one by one, fetching them again cost more than all
// the stamps.
func (f *planFold) flush() (first error) {
	if len(f.pending) == 0 {
		return nil
	}
	start := Now()
	f.rec.gc.update()
	good := f.pending[:0]
	for _, r := range f.pending {
		if err := r.check(&f.plan); err != nil {
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
		good = append(good, r)
	}
	for s := range f.steps {
		f.steps[s].fold(good, s)
	}
	for _, r := range good {
		f.fold(r)
	}
	clear(f.pending)
	f.pending = f.pending[:0]
	f.folding += Now() - start
	return first
}

// fold takes in a run whose steps are folded.
func (f *planFold) fold(r *Run) {
	r.gc = f.rec.gc.pause(r.Start, r.End)
	r.index = f.runs
	f.runs++
	f.wall.add(r.End - r.Start)
	f.tokens += int64(r.Tokens)
	f.seqs += int64(r.Sequences)
	f.rows += int64(r.Rows)
	f.heap.add(r.heap)
	f.entered = f.entered || r.entered
	for i := range r.Lanes {
		f.lanes[i].add(laneLedger(r, i, r.Lanes[i].compute, r.Lanes[i].wait))
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

// fold takes in step s of all these runs, and adds it to the sums of their
// lanes. One step after the other is faster than one run after the other: the
// aggregates of a step are larger than its stamps.
func (st *stepFold) fold(runs []*Run, s int) {
	var flops, bytes int64
	for _, r := range runs {
		var first, last int64
		for i := range r.Lanes {
			l := &r.Lanes[i]
			b := l.Begin[s]
			if b == 0 {
				continue
			}
			e := l.End[s]
			if first == 0 || b < first {
				first = b
			}
			last = max(last, e)
			compute, wait := e-b, b-l.Arrive[s]
			l.compute += compute
			l.wait += wait
			st.laneCompute[i] += compute
			st.laneWait[i] += wait
		}
		st.span.add(last - first)
		flops += r.Costs[s].FLOPs
		bytes += r.Costs[s].Bytes
		if r.entered {
			st.heap.add(r.stepHeap[s])
		}
	}
	st.flops += flops
	st.bytes += bytes
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
