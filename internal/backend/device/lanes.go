package device

import (
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Steps behind the plan's own. Host steps belong to the host's lane.
const (
	StepIn = iota
	StepOut
	StepLaunch
	StepSync
	extraSteps
)

// Lanes are the profile's view of a bound plan: the host's lane, then those of the
// device.
type Lanes struct {
	Plan    *plan.Plan
	In, Out []Travels // what a run carries

	run     *profile.Run
	started int64
}

// Describe fills the device's part of the profile's plan. kind is the name of the
// backend.
func (l *Lanes) Describe(p *profile.Plan, kind, device string, lanes ...string) {
	p.Device, p.Lanes, p.HostLanes = kind+": "+device, append([]string{"host"}, lanes...), 1
	for i := range p.Steps {
		p.Steps[i].Kernel, p.Steps[i].Class = kind, l.Plan.Steps[i].Class(len(l.Plan.Steps[i].Nodes)-1)
	}
	n := len(p.Steps)
	for i, name := range [extraSteps]string{"inputs", "outputs", "launch", "sync"} {
		p.Steps = append(p.Steps, profile.Step{ID: n + i, Name: name, Op: profile.TransferOp, Layer: -1, Host: i >= StepLaunch})
	}
}

// Begin begins a run, with its bytes in each direction. run may be nil.
func (l *Lanes) Begin(b tensor.Bind, run *profile.Run) {
	l.run = run
	if run == nil {
		return
	}
	n := len(l.Plan.Steps)
	run.Costs[n+StepIn].Bytes, run.Costs[n+StepOut].Bytes = Carried(l.In, b), Carried(l.Out, b)
	l.started = profile.Now()
}

// Run is the run in flight, if it is recorded, and when it began.
func (l *Lanes) Run() (*profile.Run, int64) { return l.run, l.started }

// Drop forgets the run in flight: it failed.
func (l *Lanes) Drop() { l.run = nil }

// Launched says that everything is enqueued.
func (l *Lanes) Launched() {
	if l.run == nil {
		return
	}
	host, k := &l.run.Lanes[0], len(l.Plan.Steps)+StepLaunch
	host.Wake, host.Arrive[k], host.Begin[k], host.End[k] = l.started, l.started, l.started, profile.Now()
}

// Wait waits for the run in flight, and has fold put the device's times into its
// lanes, or keep what they are computed from: end is when the host saw the end.
func (l *Lanes) Wait(wait func() error, fold func(end int64) error) error {
	if l.run == nil {
		return wait()
	}
	begin := profile.Now()
	err := wait()
	end := profile.Now()
	host, n := &l.run.Lanes[0], len(l.Plan.Steps)
	k := n + StepSync
	// From the launch on the host had no part in the run.
	host.Arrive[k], host.Begin[k], host.End[k], host.Done = host.End[n+StepLaunch], begin, end, end
	if err == nil {
		err = fold(end)
	}
	l.run = nil
	return err
}

// HostTimes are when a run that was waited for began, and when the host saw its end.
func (l *Lanes) HostTimes(run *profile.Run) (started, end int64) {
	host, n := &run.Lanes[0], len(l.Plan.Steps)
	return host.Begin[n+StepLaunch], host.End[n+StepSync]
}

// Set puts a step into a lane of the device.
func Set(run *profile.Run, lane, step int, arrive, begin, end int64) {
	to := &run.Lanes[lane]
	to.Arrive[step], to.Begin[step], to.End[step] = arrive, begin, end
}

// Span is when a lane of the device entered and left the run.
func Span(run *profile.Run, lane int, wake, done int64) {
	to := &run.Lanes[lane]
	to.Wake, to.Done, to.Absent = wake, done, false
}

// Absent says that a lane of the device has no part in the run, until Span says
// otherwise.
func Absent(run *profile.Run, lane int) { run.Lanes[lane].Absent = true }
