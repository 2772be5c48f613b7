package compare

import (
	"fmt"
	"slices"
)

// Worst is the largest slowdown that was found to be real, in per cent of A's
// time, for --fail-above. It is that of all rows together, of whole runs, of the
// slowest runs (p95), of a scope as a part of the whole recording, or of a column of
// the ledger as a part of all lane time, unless whole runs of its plan are faster. what
// names it; of all rows it is the largest that is slower. It is 0 if nothing is slower.
func (c *Comparison) Worst() (percent float64, what string) {
	if all, _, _ := c.Real(); all > 0 {
		percent, what = all, "time in runs"
		different := c.Different()
		if i := slices.IndexFunc(different, func(d *Diff) bool { return d.Verdict.worse() }); i >= 0 {
			what = c.says(different[i])
		}
	}
	take := func(v float64, of string) {
		if v > percent {
			percent, what = v, of
		}
	}
	for i := range c.Plans {
		p := &c.Plans[i]
		for m := range measures {
			if ch := p.Total.Of(m); ch.Verdict == Slower {
				take(ch.Percent, fmt.Sprintf("%s of a run of %s", m, p.Name))
			}
		}
		for _, rows := range [][]Diff{p.Kinds, p.Places, p.Layers, p.Steps} {
			for k := range rows {
				if d := &rows[k]; d.P95.Verdict == Slower && p.tail > 0 {
					take(d.P95.Percent*d.base*d.tailOver/p.tail, fmt.Sprintf("p95 of a run of %s, by %s alone", p.Name, d.subject()))
				}
			}
		}
	}
	for i := range c.Scopes {
		if d := &c.Scopes[i]; d.Verdict == Slower {
			take(d.Added, fmt.Sprintf("scope %s, of the whole recording", d.label()))
		}
	}
	for i := range c.Ledger {
		if d := &c.Ledger[i]; d.Verdict == MoreTime && !c.fasterRuns(d.plan) {
			take(d.Change.Percent, fmt.Sprintf("%s of %s, of all lane time", d.Column, d.owner()))
		}
	}
	return percent, what
}

// fasterRuns reports whether whole runs of a plan are certain to be faster. Then lanes
// may wait longer for each other, or be idle, and B is not slower.
func (c *Comparison) fasterRuns(id string) bool {
	return slices.ContainsFunc(c.Plans, func(p PlanDiff) bool { return p.ID == id && p.Total.Verdict == Faster })
}
