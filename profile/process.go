package profile

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// ProcessStats is the whole process until the snapshot: its wall time is Before +
// the recording, and the recording is Scoped + what no scope tells.
type ProcessStats struct {
	// Before is from the start of the process to the recorder, by the system's own
	// record, which is good to 5 ms; 0 where the system does not say.
	Before    int64 `json:"before_ns"`
	BeforeCPU int64 `json:"before_cpu_ns"`  // of it on a processor, all threads
	Scoped    int64 `json:"scoped_ns"`      // with a scope open that has no parent
	InRuns    int64 `json:"in_runs_ns"`     // with a run in flight, in a scope or not
	Probing   int64 `json:"probing_ns"`     // sampling ceilings
	Folding   int64 `json:"folding_ns"`     // folding runs into the aggregates
	Recorder  int64 `json:"recorder_bytes"` // memory that the recorder holds
}

func (s *ProcessStats) check() error {
	if s != nil && min(s.Before, s.BeforeCPU, s.Scoped, s.InRuns, s.Probing, s.Folding, s.Recorder) < 0 {
		return fmt.Errorf("%+v, expected none below 0", *s)
	}
	return nil
}

// Wall is the time of the process from its start to the snapshot.
func (p *Profile) Wall() int64 {
	if p.Process == nil {
		return p.End - p.Start
	}
	return p.Process.Before + p.End - p.Start
}

// union adds up the time in which at least one of several things goes on.
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

// processTable is every millisecond of the process.
func processTable(p *Profile, _ ReportOptions) table {
	s := p.Process
	t := table{title: "process", cols: []col{left(""), right("ms"), right("%"), left("")}}
	if s == nil {
		return t
	}
	wall := p.Wall()
	t.note = fmt.Sprintf("%s ms from its start to the snapshot", ms(wall))
	row := func(m mark, name string, ns int64, what string) {
		t.add(m, name, ms(ns), percentCell(percent(ns, wall)), what)
	}
	if s.Before > 0 {
		row(plain, "before the recording", s.Before, fmt.Sprintf("start of the process and of the program, good to 5 ms; %s ms on a processor", ms(s.BeforeCPU)))
	}
	row(plain, "in scopes", s.Scoped, "those without a parent, each moment once:")
	tops := p.ScopesWhere(func(s *ScopeStats) bool { return s.Parent < 0 && s.Calls > 0 })
	slices.SortStableFunc(tops, func(a, b *ScopeStats) int { return cmp.Compare(b.Total, a.Total) })
	for _, c := range tops {
		row(plain, "  "+c.Name, c.Total, count(int(c.Calls), "call"))
	}
	row(plain, "outside of any scope", p.End-p.Start-s.Scoped, "")
	row(strong, "all", wall, "")
	row(plain, "with a run in flight", s.InRuns, "in a scope or not")
	if cold, runs := p.cold(); runs > 0 {
		row(plain, "  cold runs", cold, count(int(runs), "run")+": the first of each plan, which touches its memory for the first time")
	}
	if f := p.Processor; f != nil {
		t.add(plain, "page faults", "", "", fmt.Sprintf("%d served from memory, %d from a disk, during the recording", f.MinorFaults, f.MajorFaults))
	}
	row(plain, "recording itself", s.Probing+s.Folding, fmt.Sprintf("sampling ceilings %s ms, folding runs %s ms, beside the stamps; it holds %s MiB", ms(s.Probing), ms(s.Folding), mib(s.Recorder)))
	return t
}

// cold is the first run of each plan.
func (p *Profile) cold() (ns, runs int64) {
	for i := range p.Plans {
		if s := &p.Plans[i]; s.Ledger.Runs > 0 && s.First > 0 {
			ns, runs = ns+s.First, runs+1
		}
	}
	return ns, runs
}
