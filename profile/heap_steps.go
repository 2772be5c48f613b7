package profile

import (
	"runtime"
	"sync/atomic"
)

// heapMeter attributes growth of the Go heap to steps. The runtime counts
// allocations of the whole process only, so the meter serializes steps: while one
// is open, other steps of the same run and steps of other runs wait. The lanes of
// one step still work in parallel. Allocations of goroutines outside of steps
// count as the open step's, because the runtime cannot separate them.
//
// It waits by yielding: parking a goroutine may allocate, in another step.
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

// CountsHeap reports whether the recorder counts heap allocations per step. If
// so, each lane calls EnterStep and LeaveStep around its part of every step. It
// is false for nil.
func (r *Run) CountsHeap() bool { return r != nil && r.meter != nil }

// EnterStep is called by a lane before its part of a step. It waits while a step
// of another run is open. To avoid a deadlock, a lane calls it only when it waits
// for no other lane.
func (r *Run) EnterStep(step int) { r.meter.enter(r, step) }

// LeaveStep is called by the lane that entered, after its part of the step.
func (r *Run) LeaveStep() { r.meter.leave() }
