package report

import (
	"cmp"
	"fmt"
	"slices"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// processTable is every millisecond of the process.
func processTable(p *profile.Profile, _ Options) table.Table {
	s := p.Process
	t := table.Table{Title: "process", Cols: []table.Col{table.Left(""), table.Right("ms"), table.Right("%"), table.Left("")}}
	if s == nil {
		return t
	}
	wall := p.Wall()
	t.Note = fmt.Sprintf("%s ms from its start to the snapshot", table.Ms(wall))
	row := func(m table.Mark, name string, ns int64, what string) {
		t.Add(m, name, table.Ms(ns), table.PercentCell(table.Percent(ns, wall)), what)
	}
	if s.Before > 0 {
		row(table.Plain, "before the recording", s.Before, fmt.Sprintf("start of the process and of the program, good to 5 ms; %s ms on a processor", table.Ms(s.BeforeCPU)))
	}
	row(table.Plain, "in scopes", s.Scoped, "those without a parent, each moment once:")
	tops := p.ScopesWhere(func(s *profile.ScopeStats) bool { return s.Parent < 0 && s.Calls > 0 })
	slices.SortStableFunc(tops, func(a, b *profile.ScopeStats) int { return cmp.Compare(b.Total, a.Total) })
	for _, c := range tops {
		row(table.Plain, "  "+c.Name, c.Total, table.Count(int(c.Calls), "call"))
	}
	row(table.Plain, "outside of any scope", p.End-p.Start-s.Scoped, "")
	row(table.Strong, "all", wall, "")
	row(table.Plain, "with a run in flight", s.InRuns, "in a scope or not")
	if h, ok := p.OutsideRuns(); ok {
		row(table.Plain, "outside of runs", h.Time, fmt.Sprintf("the rest of %s, without what recording took: the host's own, %s ms a run", h.Scope.Name, table.Ms(h.Time/h.Runs)))
	}
	if cold, runs := p.Cold(); runs > 0 {
		row(table.Plain, "  cold runs", cold, table.Count(int(runs), "run")+": the first of each plan, which touches its memory for the first time")
	}
	if f := p.Processor; f != nil {
		t.Add(table.Plain, "page faults", "", "", fmt.Sprintf("%d served from memory, %d from a disk, during the recording", f.MinorFaults, f.MajorFaults))
	}
	row(table.Plain, "recording itself", s.Probing+s.Folding, fmt.Sprintf("sampling ceilings %s ms, folding runs %s ms, beside the stamps; it holds %s MiB", table.Ms(s.Probing), table.Ms(s.Folding), table.Mib(s.Recorder)))
	return t
}
