package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

func memoryTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "memory", Note: "weights that were packed lie on the Go heap too", Cols: []table.Col{table.Left("owner"), table.Left("class"), table.Right("MiB"), table.Right("bytes"), table.Right("moved a token")}}
	rows := func(owner string, memory map[string]int64, moved string) {
		for _, class := range slices.Sorted(maps.Keys(memory)) {
			t.Add(table.Plain, owner, class, table.Mib(memory[class]), table.Integer(memory[class]), moved)
			moved = ""
		}
	}
	rows("process", p.Memory, "")
	for i := range p.Plans {
		if p.Plans[i].Ledger.Runs == 0 {
			continue
		}
		moved := ""
		if n := p.Plans[i].BytesPerToken(); n > 0 {
			moved = table.Si(n) + "B"
		}
		rows(cmp.Or(p.Plans[i].Name, p.Plans[i].ID), p.Plans[i].MemoryBytes, moved)
	}
	return t
}

// peakTable tells the owner of every byte at each plan's peak.
func peakTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "memory at the peak", Note: "of each plan, at its largest batch, by class and layer",
		Cols: []table.Col{table.Left("plan"), table.Left("at step"), table.Left("class"), table.Left("layer"), table.Right("buffers"), table.Right("MiB"), table.Right("%")}}
	for i := range p.Plans {
		s := &p.Plans[i]
		step, total, _ := s.Peak()
		if s.Ledger.Runs == 0 || step < 0 {
			continue
		}
		name, at := cmp.Or(s.Name, s.ID), s.Steps[step].Name
		owners := s.PeakOwners()
		for i := 0; i < len(owners); {
			// Layers that hold the same are one line.
			o, last := owners[i], owners[i]
			for i++; i < len(owners) && owners[i] == (profile.Owner{Class: o.Class, Layer: last.Layer + 1, Bytes: o.Bytes, Count: o.Count}) && o.Layer >= 0; i++ {
				last = owners[i]
			}
			layers, n := profile.LayerName(o.Layer), int64(last.Layer-o.Layer+1)
			if n > 1 {
				layers += " to " + profile.LayerName(last.Layer)
			}
			t.Add(table.Plain, name, at, o.Class, layers, table.Integer(n*int64(o.Count)), table.Mib(n*o.Bytes), fmt.Sprintf("%.1f", table.Percent(n*o.Bytes, total)))
			name, at = "", ""
		}
		t.Add(table.Strong, "", "", "all", "", "", table.Mib(total), "")
	}
	return t
}

// heapTable is the Go heap and its collector.
func heapTable(p *profile.Profile, o Options) table.Table {
	t := table.Table{Title: "go heap", Note: "allocations of the whole process during the recording, packed weights among them; arenas and mapped files lie outside of it", Cols: []table.Col{table.Left(""), table.Right("objects"), table.Right("kB"), table.Left("")}}
	if p.Go == nil {
		return t
	}
	row := func(name string, h profile.HeapCount, note string) {
		t.Add(table.Plain, name, table.Integer(h.Objects), fmt.Sprintf("%.1f", float64(h.Bytes)/1e3), note)
	}
	row("recording", p.Go.HeapCount, fmt.Sprintf("%s, paused for %s ms in all, at most %s, %s ms of processor time; %s",
		cmp.Or(table.Count(int(p.Go.Cycles), "collection"), "no collection"), table.Ms(p.Go.Pause), table.Ms(p.Go.LongPause), table.Ms(p.Go.GCTime), table.Count(int(p.Go.Goroutines), "goroutine")))
	for i := range p.Plans {
		if s := &p.Plans[i]; s.Heap != nil {
			row("plan "+cmp.Or(s.Name, s.ID), *s.Heap, "in "+table.Count(int(s.Ledger.Runs), "run")+", all that the process did meanwhile")
			s.HeapRows(o.Top, row)
		}
	}
	for i := range p.Scopes {
		if s := &p.Scopes[i]; s.Heap != nil {
			row("scope "+s.Name, *s.Heap, "in "+table.Count(int(s.Calls), "call"))
		}
	}
	return t
}
