package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// transfersTable is what runs on devices carry and wait for, per plan.
func transfersTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "device", Note: "per run: bytes that travel in each direction with the time of these steps on the device, and what the host needs to launch the run and to wait for its end",
		Cols: []table.Col{table.Left("plan"), table.Left("phase"), table.Left("device"), table.Right("runs"), table.Right("bytes to device"), table.Right("us"), table.Right("bytes from device"), table.Right("us"),
			table.Right("launch us"), table.Right("sync us")}}
	for i := range p.Plans {
		s := &p.Plans[i]
		if s.HostLanes == 0 || s.Ledger.Runs == 0 {
			continue
		}
		bytes, us := map[string]string{}, map[string]string{}
		for k := range s.Steps {
			if s.Steps[k].Op == profile.TransferOp {
				st := &s.Stats[k]
				bytes[s.Steps[k].Name] = fmt.Sprintf("%.0f", table.PerTime(st.Bytes, s.Ledger.Runs))
				us[s.Steps[k].Name] = table.Us(st.Span.Mean)
			}
		}
		if len(us) == 0 {
			continue // a device that shares the host's memory
		}
		t.Add(table.Plain, cmp.Or(s.Name, s.ID), s.Phase, s.DeviceName(), table.Integer(s.Ledger.Runs), bytes["inputs"], us["inputs"], bytes["outputs"], us["outputs"], us["launch"], us["sync"])
	}
	return t
}

// deviceMemoryTable is what devices took from their drivers.
func deviceMemoryTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "device memory", Note: "allocations are calls of the driver; runs since is how many ended after the last of them",
		Cols: []table.Col{table.Left("device"), table.Right("allocations"), table.Right("runs"), table.Right("runs since"), table.Right("held MiB"), table.Right("in use MiB"), table.Left("of which")}}
	for _, d := range p.Devices {
		var classes []string
		for _, class := range slices.Sorted(maps.Keys(d.ByClass)) {
			classes = append(classes, class+" "+table.Mib(d.ByClass[class]))
		}
		t.Add(table.Plain, d.Device, table.Integer(d.Allocations), table.Integer(d.Runs), table.Integer(d.Since), table.Mib(d.Held), table.Mib(d.Used), strings.Join(classes, ", "))
	}
	return t
}
