package report

import (
	"fmt"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// residentTable is the owner of every resident byte, and what the owner allocated,
// touched or not, where that is known.
func residentTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "resident memory", Note: "when it was most, at the end of a session or at the snapshot", Cols: []table.Col{table.Left("owner"), table.Right("MiB"), table.Right("%"), table.Right("allocated")}}
	if p.Resident == nil {
		return t
	}
	for _, o := range p.Resident.Owners {
		held := ""
		if o.Held > 0 {
			held = table.Mib(o.Held)
		}
		t.Add(table.Plain, o.Owner, table.Mib(o.Bytes), fmt.Sprintf("%.1f", table.Percent(o.Bytes, p.Resident.Bytes)), held)
	}
	t.Add(table.Strong, "all", table.Mib(p.Resident.Bytes), "", "")
	return t
}
