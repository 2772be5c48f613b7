package compare

import (
	"fmt"
	"slices"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// Page faults are counted by the system for the whole process during the recording. They
// show what no time of a step names: that memory lies in small pages, is given back and
// touched again, or is read from the disk.

// Verdicts about page faults.
const (
	MoreFaults  Verdict = "more faults"
	FewerFaults Verdict = "fewer faults"
)

// FaultDiff is one kind of page faults per recording, before and after: the geometric
// mean of the recordings of a side.
type FaultDiff struct {
	Kind    string  `json:"kind"` // what served them: memory, disk
	Before  float64 `json:"before"`
	After   float64 `json:"after"`
	Change  Change  `json:"change"` // in per cent of A's, of this kind
	Verdict Verdict `json:"verdict"`
}

// Changed reports whether the difference is more than noise.
func (d *FaultDiff) Changed() bool { return d.Verdict == MoreFaults || d.Verdict == FewerFaults }

// compareFaults compares the kinds that all recordings count and that A has at all: a
// change from nothing has no size.
func compareFaults(a, b []*profile.Profile) []FaultDiff {
	out := []FaultDiff{}
	if slices.ContainsFunc(slices.Concat(a, b), func(p *profile.Profile) bool { return p.Processor == nil }) {
		return out
	}
	e, a, b := wholeRecordings(a, b)
	for _, k := range []struct {
		name string
		of   func(*profile.ProcessorStats) int64
	}{
		{"memory", func(s *profile.ProcessorStats) int64 { return s.MinorFaults }},
		{"disk", func(s *profile.ProcessorStats) int64 { return s.MajorFaults }},
	} {
		var counts [2][]float64
		for side, profiles := range [2][]*profile.Profile{a, b} {
			for _, p := range profiles {
				counts[side] = append(counts[side], float64(k.of(p.Processor)))
			}
		}
		if mean(counts[0]) <= 0 {
			continue
		}
		d := FaultDiff{Kind: k.name}
		d.Change, d.Before, d.After = e.amount(counts, mean(counts[0]))
		d.Verdict = d.Change.Verdict
		out = append(out, d)
	}
	return out
}

// served is how page faults of the kind were served.
func (d *FaultDiff) served() string {
	if d.Kind == "disk" {
		return "read from a disk"
	}
	return "served from memory"
}

// says is the change in a sentence.
func (d *FaultDiff) says() string {
	size, low, high, more := d.Change.spoken()
	return fmt.Sprintf("%.0f page faults %s became %.0f: %.0f %% %s (%.0f to %.0f).", d.Before, d.served(), d.After, size, more, low, high)
}

func (c *Comparison) faultsTable() table.Table {
	t := table.Table{Title: "page faults", Note: "of the process during a recording, the geometric mean of recordings; change: in per cent of A's",
		Cols: []table.Col{table.Left("served from"), table.Right("before"), table.Right("after"), table.Right("change %"), table.Right("noise"), table.Left("verdict")}}
	for i := range c.Faults {
		d := &c.Faults[i]
		t.Add(markOf(d.Changed(), d.Verdict), d.Kind, fmt.Sprintf("%.0f", d.Before), fmt.Sprintf("%.0f", d.After), d.Change.cell(), d.Change.noise(), string(d.Verdict))
	}
	return t
}
