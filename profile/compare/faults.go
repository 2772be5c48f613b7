package compare

import (
	"fmt"
	"slices"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// Page faults are counted by the system for the whole process during the recording,
// opening the model included. They show what no time of a step names: that memory lies in
// small pages, or is given back and touched again.

// Verdicts about page faults.
const (
	MoreFaults  Verdict = "more faults"
	FewerFaults Verdict = "fewer faults"
)

const (
	// fewFaults in a recording say nothing: a few more may be of a new thread. As many are
	// added to each count before its logarithm is taken.
	fewFaults = 100
	// faultFloor is the smallest change that is reported.
	faultFloor = scopeFloor
)

// compareFaults compares page faults if all recordings count them.
func (c *Comparison) compareFaults(a, b []*profile.Profile) {
	c.Faults = []CountDiff{}
	if slices.ContainsFunc(slices.Concat(a, b), func(p *profile.Profile) bool { return p.Processor == nil }) {
		return
	}
	e, a, b := wholeRecordings(a, b)
	sides := [2][]*profile.Profile{a, b}
	fromMemory := func(p *profile.Profile) int64 { return p.Processor.MinorFaults }
	disk := newCountDiff("disk", sides, func(p *profile.Profile) int64 { return p.Processor.MajorFaults })
	memory := newCountDiff("memory", sides, fromMemory)
	// What is read from a disk for one side is served from memory for the other.
	cached := max(disk.Before, disk.After) > fewFaults+2*min(disk.Before, disk.After)
	if cached {
		c.warn("page faults that read from a disk: %.0f per recording of A and %.0f of B; if the files of one side were in memory before, times and page faults differ for that reason", disk.Before, disk.After)
	}
	if countable(&e, sides, faultFloor) && !cached && max(memory.Before, memory.After) >= fewFaults {
		memory.measure(&e, sides, fromMemory, fewFaults, faultFloor)
	}
	for _, d := range []CountDiff{memory, disk} {
		if d.Before+d.After > 0 {
			c.Faults = append(c.Faults, d)
		}
	}
}

// faultsSay is the change in a sentence.
func faultsSay(d *CountDiff) string {
	size, low, high, more := d.Change.spoken()
	return fmt.Sprintf("%.0f page faults served from memory became %.0f: %.0f %% %s (%.0f to %.0f).", d.Before, d.After, size, more, low, high)
}

func (c *Comparison) faultsTable() table.Table {
	return countsTable("page faults", "of the process during a recording, the mean of recordings; change: in per cent of A's; untested: from a disk; few; not several recordings per side, made in turn; sides with other tokens, or whose files one side found in memory",
		"served from", c.Faults, func(d *CountDiff, n float64) string { return fmt.Sprintf("%.0f", n) })
}
