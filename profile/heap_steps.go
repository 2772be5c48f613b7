package profile

import (
	"runtime"
	"sync/atomic"
)

// heapMeter says which step the Go heap grew in. The runtime counts allocations
// of the whole process only, so steps take turns under it: while one is open
// those of other runs, and others of the same run, wait. Lanes of one step work
// side by side as ever. What goroutines outside of steps allocate meanwhile
// counts as the open step's: the runtime does not tell them apart.
//
// It waits by yielding: parking a goroutine may allocate, in somebody else's
// step.
type heapMeter struct {
	lock atomic.Bool

	// Under lock.
	run   *Run
	step  int
	lanes int // of the open step that are in it
	began HeapCount
}

func (m *heapMeter) enter(r *Run, step int) {
	for {
		m.acquire()
		if m.lanes == 0 || m.run == r && m.step == step {
			break
		}
		m.lock.Store(false)
		runtime.Gosched()
	}
	if m.lanes++; m.lanes == 1 {
		m.run, m.step, m.began = r, step, readHeap()
		r.entered = true
	}
	m.lock.Store(false)
}

func (m *heapMeter) leave() {
	m.acquire()
	if m.lanes--; m.lanes == 0 {
		m.run.stepHeap[m.step].addCount(readHeap().minus(m.began))
		m.run = nil
	}
	m.lock.Store(false)
}

func (m *heapMeter) acquire() {
	for !m.lock.CompareAndSwap(false, true) {
		runtime.Gosched()
	}
}

// CountsHeap reports whether the recorder wants to know what each step of the
// run allocates on the Go heap: then each lane calls EnterStep and LeaveStep
// around its part of every step. It is false for nil.
func (r *Run) CountsHeap() bool { return r != nil && r.meter != nil }

// EnterStep is called by a lane before its part of a step. It waits while a step
// of another run is open, so a lane calls it when it waits for nobody else any
// more.
func (r *Run) EnterStep(step int) { r.meter.enter(r, step) }

// LeaveStep is called by the lane that entered, after its part of the step.
func (r *Run) LeaveStep() { r.meter.leave() }
