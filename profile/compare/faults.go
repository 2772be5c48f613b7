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

// FaultDiff is one kind of page faults per recording, before and after: the geometric
// mean of the recordings of a side. Only those served from memory are judged: how many
// pages come from a disk depends on what other programs left in memory.
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
	// fewFaults in a recording say nothing: a few more may be of a new thread.
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
	all := slices.Concat(a, b)
	if slices.ContainsFunc(all, func(p *profile.Profile) bool { return p.Processor == nil }) {
		return
	}
	e, a, b := wholeRecordings(a, b)
	memory := newFaultDiff("memory", [2][]*profile.Profile{a, b}, func(s *profile.ProcessorStats) int64 { return s.MinorFaults })
	few := slices.ContainsFunc(all, func(p *profile.Profile) bool { return p.Processor.MinorFaults < fewFaults })
	if e.repeated() && !e.apartInTime && !few && !apartBy(meanTokens(a), meanTokens(b), unlikeTokens) {
		memory.measure(&e, a, b)
	}
	disk := newFaultDiff("disk", [2][]*profile.Profile{a, b}, func(s *profile.ProcessorStats) int64 { return s.MajorFaults })
	for _, d := range []FaultDiff{memory, disk} {
		if d.Before+d.After > 0 {
			c.Faults = append(c.Faults, d)
		}
	}
	if d := disk; max(d.Before, d.After) > fewFaults+2*min(d.Before, d.After) {
		c.warn("A read %.0f pages from a disk and B %.0f: the files of one side were in memory before", d.Before, d.After)
	}
}

// newFaultDiff has the counts of one kind, which are not judged.
func newFaultDiff(kind string, sides [2][]*profile.Profile, of func(*profile.ProcessorStats) int64) FaultDiff {
	var level [2]float64
	for side, profiles := range sides {
		for _, p := range profiles {
			level[side] += math.Log1p(float64(of(p.Processor))) / float64(len(profiles))
		}
	}
	d := FaultDiff{Kind: kind, Before: math.Expm1(level[0]), After: math.Expm1(level[1]), Verdict: Untested}
	d.Change = Change{Percent: table.PercentOf(d.After-d.Before, d.Before), P: 1, Holm: 1, Verdict: Untested}
	return d
}

// measure tests page faults served from memory, of which there are some.
func (d *FaultDiff) measure(e *evidence, a, b []*profile.Profile) {
	var x [2][][]float64
	counted := 0.0 // the variance of counts that are as they are by chance alone
	for side, profiles := range [2][]*profile.Profile{a, b} {
		sum := 0.0
		for _, p := range profiles {
			n := float64(p.Processor.MinorFaults)
			x[side], sum = append(x[side], []float64{math.Log(n)}), sum+n
		}
		counted += 1 / sum
	}
	s := e.shift(Median, x)
	s.variance, s.freedom = s.variance+counted, min(s.freedom, moderation)
	d.Change.measure(s, faultFloor, func(log float64) float64 { return 100 * math.Expm1(log) }, true)
	d.Verdict = d.Change.Verdict
}

// meanTokens is what a recording computed.
func meanTokens(profiles []*profile.Profile) float64 {
	sum := int64(0)
	for _, p := range profiles {
		for i := range p.Plans {
			sum += p.Plans[i].Tokens
		}
	}
	return float64(sum) / float64(len(profiles))
}

// says is the change in a sentence.
func (d *FaultDiff) says() string {
	size, low, high, more := d.Change.spoken()
	return fmt.Sprintf("%.0f page faults served from memory became %.0f: %.0f %% %s (%.0f to %.0f).", d.Before, d.After, size, more, low, high)
}

func (c *Comparison) faultsTable() table.Table {
	t := table.Table{Title: "page faults", Note: "of the process during a recording, the geometric mean of recordings; change: in per cent of A's; untested: from a disk, few, or of sides that computed other tokens",
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
