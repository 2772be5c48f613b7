package compare

import (
	"fmt"
	"math"
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

// FaultDiff is one kind of page faults per recording, before and after. Only those served
// from memory are judged, and Before and After are geometric means of the recordings of a
// side then. How many pages come from a disk depends on what other programs left in memory.
type FaultDiff struct {
	Kind    string  `json:"kind"` // what served them: memory, disk
	Before  float64 `json:"before"`
	After   float64 `json:"after"`
	Change  Change  `json:"change"` // in per cent of A's
	Verdict Verdict `json:"verdict"`
}

// Changed reports whether the difference is more than noise.
func (d *FaultDiff) Changed() bool { return d.Verdict == MoreFaults || d.Verdict == FewerFaults }

const (
	// fewFaults in a recording say nothing: a few more may be of a new thread. As many are
	// added to each count before its logarithm is taken.
	fewFaults = 100
	// faultFloor is the smallest change that is reported.
	faultFloor = scopeFloor
	// unlikeTokens is the part by which sides may differ in their tokens. More work touches
	// more memory.
	unlikeTokens = 0.1
)

// compareFaults compares page faults if all recordings count them.
func (c *Comparison) compareFaults(a, b []*profile.Profile) {
	c.Faults = []FaultDiff{}
	if slices.ContainsFunc(slices.Concat(a, b), func(p *profile.Profile) bool { return p.Processor == nil }) {
		return
	}
	e, a, b := wholeRecordings(a, b)
	sides := [2][]*profile.Profile{a, b}
	disk := newFaultDiff("disk", sides, func(s *profile.ProcessorStats) int64 { return s.MajorFaults })
	memory := newFaultDiff("memory", sides, func(s *profile.ProcessorStats) int64 { return s.MinorFaults })
	// What is read from a disk for one side is served from memory for the other.
	cached := max(disk.Before, disk.After) > fewFaults+2*min(disk.Before, disk.After)
	if cached {
		c.warn("page faults that read from a disk: %.0f per recording of A and %.0f of B; if the files of one side were in memory before, times and page faults differ for that reason", disk.Before, disk.After)
	}
	tokens := [2]float64{meanTokens(a), meanTokens(b)}
	alike := max(tokens[0], tokens[1]) <= (1+unlikeTokens)*min(tokens[0], tokens[1])
	if e.repeated() && !e.apartInTime && !cached && alike && max(memory.Before, memory.After) >= fewFaults {
		memory.measure(&e, sides)
	}
	for _, d := range []FaultDiff{memory, disk} {
		if d.Before+d.After > 0 {
			c.Faults = append(c.Faults, d)
		}
	}
}

// newFaultDiff has the mean counts of one kind, which are not judged.
func newFaultDiff(kind string, sides [2][]*profile.Profile, of func(*profile.ProcessorStats) int64) FaultDiff {
	var level [2]float64
	for side, profiles := range sides {
		for _, p := range profiles {
			level[side] += float64(of(p.Processor)) / float64(len(profiles))
		}
	}
	d := FaultDiff{Kind: kind, Before: level[0], After: level[1], Verdict: Untested}
	d.Change = Change{Percent: table.PercentOf(d.After-d.Before, d.Before), P: 1, Holm: 1, Verdict: Untested}
	return d
}

// measure tests page faults served from memory.
func (d *FaultDiff) measure(e *evidence, sides [2][]*profile.Profile) {
	var x [2][][]float64
	var level [2]float64
	chance := 0.0 // at least this variance is left if all counts of a side are equal
	for side, profiles := range sides {
		sum, logs := 0.0, 0.0
		for _, p := range profiles {
			n := float64(p.Processor.MinorFaults) + fewFaults
			x[side], sum, logs = append(x[side], []float64{math.Log(n)}), sum+n, logs+math.Log(n)
		}
		chance += 1 / sum
		level[side] = math.Exp(logs / float64(len(profiles)))
	}
	d.Before, d.After = max(0, level[0]-fewFaults), max(0, level[1]-fewFaults)
	s := e.shift(Median, x)
	s.variance, s.freedom = s.variance+chance, min(s.freedom, moderation)
	d.Change.measure(s, faultFloor, func(log float64) float64 { return table.PercentOf(level[0]*math.Expm1(log), max(1, d.Before)) }, true)
	d.Verdict = d.Change.Verdict
}

// meanTokens is what a recording computed.
func meanTokens(profiles []*profile.Profile) float64 {
	sum := 0.0
	for _, p := range profiles {
		for i := range p.Plans {
			sum += float64(p.Plans[i].Tokens)
		}
	}
	return sum / float64(len(profiles))
}

// says is the change in a sentence.
func (d *FaultDiff) says() string {
	size, low, high, more := d.Change.spoken()
	return fmt.Sprintf("%.0f page faults served from memory became %.0f: %.0f %% %s (%.0f to %.0f).", d.Before, d.After, size, more, low, high)
}

func (c *Comparison) faultsTable() table.Table {
	t := table.Table{Title: "page faults", Note: "of the process during a recording, the mean of recordings; change: in per cent of A's; untested: from a disk; few; not several recordings per side, made in turn; sides with other tokens, or whose files one side found in memory",
		Cols: []table.Col{table.Left("served from"), table.Right("before"), table.Right("after"), table.Right("change %"), table.Right("noise"), table.Left("verdict")}}
	for i := range c.Faults {
		d, change := &c.Faults[i], ""
		if d.Verdict != Untested {
			change = d.Change.cell()
		}
		t.Add(markOf(d.Changed(), d.Verdict), d.Kind, fmt.Sprintf("%.0f", d.Before), fmt.Sprintf("%.0f", d.After), change, d.Change.noise(), string(d.Verdict))
	}
	return t
}
