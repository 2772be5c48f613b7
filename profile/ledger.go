package profile

import "hotpath/profile/internal/table"

// Ledger accounts for the lane time of runs, in nanoseconds: LaneTime = Compute +
// Barrier + Dispatch + Idle + Residual.
//
// GC, OffCPU, OffCompute and Blind are "of which" columns: they are already
// included in the other terms and add nothing to the sum.
type Ledger struct {
	Runs     int64 `json:"runs"`
	Wall     int64 `json:"wall_ns"`      // Σ run (End − Start); concurrent runs each count
	LaneTime int64 `json:"lane_time_ns"` // Σ run wall × lanes
	Compute  int64 `json:"compute_ns"`   // Σ End − Begin
	Barrier  int64 `json:"barrier_ns"`   // Σ Begin − Arrive, and waits after the last step
	Dispatch int64 `json:"dispatch_ns"`  // lane 0: Start → Wake and Done → End
	Idle     int64 `json:"idle_ns"`      // other lanes: the same, stamped at park and unpark
	Residual int64 `json:"residual_ns"`  // LaneTime less all of these; negative where stamps overlap
	GC       int64 `json:"gc_ns"`        // pauses × lanes of collections that ended in a run
	OffCPU   int64 `json:"off_cpu_ns"`   // the lane's thread had no processor, where that is known

	OffCompute int64 `json:"off_compute_ns,omitempty"` // of Compute: the same
	Blind      int64 `json:"blind_ns,omitempty"`       // the lane's goroutine changed its thread: not known
	Guessed    int64 `json:"off_guessed_ns,omitempty"` // of OffCPU: in Blind, by time beyond the usual
}

// LaneLedger is the ledger of one lane of a plan.
type LaneLedger struct {
	Lane string `json:"lane"`
	Ledger
}

// ResidualPercent is the residual as a share of lane time: the check on the
// stamps.
func (l Ledger) ResidualPercent() float64 { return table.Percent(l.Residual, l.LaneTime) }

func (l *Ledger) addLedger(o Ledger) {
	l.Runs += o.Runs
	l.Wall += o.Wall
	l.LaneTime += o.LaneTime
	l.Compute += o.Compute
	l.Barrier += o.Barrier
	l.Dispatch += o.Dispatch
	l.Idle += o.Idle
	l.Residual += o.Residual
	l.GC += o.GC
	l.OffCPU += o.OffCPU
	l.OffCompute += o.OffCompute
	l.Blind += o.Blind
	l.Guessed += o.Guessed
}

// addOutside adds one lane of one run, but for its steps: the wait after the last of
// them, and the time outside of Wake to Done.
func (l *Ledger) addOutside(r *Run, lane int) {
	wall, slots := r.End-r.Start, &r.Lanes[lane]
	outside := wall
	if !slots.Absent {
		outside = slots.Wake - r.Start + r.End - slots.Done
	}
	if lane == 0 {
		l.Dispatch += outside
	} else {
		l.Idle += outside
	}
	l.Runs++
	l.Wall += wall
	l.LaneTime += wall
	l.Barrier += slots.Wait
	l.GC += r.gc
}

// balance makes the residual what the other terms leave of the lane time. Time between
// steps without a wait makes it positive; stamps that overlap make it negative.
func (l *Ledger) balance() {
	l.Residual = l.LaneTime - l.Compute - l.Barrier - l.Dispatch - l.Idle
}

// clampOff bounds the time without a processor by the time of runs. Lanes may leave,
// and count, after their run has ended, or in a run that is not over yet.
func (l *Ledger) clampOff() {
	l.OffCPU, l.Blind = min(l.OffCPU, l.LaneTime), min(l.Blind, l.LaneTime)
	l.OffCompute = min(l.OffCompute, l.OffCPU, l.Compute)
	l.Guessed = min(l.Guessed, l.OffCPU, l.Blind)
}
