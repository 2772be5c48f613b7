package report

import (
	"fmt"
	"slices"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// unseen names the cost that no clock of this machine can measure.
const unseen = "what programs on the other half of a shared physical core cost is visible to no clock"

// processorTable holds the ledger against the system's own count.
func processorTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "processor time", Note: unseen, Cols: []table.Col{table.Left(""), table.Right("ms"), table.Left("")}}
	s := p.Processor
	if s == nil {
		return t
	}
	t.Add(table.Strong, "process", table.Ms(s.User+s.System), fmt.Sprintf("of all threads, by getrusage: %s user, %s system; %d switches, %d of them forced", table.Ms(s.User), table.Ms(s.System), s.Switches+s.Preempted, s.Preempted))
	l := &p.Ledger
	if l.Runs > 0 {
		t.Add(table.Plain, "steps, on a processor", table.Ms(l.Compute-l.OffCompute), "compute of the ledger")
		if l.OffCPU > 0 {
			how := "spread over the steps that took much longer than usual"
			if slices.ContainsFunc(p.Plans, func(s profile.PlanStats) bool { return s.ExactSwitches }) {
				how = "in steps that the system marked as preempted"
			}
			t.Add(table.Plain, "steps, without one", table.Ms(l.OffCompute), how)
		}
		if off := l.OffCPU - l.OffCompute; off > 0 {
			t.Add(table.Plain, "lanes, without one", table.Ms(off), "between steps, and in waits before a worker sleeps")
		}
		if l.Blind > 0 {
			t.Add(table.Warn, "lanes, not known", table.Ms(l.Blind), "a worker changed its thread meanwhile; "+table.Ms(l.Guessed)+" ms beyond the usual time count as without one")
		}
	}
	if s.Waited > 0 {
		t.Add(table.Plain, "waited for one", table.Ms(s.Waited), "all threads of the process, by schedstat")
	}
	if s.Stolen > 0 {
		t.Add(table.Warn, "stolen", table.Ms(s.Stolen), "taken from this virtual machine by its host, all processors and programs")
	}
	return t
}
