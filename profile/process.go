package profile

import "sync"

// ProcessStats is the whole process until the snapshot: its wall time is Before +
// the recording, and the recording is Scoped + what no scope tells.
type ProcessStats struct {
	// Before is the time from the start of the process to the creation of the
	// recorder. The system reports it with a resolution of 5 ms; 0 if it does
	// not.
	Before    int64 `json:"before_ns"`
	BeforeCPU int64 `json:"before_cpu_ns"`  // of it on a processor, all threads
	Scoped    int64 `json:"scoped_ns"`      // with a scope open that has no parent
	InRuns    int64 `json:"in_runs_ns"`     // with a run in flight, in a scope or not
	Probing   int64 `json:"probing_ns"`     // sampling ceilings
	Folding   int64 `json:"folding_ns"`     // folding runs into the aggregates
	Recorder  int64 `json:"recorder_bytes"` // memory that the recorder holds
}

// Wall is the time of the process from its start to the snapshot.
func (p *Profile) Wall() int64 {
	if p.Process == nil {
		return p.End - p.Start
	}
	return p.Process.Before + p.End - p.Start
}

// union adds up the time in which at least one of several activities is open.
type union struct {
	mu      sync.Mutex
	open    int
	since   int64
	covered int64
}

func (u *union) begin(t int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == 0 {
		u.since = t
	}
	u.open++
}

func (u *union) end(t int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open--; u.open == 0 {
		u.covered += t - u.since
	}
}

func (u *union) until(t int64) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open > 0 {
		return u.covered + max(0, t-u.since)
	}
	return u.covered
}

// Cold is the first run of each plan.
func (p *Profile) Cold() (ns, runs int64) {
	for i := range p.Plans {
		if s := &p.Plans[i]; s.Ledger.Runs > 0 && s.First > 0 {
			ns, runs = ns+s.First, runs+1
		}
	}
	return ns, runs
}
