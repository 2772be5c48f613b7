package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// Summary is the comparison in a few sentences: first what is certain, then what is
// not.
func (c *Comparison) Summary() string {
	out, largest := c.certain()
	for i := range c.Batches {
		out = slices.Insert(out, i, c.Batches[i].says())
	}
	different := c.Different()
	tested := slices.ContainsFunc(c.Plans, func(p PlanDiff) bool { return p.Total.Verdict != Untested })
	took := longer(table.PercentOf(c.Total.Delta(), c.Total.Before))
	switch {
	case len(different) > 0:
	case tested && c.lanesDiffer():
		out = append(out, fmt.Sprintf("Whole runs are not certain to differ: B took %s.", took))
	case !tested:
		out = append(out, fmt.Sprintf("Too few runs to compare times: B took %s, and whether that is a difference is not known.", took))
	default:
		text := fmt.Sprintf("No difference of time was found in runs: B took %s, which two recordings of one build may", took)
		if noise := c.noise(); noise > 0 {
			text += fmt.Sprintf(" (less than %.1f %% of whole runs cannot be told from noise here)", noise)
		}
		out = append(out, text+".")
	}
	if what, ch := c.nearest(); ch != nil && tested && largest < leastNear {
		out = append(out, fmt.Sprintf("Nearest to a difference is %s: %+.1f %% (%+.1f to %s), with p = %.2f after correction; more recordings in turn would tell.", what, ch.Percent, *ch.Low, ch.upTo(), ch.Holm))
	}
	return strings.Join(out, " ")
}

// noise is what whole runs of the plan that takes most time may differ by in two recordings
// of one build, in per cent; 0 if that is not known.
func (c *Comparison) noise() float64 {
	var most *PlanDiff
	for i := range c.Plans {
		if p := &c.Plans[i]; p.Total.tested && (most == nil || p.Total.Before*float64(p.Runs[0]) > most.Total.Before*float64(most.Runs[0])) {
			most = p
		}
	}
	if most == nil {
		return 0
	}
	return most.Total.Mean.Noise
}

// finding is a sentence about a change, with its part of A's time in per cent.
type finding struct {
	percent float64
	text    string
}

// certain are the sentences about what changed, the largest part of A's time first: time
// in runs, of the host, of lanes. largest is the size of the first. Page faults, the Go heap
// and memory come last.
func (c *Comparison) certain() (out []string, largest float64) {
	all := c.besideRows()
	if different := c.Different(); len(different) > 0 {
		mid, low, high := c.Real()
		f := finding{percent: mid}
		switch {
		case math.Abs(mid) >= 0.05:
			f.text = c.sized(mid, low, high, different[0])
		case len(all) > 0:
			f.text = fmt.Sprintf("Runs of B differ from those of A, but not in their time: %s.", c.says(different[0]))
		default:
			f.text = fmt.Sprintf("B differs from A, but not in its time: %s.", c.says(different[0]))
		}
		if n := len(different); n > 1 {
			f.text += fmt.Sprintf(" Rows that differ: %d.", n)
		}
		all = append([]finding{f}, all...)
	}
	slices.SortStableFunc(all, func(x, y finding) int { return cmp.Compare(math.Abs(y.percent), math.Abs(x.percent)) })
	small := 0
	for i, f := range all {
		if largest = max(largest, math.Abs(f.percent)); i >= manyFindings && math.Abs(f.percent) < leastNear {
			small++
			continue
		}
		out = append(out, f.text)
	}
	if small > 0 {
		out = append(out, fmt.Sprintf("Smaller changes of lanes and the host: %d, see the tables.", small))
	}
	for i := range c.Faults {
		if d := &c.Faults[i]; d.Changed() {
			out = append(out, faultsSay(d))
		}
	}
	for i := range c.GoHeap {
		if d := &c.GoHeap[i]; d.Changed() {
			out = append(out, c.heapSays(d))
		}
	}
	for i := range c.Memory {
		if d := &c.Memory[i]; d.Changed() {
			out = append(out, d.says())
		}
	}
	return out, largest
}

// sized is the sentence about the time of runs. The rows that are certain are only a
// part of what changed, so the time of whole runs stands beside their sum.
func (c *Comparison) sized(mid, low, high float64, first *Diff) string {
	all, allLow, allHigh, known := c.Whole()
	by := "by at least"
	if known && (mid > 0 && allHigh < mid || mid < 0 && allLow > mid) {
		by = "by" // other rows, of which none is certain, make up for it
	}
	if mid < 0 {
		low, high = -high, -low
	}
	text := fmt.Sprintf("B is %s %s %.1f %% of A's time (%.1f to %.1f), counting only rows that are certain: %s.", faster(mid), by, math.Abs(mid), low, high, c.says(first))
	if known {
		text += fmt.Sprintf(" Whole runs took %s (%+.1f to %+.1f).", longer(all), allLow, allHigh)
	}
	return text
}

// Whole is by how many per cent of A's time whole runs of B take longer, with its 95
// per cent interval, whether that is certain or not. It reports false if there are too
// few runs. Errors of plans are taken to be independent.
func (c *Comparison) Whole() (percent, low, high float64, known bool) {
	var mid, below, above float64
	for i := range c.Plans {
		p := &c.Plans[i]
		d := &p.Total
		if d.Mean.Low == nil || d.Mean.High == nil {
			return 0, 0, 0, false
		}
		runs := float64(p.Runs[0])
		mid += runs * (d.Work + d.base*d.Mean.Percent/100)
		below += sq(runs * d.base * (d.Mean.Percent - *d.Mean.Low) / 100)
		above += sq(runs * d.base * (*d.Mean.High - d.Mean.Percent) / 100)
	}
	if c.Total.Before == 0 {
		return 0, 0, 0, false
	}
	scale := 100 / c.Total.Before
	return scale * mid, scale * (mid - math.Sqrt(below)), scale * (mid + math.Sqrt(above)), true
}

// besideRows are the sentences about scopes, columns of the ledger, lanes of steps and
// uneven steps that changed.
func (c *Comparison) besideRows() []finding {
	var all []finding
	for i := range c.Scopes {
		if d := &c.Scopes[i]; d.Changed() && !c.within(d) && !c.inMean(i) {
			all = append(all, finding{d.Added, d.says()})
		}
	}
	for i := range c.Uneven {
		if d := &c.Uneven[i]; d.Changed() {
			all = append(all, finding{d.size(), d.says()})
		}
	}
	for _, d := range c.told() {
		all = append(all, finding{d.Change.Percent, d.says()})
	}
	return all
}

// lanesDiffer reports whether lanes share the time of runs in another way, in a column
// of a plan's ledger or in a step.
func (c *Comparison) lanesDiffer() bool {
	return slices.ContainsFunc(c.Ledger, func(d LedgerDiff) bool { return d.Changed() && !d.NoRun }) ||
		slices.ContainsFunc(c.Uneven, func(d UnevenDiff) bool { return d.Changed() })
}

// within reports whether a scope, or what of it lies outside of runs, changed because a
// scope inside of it did, which says more.
func (c *Comparison) within(of *ScopeDiff) bool {
	return slices.ContainsFunc(c.Scopes, func(d ScopeDiff) bool {
		return d.Changed() && strings.HasPrefix(d.Name, strings.TrimSuffix(of.Name, outsideOfRuns)+"/") && d.Added*of.Added > 0 && math.Abs(d.Added) > math.Abs(of.Added)/2 &&
			(!of.OutsideRuns || math.Abs(d.Added) < 2*math.Abs(of.Added)) // else most of it is runs
	})
}

// inMean reports whether the row of a scope's median call says the same as that of its
// mean, which comes next and counts all calls.
func (c *Comparison) inMean(i int) bool {
	return i+1 < len(c.Scopes) && c.Scopes[i+1].Name == c.Scopes[i].Name && c.Scopes[i+1].Verdict == c.Scopes[i].Verdict
}

// manyFindings have a sentence each; further ones only if they are not small.
const manyFindings = 3

// leastNear is the part of A's time that the nearest row must have changed by to be
// named, in per cent.
const leastNear = 0.5

// nearest is the change of the op, layer, step, wait, scope or column of the ledger
// that is nearest to a difference where none was found, with its name. It is nil if
// all are far from it, or too small to matter.
func (c *Comparison) nearest() (what string, change *Change) {
	least := nearlyFalse
	take := func(name string, ch *Change, percent float64) {
		if ch.Low != nil && ch.High != nil && ch.Holm < least && math.Abs(percent) >= leastNear {
			what, change, least = name, ch, ch.Holm
		}
	}
	for i := range c.Plans {
		p := &c.Plans[i]
		share := float64(p.Runs[0]) / c.Total.Before
		for _, rows := range [][]Diff{p.Kinds, p.Places, p.Layers, p.Steps, p.Waits, {p.Wait}} {
			for k := range rows {
				for of := range measures {
					if d := &rows[k]; d.tested && !d.Changed() {
						take(fmt.Sprintf("the %s of %s", of, d.subject()), d.Of(of), d.Of(of).Percent*d.base*share)
					}
				}
			}
		}
	}
	for i := range c.Scopes {
		if d := &c.Scopes[i]; d.Verdict == Same {
			take("scope "+d.label(), &d.Change, d.Added)
		}
	}
	for i := range c.Ledger {
		if d := &c.Ledger[i]; d.Verdict == Same {
			take(fmt.Sprintf("%s of %s, in per cent of all lane time", d.Column, d.owner()), &d.Change, d.Change.Percent)
		}
	}
	return what, change
}

func longer(percent float64) string {
	if percent < 0 {
		return fmt.Sprintf("%.1f %% less time than A", -percent)
	}
	return fmt.Sprintf("%.1f %% longer than A", percent)
}

func faster(change float64) string {
	if change < 0 {
		return "faster"
	}
	return "slower"
}

// subject is the row in a sentence.
func (d *Diff) subject() string {
	switch {
	case d.points && d.Name != waitingRow:
		return "the wait " + d.Name
	case d.Layer >= 0 && d.Name == profile.LayerName(d.Layer):
		return "layer " + d.Name
	}
	return d.Name
}

// says is the text of a row's verdict.
func (d *Diff) says() string {
	if !d.Verdict.timed() {
		return d.subject() + " has " + string(d.Verdict)
	}
	m := d.Main()
	c := d.Of(m)
	size, low, high, more := c.spoken()
	text := fmt.Sprintf("the %s of %s is %.1f %% %s (%.1f to %.1f)", m, d.subject(), size, faster(c.Percent), low, high)
	if d.points {
		text = fmt.Sprintf("the %s of %s is %.1f %% of a run %s (%.1f to %.1f)", m, d.subject(), size, more, low, high)
	}
	if m == Tail {
		text += ", the median is not"
	}
	return text
}

// says is the text of a row's verdict, with its plan if there are several, and with the
// place at which lanes wait most.
func (c *Comparison) says(d *Diff) string {
	text := d.says()
	for i := range c.Plans {
		p := &c.Plans[i]
		if d == &p.Wait {
			if at := p.place(); at != nil {
				text += fmt.Sprintf(", most of it %s (%.1f %%)", at.Name, math.Abs(at.Of(at.Main()).Percent))
			}
		}
		if len(c.Plans) > 1 && p.has(d) {
			text += fmt.Sprintf(", in plan %s %s", p.Name, p.Phase)
		}
	}
	return text
}

// place is the wait that changed most of those that changed as all waits did; nil if
// none did.
func (p *PlanDiff) place() (most *Diff) {
	for i := range p.Waits {
		if d := &p.Waits[i]; d.Changed() && d.Real()*p.Wait.Real() > 0 && (most == nil || math.Abs(d.Real()) > math.Abs(most.Real())) {
			most = d
		}
	}
	return most
}

// has reports whether a row is one of the plan's.
func (p *PlanDiff) has(d *Diff) bool {
	for _, rows := range [][]Diff{p.Kinds, p.Places, p.Layers, p.Steps, p.Waits} {
		for i := range rows {
			if d == &rows[i] {
				return true
			}
		}
	}
	return d == &p.Total || d == &p.Common || d == &p.Wait
}
