package profile

import (
	"math"
	"sync"
	"sync/atomic"
)

// ProcessorStats is the processor time of the recorded process since the recorder
// was created, as the system reports it. It is independent of the ledger, so that
// one can check the other.
type ProcessorStats struct {
	User   int64 `json:"user_ns"`
	System int64 `json:"system_ns"`
	// Waited is how long threads could have run and had no processor, all of
	// them together.
	Waited int64 `json:"waited_ns"`
	// Stolen is the time that the hypervisor took from all processors of this
	// virtual machine (steal time).
	Stolen      int64 `json:"stolen_ns"`
	Switches    int64 `json:"switches"`  // threads gave their processor away
	Preempted   int64 `json:"preempted"` // it was taken from them
	MinorFaults int64 `json:"minor_faults"`
	MajorFaults int64 `json:"major_faults"` // pages that were read from a disk
}

func (s ProcessorStats) minus(o ProcessorStats) ProcessorStats {
	return ProcessorStats{s.User - o.User, s.System - o.System, max(0, s.Waited-o.Waited), max(0, s.Stolen-o.Stolen),
		s.Switches - o.Switches, s.Preempted - o.Preempted, s.MinorFaults - o.MinorFaults, s.MajorFaults - o.MajorFaults}
}

// waitingInterval is the time of runs between two readings of how long the lanes'
// threads waited for a processor, and the least time on the clock. The goroutine that
// ends a run reads it between runs. A separate goroutine would take a processor from a
// worker.
const waitingInterval = 10_000_000

// waiting samples how many of the lanes' threads wait for a processor.
type waiting struct {
	next    *atomic.Int64
	mu      sync.Mutex
	counter *Counter
	at      int64
	waited  int64 // by lanesWaited, then
}

// look takes a sample if it is time for one.
func (w *waiting) look(now int64) {
	if now < w.next.Load() || !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	if now < w.next.Load() {
		return
	}
	w.next.Store(now + waitingInterval)
	waited, ok := lanesWaited()
	if ok && w.at > 0 {
		w.counter.Set(math.Round(1000*float64(waited-w.waited)/float64(now-w.at)) / 1000)
	}
	w.at, w.waited = now, waited
}

// waitingCounter is the name of what look samples.
const waitingCounter = "lanes that wait for a processor"
