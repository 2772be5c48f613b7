// Package compare determines with statistics what changed between recordings of
// two builds: work, which is counted exactly, times, page faults and memory.
//
// It imports packages profile and report. Errors say what the recordings lack.
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

// Verdict is what the statistics say about a difference.
type Verdict string

// The verdicts. Work and memory are counted and need no statistics; times and page
// faults do.
const (
	Same       Verdict = "same"        // no more than two recordings of one build differ by
	Slower     Verdict = "slower"      // for the same work
	Faster     Verdict = "faster"      // for the same work
	SlowerTail Verdict = "slower tail" // only the slowest runs: p95
	FasterTail Verdict = "faster tail"
	MoreWork   Verdict = "more work" // more FLOPs or bytes
	LessWork   Verdict = "less work"
	MoreTime   Verdict = "more time" // of lanes, whatever the reason: the ledger
	LessTime   Verdict = "less time"
	FewerLanes Verdict = "fewer lanes" // share a step: its imbalance says nothing then
	MoreLanes  Verdict = "more lanes"
	OnlyA      Verdict = "only in A"
	OnlyB      Verdict = "only in B"
	Untested   Verdict = "untested" // too few runs, or a sum of others
)

// worse reports whether a verdict speaks against B.
func (v Verdict) worse() bool {
	return v == Slower || v == SlowerTail || v == MoreWork || v == MoreTime || v == FewerLanes || v == OnlyB || v == MoreFaults || v == MoreAllocated || v == MoreMemory
}

// Measure is which time of a row is compared. All are per run.
type Measure int

// The measures.
const (
	Median Measure = iota // of each step of the row, added up
	Mean                  // total time over total work
	Tail                  // 95th percentile of what the row takes of a run
	measures
)

var measureNames = [measures]string{"median", "mean", "p95"}

func (m Measure) String() string { return measureNames[m] }

// Change is the change of one measure of a row's time for the same work.
type Change struct {
	// Percent is the estimate. Low and High are its 95 per cent interval, which
	// contains it; nil if there are too few values.
	Percent float64  `json:"percent"`
	Low     *float64 `json:"percent_low,omitempty"`
	High    *float64 `json:"percent_high,omitempty"`
	Noise   float64  `json:"noise_percent"` // what two recordings of one build may differ by
	P       float64  `json:"p"`
	Holm    float64  `json:"p_holm"` // corrected for the number of tests
	Verdict Verdict  `json:"verdict"`
}

// judged reports whether the change is more than noise.
func (c *Change) judged() bool { return c.Verdict == Slower || c.Verdict == Faster }

// bounds is the interval, or the estimate alone where there is none.
func (c *Change) bounds() (low, high float64) {
	if c.Low == nil || c.High == nil {
		return c.Percent, c.Percent
	}
	return *c.Low, *c.High
}

// Diff is one row of a comparison. Times are nanoseconds of wall time per run:
// lane time divided by the number of lanes. After − Before = Work + Efficiency +
// Wait, exactly.
type Diff struct {
	Name  string `json:"name"`
	Op    string `json:"op,omitempty"`
	Layer int    `json:"layer"` // -1 outside of layers, and for sums

	Before     float64 `json:"before_ns"`
	After      float64 `json:"after_ns"`
	Work       float64 `json:"work_ns"`       // because there was more to do, at A's efficiency
	Efficiency float64 `json:"efficiency_ns"` // because the same was done faster or slower
	Wait       float64 `json:"wait_ns"`       // at barriers, in dispatch, idle, and for a processor

	FLOPs [2]int64 `json:"flops"` // per run, before and after
	Bytes [2]int64 `json:"bytes"`

	// Changes of the row's time on a processor for the same work, beyond what the
	// other rows have in common ([PlanDiff.Common]) unless [PlanDiff.Whole] says otherwise. Where the system does not show
	// which calls lost their processor, that time is included.
	Median Change `json:"median"`
	Mean   Change `json:"mean"`
	P95    Change `json:"p95"`

	Verdict Verdict `json:"verdict"`

	kind   string   // what the row is most of
	Frames []string `json:"-"` // of the flame graph
	nodes  []string // ops of the graph's nodes in it
	a, b   []int    // steps on each side
	waited float64  // of Before
	points bool     // the changes are in points of a run's time
	base   float64  // nanoseconds per run that the changes are of
	tested bool     // the changes are known
	// tailOver is A's p95 over its mean.
	tailOver float64
	counted  float64 // of Work, where it is a difference
}

// Of is the change of one measure.
func (d *Diff) Of(m Measure) *Change {
	switch m {
	case Median:
		return &d.Median
	case Mean:
		return &d.Mean
	}
	return &d.P95
}

// Delta is the whole difference.
func (d *Diff) Delta() float64 { return d.After - d.Before }

// Changed reports whether the difference is more than noise.
func (d *Diff) Changed() bool { return d.Verdict != Same && d.Verdict != Untested }

// Main is the measure to quote. It is the median if it changed, unless the mean
// changed by clearly more. Otherwise it is the measure that changed, or the mean
// if none did.
func (d *Diff) Main() Measure {
	switch {
	case d.Median.judged() && d.Mean.judged():
		low, high := d.Median.bounds()
		if l, h := d.Mean.bounds(); l > high || h < low {
			return Mean
		}
		return Median
	case d.Median.judged():
		return Median
	case d.Mean.judged() || !d.P95.judged():
		return Mean
	}
	return Tail
}

// Real is the part of the difference that was found to be real, in nanoseconds
// per run: the counted work, and the change of the mean, or of the median if only
// that is judged.
func (d *Diff) Real() float64 {
	mid, _, _ := d.real()
	return mid
}

// real is Real with its interval.
func (d *Diff) real() (mid, low, high float64) {
	mid, low, high = d.counted, d.counted, d.counted
	if !d.Verdict.timed() {
		return mid, low, high
	}
	c := &d.Mean
	if !c.judged() && d.Median.judged() {
		c = &d.Median
	}
	l, h := c.bounds()
	return mid + d.base*c.Percent/100, low + d.base*l/100, high + d.base*h/100
}

// timed reports whether a verdict is about times.
func (v Verdict) timed() bool {
	return v == Slower || v == Faster || v == SlowerTail || v == FasterTail
}

// PlanDiff is one plan that both recordings have.
type PlanDiff struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Phase  string   `json:"phase"`
	Runs   [2]int64 `json:"runs"`
	Total  Diff     `json:"total"`  // wall time per run
	Common Diff     `json:"common"` // what all steps have in common: the machine, or all kernels
	Wait   Diff     `json:"wait"`
	Steps  []Diff   `json:"steps"`
	Kinds  []Diff   `json:"kinds"`
	// Places are the steps of one name in all layers, of ops that have several of them.
	Places []Diff `json:"places"`
	Layers []Diff `json:"layers"`
	Waits  []Diff `json:"waits"` // parts of Wait: at barriers, by place
	// Shift is the common change of the rows of ops and steps that was found to be
	// real, in per cent and by measure. LayerShift is the same for layers. 0: no
	// common change was found.
	Shift      [measures]float64 `json:"shift_percent"`
	LayerShift [measures]float64 `json:"layer_shift_percent"`

	// Whole: changes of ops and steps contain what all of them have in common, and
	// WholeLayers those of layers, because not all moved alike.
	Whole       bool `json:"whole_changes,omitempty"`
	WholeLayers bool `json:"whole_layer_changes,omitempty"`

	Outside  [2]float64 `json:"-"` // of steps, on each side: dispatch and idle, per run
	tail     float64    // A's p95 of a run, in nanoseconds
	evidence evidence
}

// Comparison is what changed between two recordings.
type Comparison struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	A       string `json:"a"`
	B       string `json:"b"`
	// Recordings is how many of each side were compared.
	Recordings [2]int       `json:"recordings"`
	Total      Diff         `json:"total"` // of A's runs, and how long B takes for as many
	Plans      []PlanDiff   `json:"plans"`
	Scopes     []ScopeDiff  `json:"scopes"`
	Batches    []BatchDiff  `json:"batches"`
	Ledger     []LedgerDiff `json:"ledger"`
	Uneven     []UnevenDiff `json:"uneven"`
	Faults     []CountDiff  `json:"faults"` // by what served them; those from a disk depend on other programs and are not judged
	GoHeap     []CountDiff  `json:"go_heap"`
	Memory     []MemoryDiff `json:"memory"`
	OnlyA      []string     `json:"only_a"`
	OnlyB      []string     `json:"only_b"`
	Warnings   []string     `json:"warnings"`

	heapTokens float64 // of a recording of B
}

// comparisonVersion is the version of the document: 2 has a change per measure,
// tests layers and compares memory.
const comparisonVersion = 2

// Different lists the rows that are more than noise, of all plans, the largest
// difference first. A plan's total comes after its parts: it is their sum, and
// says nothing of where the time went.
func (c *Comparison) Different() []*Diff {
	var out, totals []*Diff
	for i := range c.Plans {
		p := &c.Plans[i]
		out = append(out, p.different()...)
		if p.Whole && p.Common.Changed() {
			totals = append(totals, &p.Common) // its parts contain it
		}
		if p.Total.Changed() {
			totals = append(totals, &p.Total)
		}
	}
	largest := func(x, y *Diff) int { return cmp.Compare(math.Abs(y.Real()), math.Abs(x.Real())) }
	slices.SortStableFunc(out, largest)
	slices.SortStableFunc(totals, largest)
	return append(out, totals...)
}

// different lists the plan's rows that are more than noise, without its total and what is
// only a sum.
func (p *PlanDiff) different() []*Diff {
	var out []*Diff
	for _, rows := range [][]Diff{p.Kinds, p.Places, p.Layers, p.Steps, p.Waits} {
		for k := range rows {
			if rows[k].Changed() {
				out = append(out, &rows[k])
			}
		}
	}
	for _, d := range []*Diff{&p.Common, &p.Wait} {
		if d.Changed() && !(p.Whole && d == &p.Common) {
			out = append(out, d)
		}
	}
	return out
}

// Real is by how many per cent of A's time B is slower, with its 95 per cent
// interval. It counts only differences that were found to be real: counted work,
// and times beyond noise. It is negative if B is faster.
func (c *Comparison) Real() (percent, low, high float64) {
	var mid, below, above float64
	for i := range c.Plans {
		p := &c.Plans[i]
		m, l, h := p.real()
		runs := float64(p.Runs[0])
		mid += runs * m
		below += sq(runs * (m - l))
		above += sq(runs * (h - m))
	}
	if c.Total.Before == 0 {
		return 0, 0, 0
	}
	scale := 100 / c.Total.Before
	return scale * mid, scale * (mid - math.Sqrt(below)), scale * (mid + math.Sqrt(above))
}

func sq(v float64) float64 { return v * v }

// real sums kinds, places, layers or steps, whichever say most: a kind, a place and a layer
// are tested as a whole. Errors of rows are taken to be independent.
func (p *PlanDiff) real() (mid, low, high float64) {
	sum := func(rows ...[]Diff) (mid, low, high float64) {
		var below, above float64
		for _, rows := range rows {
			for i := range rows {
				m, l, h := rows[i].real()
				mid += m
				below += sq(m - l)
				above += sq(h - m)
			}
		}
		return mid, mid - math.Sqrt(below), mid + math.Sqrt(above)
	}
	for i, rows := range [][]Diff{p.Layers, p.Steps, p.placed(), p.Kinds} {
		wait := []Diff{p.Wait}
		if !p.Wait.Changed() {
			wait = p.Waits
		}
		common := []Diff{p.Common}
		if whole := i == 0 && p.WholeLayers || i > 0 && p.Whole; whole && slices.ContainsFunc(rows, func(d Diff) bool { return d.Changed() }) {
			common = nil // the rows contain it
		}
		if m, l, h := sum(rows, common, wait); math.Abs(m) >= math.Abs(mid) {
			mid, low, high = m, l, h
		}
	}
	return mid, low, high
}

// Compare compares recordings of B with recordings of A. It matches plans by id,
// and steps by the graph nodes that they compute, so that a fused or split step
// is matched with its parts. One recording per side shows which kinds, layers and
// steps changed. Only several per side, recorded alternately, can separate a
// slowdown of everything from a slower machine.
func Compare(a, b []*profile.Profile, nameA, nameB string) (*Comparison, error) {
	if len(a) == 0 || len(b) == 0 {
		return nil, fmt.Errorf("profile: %d recordings against %d, expected at least one of each", len(a), len(b))
	}
	a, b = byModel(a, b)
	c := &Comparison{Format: "hotpath-comparison", Version: comparisonVersion, A: nameA, B: nameB, Recordings: [2]int{len(a), len(b)},
		Plans: []PlanDiff{}, OnlyA: []string{}, OnlyB: []string{}, Warnings: []string{}, Scopes: compareScopes(a, b), Batches: compareBatches(a, b), Ledger: compareLedger(a, b), Uneven: compareUneven(a, b), Memory: compareMemory(a, b)}
	c.compareFaults(a, b)
	c.compareGoHeap(a, b)
	c.Total = Diff{Name: "total", Layer: -1, Verdict: Untested}
	for _, p := range slices.Concat(a[1:], b) {
		c.sameConditions(a[0], p)
	}
	c.sameLanes(slices.Concat(a, b))
	c.warnOfBusy(a, b)
	sidesA, order, err := newSides(a, nameA)
	if err != nil {
		return nil, err
	}
	sidesB, orderB, err := newSides(b, nameB)
	if err != nil {
		return nil, err
	}
	work := countedWork(sidesA, sidesB)
	for _, id := range order {
		if y := sidesB[id]; y != nil {
			c.plan(sidesA[id], y, work)
		} else {
			c.OnlyA = append(c.OnlyA, id)
		}
	}
	for _, id := range orderB {
		if sidesA[id] == nil {
			c.OnlyB = append(c.OnlyB, id)
		}
	}
	if len(c.Plans) == 0 {
		return nil, fmt.Errorf("%s and %s have no plan in common: they have %q and %q", nameA, nameB, strings.Join(c.OnlyA, ", "), strings.Join(c.OnlyB, ", "))
	}
	if slices.ContainsFunc(c.Plans, func(d PlanDiff) bool { return d.evidence.apartInTime && d.evidence.repeated() }) {
		c.warn("all recordings of one side were made before those of the other: what the machine did in between looks like a change, so only large ones are called; make them in turn")
	}
	c.judge(machineShift(a[0], b[0]), work)
	return c, nil
}

// sameConditions warns of what may make two recordings differ.
func (c *Comparison) sameConditions(a, b *profile.Profile) {
	for _, f := range []struct{ what, a, b string }{
		{"model", profile.Subject(a), profile.Subject(b)}, {"machine", a.Facts.CPU, b.Facts.CPU}, {"tier", a.Facts.Tier, b.Facts.Tier},
		{"number of threads", table.Count(a.Facts.Threads, "thread"), table.Count(b.Facts.Threads, "thread")}, {"precision", a.Facts.Precision, b.Facts.Precision},
	} {
		if f.a != f.b && f.a != "" && f.b != "" {
			c.warn("the %s differs: %q and %q", f.what, f.a, f.b)
		}
	}
}

// warn says a thing once, however many recordings it is true of.
func (c *Comparison) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.Warnings, text) {
		c.Warnings = append(c.Warnings, text)
	}
}

// Same reports that no difference was found, neither of time nor of work nor of
// page faults nor of allocations nor of memory.
func (c *Comparison) Same() bool {
	return len(c.Different()) == 0 && len(c.Batches) == 0 && !slices.ContainsFunc(c.Scopes, func(d ScopeDiff) bool { return d.Changed() }) &&
		!slices.ContainsFunc(c.Ledger, func(d LedgerDiff) bool { return d.Changed() }) &&
		!slices.ContainsFunc(c.Uneven, func(d UnevenDiff) bool { return d.Changed() }) &&
		!slices.ContainsFunc(slices.Concat(c.Faults, c.GoHeap), func(d CountDiff) bool { return d.Changed() }) &&
		!slices.ContainsFunc(c.Memory, func(d MemoryDiff) bool { return d.Changed() })
}
