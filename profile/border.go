package profile

import (
	"context"
	"unsafe"
)

// This file has the borders of a run: what its caller goes through before and after it,
// in this order. A run evicts the code of its borders from the caches, and the pages of that
// code from the processor's table of pages. The linker lays the functions of a file side by
// side, so together they cost one or two pages; spread over the package, they cost ten.

// Expect prefetches what the next call of Acquire touches. next is what [Run.After] said
// of the run before, or nil. The run before has evicted all of it from the caches, and a
// caller that waits for one line after the other waits for long.
func (h PlanHandle) Expect(next *Run) {
	if h.fold == nil || next == nil {
		return
	}
	own((*int64)(unsafe.Pointer(h.fold)))
	own(&counter.ns)
	next.expect()
}

// expect prefetches what the borders of a run touch.
func (r *Run) expect() {
	own(&r.Start)
	own((*int64)(unsafe.Pointer(&r.Lanes)))
	own((*int64)(unsafe.Pointer(&r.Shares)))
}

// Acquire takes a cleared run from the plan's pool. It allocates only while
// more runs are in flight than ever before.
func (h PlanHandle) Acquire() *Run {
	if h.fold == nil {
		return nil
	}
	r := h.fold.acquire()
	if h.heap {
		r.heap = readHeap()
	}
	return r
}

func (f *planFold) acquire() *Run {
	f.pool.Lock()
	r := f.free
	if r == nil {
		r = f.newRun()
	} else {
		f.free = r.next
	}
	f.pool.Unlock()
	r.reset() // now and not before, because its memory is needed now
	r.fold = f
	if r.burns {
		f.rec.settle(nil) // means are of all runs so far; what it finds is kept by fail
		f.mu.Lock()
		f.plant(r)
		f.mu.Unlock()
	}
	return r
}

// reset leaves the stamps of steps as they are: clearing them would fetch cold
// memory once more, and check knows by their time that they are an older run's.
func (r *Run) reset() {
	r.Start, r.End, r.Tokens, r.Sequences, r.Rows, r.scope, r.costed = 0, 0, 0, 0, 0, 0, 0
	r.Costing, r.Inputs = nil, r.Inputs[:0]
	r.Shares, r.Request, r.entered = r.Shares[:0], "", false
	for i := range r.Lanes {
		l := &r.Lanes[i]
		l.Wake, l.Done, l.Wait, l.Gap, l.marks, l.Absent, l.exact = 0, 0, 0, 0, 0, false, false
	}
	if r.meter != nil {
		clear(r.stepHeap)
	}
}

// InScope records that the run begins inside the scope of ctx.
func (r *Run) InScope(ctx context.Context) {
	if anyRecorder.Load() == 0 {
		return
	}
	if f, _ := ctx.Value(frameKey{}).(*scopeFrame); f != nil && f.node != f.tree.root {
		r.scope = int32(f.node.id + 1)
	}
}

// RunEnd is the memory that the end of a run touches. The run evicts it from the caches.
type RunEnd struct {
	run   *Run
	queue *released
}

// AtEnd is for who calls Expect shortly before the end.
func (r *Run) AtEnd() RunEnd { return RunEnd{r, r.fold.queue} }

// Expect prefetches it.
func (e *RunEnd) Expect() {
	own(&e.run.Start)
	own(&e.queue.since)
}

// Release hands the run to the recorder. The recorder checks its stamps and folds
// it into the aggregates, at the latest before the next snapshot. A run with bad
// stamps is counted but not aggregated. The error is that of the first such run of this
// plan that this call folded; [Recorder.Err] reports those of all plans.
func (h PlanHandle) Release(run *Run) error {
	if h.fold == nil || run == nil {
		return nil
	}
	if h.heap {
		run.heap = readHeap().minus(run.heap)
	}
	run.fold = h.fold
	end := run.End
	full, look := h.queue.push(run, h.most)
	if look {
		h.fold.rec.wait.look(end)
	}
	if !full {
		return nil
	}
	return h.fold.rec.settle(h.fold)
}

// push appends a run and reports whether the queue is to be folded, if most runs wait,
// and whether the threads that wait are to be looked at. Both are paced by the time of
// runs, so that they cost the same part of it however often there is a run.
func (q *released) push(r *Run, most int) (full, look bool) {
	q.mu.Lock()
	if len(q.runs) == 0 {
		q.since = r.End
	}
	q.runs = append(q.runs, r)
	took := max(0, r.End-r.Start)
	if q.left -= took; q.left <= 0 {
		q.dueProbe()
	}
	if q.ran += took; q.ran >= waitingInterval {
		look, q.ran = true, 0
	}
	full = len(q.runs) >= most || r.End-q.since > pendingTime
	q.mu.Unlock()
	return full, look
}
