package profile

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// How differences are told from noise.
//
// Two recordings of one build differ for four reasons, and only the first is
// what a test of single runs would allow for: each run differs from the next;
// the machine drifts, so that neighbouring runs are alike; it was faster or
// slower as a whole when one of the recordings was made; and single steps were
// luckier in one of them, by where their pages lie. Hence
//
//   - the units of the test are blocks of the recording, not runs;
//   - what all kinds of op have in common is taken off first, block by block, and
//     judged for itself, against how far apart the recordings of one side lie,
//     or with one of each, or all of one side before the other, against how far
//     the machine drifts within it and how far its measured ceilings moved;
//   - where the recordings of both sides were made in turn, what the two of a
//     pair have in common is taken off each row as well: a neighbour that slows
//     only the products of the machine slows both;
//   - a step must differ by more than like steps of the other layers differ
//     among each other, and a kind by more than kinds do: the recordings
//     themselves show how large luck is. Mann-Whitney then tests for a difference
//     beyond that margin, and Holm corrects for the number of tests.
const (
	maxBlocks   = 10    // of a recording: the units of the tests
	leastMargin = 0.01  // differences below it are nobody's
	leastWork   = 1e-3  // as much as batches that are put together otherwise now and then
	commonFloor = 0.35  // one recording a side cannot tell a slow hour from a slow build below this
	waitFloor   = 0.02  // of a run's time
	voteShare   = 0.001 // of a run's time: kinds below it are too short to be heard
	fewVotes    = 3
)

// evidence is what a plan's tests are made from.
type evidence struct {
	recs         [2]int // recordings, the fewer blocks of each the more there are
	rows         []evidenceRow
	common, wait [2][]float64 // [side][block]
	votes        int
	paired       bool // recordings were made in turn, the k-th of A beside the k-th of B
	apartInTime  bool // all of one side were made before any of the other
}

// evidenceRow is the blocks of one row: logarithms of time for work.
type evidenceRow struct {
	diff  *Diff
	kind  bool
	votes bool         // on what all kinds have in common
	x     [2][]float64 // [side][block]
}

// sample takes the evidence from both sides while they are at hand.
func (d *PlanDiff) sample(a, b *side) {
	e := &d.evidence
	e.recs = [2]int{len(a.recs), len(b.recs)}
	e.paired, e.apartInTime = inTurn(a, b), apartInTime(a, b)
	per := [2]int{}
	for i, s := range []*side{a, b} {
		per[i] = max(2, (maxBlocks+len(s.recs)-1)/len(s.recs))
		for _, r := range s.recs {
			per[i] = min(per[i], len(r.samples.Wall))
		}
		if per[i] == 0 {
			return
		}
	}
	for k, rows := range [][]Diff{d.Kinds, d.Steps} {
		for i := range rows {
			r := &rows[i]
			if len(r.a) == 0 || len(r.b) == 0 {
				continue
			}
			y := rowYard(a, b, r)
			e.rows = append(e.rows, evidenceRow{diff: r, kind: k == 0, x: [2][]float64{a.blocks(r.a, y, per[0]), b.blocks(r.b, y, per[1])}})
		}
	}
	e.wait = [2][]float64{a.waits(per[0]), b.waits(per[1])}
	d.takeCommon()
	if e.paired {
		for i := range e.rows {
			e.align(&e.rows[i].x)
		}
		e.align(&e.common)
		e.align(&e.wait)
	}
}

// inTurn reports whether the recordings of two sides were made in turn, one of
// each after another in whichever order, and puts them into the order in which
// they were made.
func inTurn(a, b *side) bool {
	n := len(a.recs)
	if n < 2 || n != len(b.recs) {
		return false
	}
	for _, s := range []*side{a, b} {
		slices.SortStableFunc(s.recs, func(x, y recording) int { return x.made.Compare(y.made) })
	}
	for i := range n - 1 {
		x, y := a.recs[i], b.recs[i]
		if last := later(x.made, y.made); !last.Before(a.recs[i+1].made) || !last.Before(b.recs[i+1].made) {
			return false
		}
	}
	return true
}

// apartInTime reports whether all recordings of one side were made before those
// of the other: what the machine did between them is then in no side's spread.
func apartInTime(a, b *side) bool {
	bounds := func(s *side) (first, last time.Time) {
		first, last = s.recs[0].made, s.recs[0].made
		for _, r := range s.recs {
			if r.made.Before(first) {
				first = r.made
			}
			last = later(last, r.made)
		}
		return first, last
	}
	firstA, lastA := bounds(a)
	firstB, lastB := bounds(b)
	return lastA.Before(firstB) || lastB.Before(firstA)
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// align takes off what the two recordings of a pair have in common: how fast
// the machine was at that time, for this row too. What is left is ranked as it
// is where nothing was taken off, which is Hodges and Lehmann's aligned test.
func (e *evidence) align(x *[2][]float64) {
	n := e.recs[0]
	part := func(side, r int) []float64 { return x[side][len(x[side])*r/n : len(x[side])*(r+1)/n] }
	all := 0.0
	for r := range n {
		all += (median(part(0, r)) + median(part(1, r))) / 2 / float64(n)
	}
	for r := range n {
		level := (median(part(0, r))+median(part(1, r)))/2 - all
		for side := range x {
			for i := range part(side, r) {
				part(side, r)[i] -= level
			}
		}
	}
}

// units is how many values the side with fewer of them has.
func (e *evidence) units() int { return min(len(e.wait[0]), len(e.wait[1])) }

// repeated reports whether both sides have several recordings, which then show
// themselves how far two of one build lie apart.
func (e *evidence) repeated() bool { return min(e.recs[0], e.recs[1]) > 1 }

// apart is the distance of each recording's median from its side's, over both
// sides.
func (e *evidence) apart(x [2][]float64) []float64 {
	var out []float64
	for side, v := range x {
		n := e.recs[side]
		mids := make([]float64, n)
		for r := range mids {
			mids[r] = median(v[len(v)*r/n : len(v)*(r+1)/n])
		}
		m := 0.0
		for _, x := range mids {
			m += x / float64(n)
		}
		grow := math.Sqrt(float64(n) / float64(max(1, n-1)))
		if e.paired { // what a pair differs by lies half on each side
			grow *= math.Sqrt2
		}
		for _, x := range mids {
			out = append(out, (x-m)*grow)
		}
	}
	return out
}

// free is how many distances of apart say something that the others do not: each
// side's add up to none, and those of a pair are the same twice.
func (e *evidence) free() int {
	if e.paired {
		return e.recs[0] - 1
	}
	return e.recs[0] + e.recs[1] - 2
}

// averaged is how much less the mean of a side's recordings strays than one.
func (e *evidence) averaged() float64 {
	return math.Sqrt(1/float64(e.recs[0]) + 1/float64(e.recs[1]))
}

// takeCommon finds what all kinds have in common and takes it off every row.
// Each kind has one vote, however long it takes: where the matrix product alone
// gets slower, most of the time changes and yet only one kind.
func (d *PlanDiff) takeCommon() {
	e := &d.evidence
	var voters []*evidenceRow
	for i := range e.rows {
		if r := &e.rows[i]; r.kind && r.diff.Before >= voteShare*d.Total.Before {
			r.votes = true
			voters = append(voters, r)
		}
	}
	e.votes = len(voters)
	for side := range e.common {
		e.common[side] = make([]float64, len(e.wait[side]))
		for b := range e.common[side] {
			var votes []float64
			for _, r := range voters {
				votes = append(votes, r.x[side][b]-median(r.x[0]))
			}
			e.common[side][b] = median(votes)
		}
	}
	if e.votes < fewVotes { // nothing to tell the machine from the kinds
		return
	}
	for i := range e.rows {
		for side := range e.common {
			for b, m := range e.common[side] {
				e.rows[i].x[side][b] -= m
			}
		}
	}
}

// judge gives every row its verdict. machine is how far the machine's ceilings
// moved between the recordings.
func (c *Comparison) judge(machine float64) {
	// Kinds are few and steps many: were they one family, the correction for the
	// steps would hide the kinds. Each has half of the probability.
	var families [2][]*Diff
	for i := range c.Plans {
		kinds, steps := c.Plans[i].test(machine)
		families[0] = append(families[0], kinds...)
		families[1] = append(families[1], steps...)
	}
	for _, tested := range families {
		p := make([]float64, len(tested))
		for i, d := range tested {
			p[i] = d.P
		}
		for i, h := range Holm(p) {
			d := tested[i]
			d.Holm = min(1, float64(len(families))*h)
			if d.Holm < Alpha {
				d.settle()
			}
		}
	}
	needed := SamplesFor(len(families) * len(families[0]))
	for i := range c.Plans {
		if d := &c.Plans[i]; d.evidence.units() < needed {
			c.warn("plan %q: %d and %d runs are too few to call a time different, which needs %d of each", d.ID, d.Runs[0], d.Runs[1], needed)
			for _, r := range d.evidence.rows {
				if r.diff.Verdict == Same {
					r.diff.Verdict = Untested
				}
			}
		}
		d := &c.Plans[i]
		for _, rows := range [][]Diff{d.Kinds, d.Steps, {d.Wait}} {
			for k := range rows {
				rows[k].countWork(d.rebatched)
			}
		}
	}
}

// test fills Percent, its interval, Noise and P of a plan's rows, and lists those
// that it tested: kinds and what concerns all of them, and single steps.
func (d *PlanDiff) test(machine float64) (kinds, steps []*Diff) {
	e := &d.evidence
	d.Common = Diff{Name: "(all steps)", Layer: -1, Verdict: Same, Before: d.Total.Before - d.Wait.Before, After: d.Total.After - d.Wait.After,
		Work: d.Total.Work, Efficiency: d.Total.Efficiency}
	d.Wait.Verdict = Same
	if e.units() == 0 {
		return nil, nil
	}
	measure := func(r *Diff, a, b []float64, margin float64, percent func(float64) float64) {
		mid, low, high := shift(a, b)
		r.Percent, r.Noise = percent(mid), percent(margin)
		if low, high = percent(low), percent(high); intervals(len(a), len(b)) {
			r.Low, r.High = &low, &high
		}
		r.P = mannWhitney(a, b, margin)
		if r.Verdict == "" {
			r.Verdict = Same
		}
		r.base = r.Before + r.Work - r.waited
	}
	growth := func(log float64) float64 { return 100 * math.Expm1(log) }
	apart := e.machineMargin(machine)
	if e.votes >= fewVotes {
		measure(&d.Common, e.common[0], e.common[1], apart, growth)
		kinds = append(kinds, &d.Common)
		apart = 0
	}
	ofKinds, ofSteps := e.luck()
	for i := range e.rows {
		r := &e.rows[i]
		margin := ofKinds
		if r.kind {
			kinds = append(kinds, r.diff)
		} else {
			steps = append(steps, r.diff)
			margin = math.Hypot(ofKinds, ofSteps)
		}
		measure(r.diff, r.x[0], r.x[1], max(leastMargin, margin, apart), growth)
	}
	wait := max(waitFloor, 3*math.Hypot(spread(e.wait[0]), spread(e.wait[1])))
	measure(&d.Wait, e.wait[0], e.wait[1], wait, func(share float64) float64 { return 100 * share })
	d.Wait.base = d.Total.Before
	return append(kinds, &d.Wait), steps
}

// machineMargin is by how much two recordings of one build may differ in all
// steps alike.
func (e *evidence) machineMargin(machine float64) float64 {
	if e.repeated() {
		var squares float64
		for _, v := range e.apart(e.common) {
			squares += v * v
		}
		margin := studentLimit(e.free()) * math.Sqrt(squares/float64(e.recs[0]+e.recs[1])) * e.averaged()
		if !e.apartInTime {
			return margin
		}
		return max(margin, commonFloor+machine)
	}
	return commonFloor + machine + 3*math.Hypot(spread(e.common[0]), spread(e.common[1]))
}

// studentLimit is Student's t at a two-sided probability of 1 in 200.
func studentLimit(free int) float64 {
	table := []float64{0, 127.3, 14.09, 7.45, 5.60, 4.77, 4.32, 4.03, 3.83, 3.69, 3.58}
	if free < len(table) {
		return table[free]
	}
	return 3.5
}

// settle says which way a significant difference goes.
func (d *Diff) settle() {
	d.Verdict = Slower
	if d.Percent < 0 {
		d.Verdict = Faster
	}
	d.sure = d.base * d.Percent / 100
}

// countWork says that a row has more or less to do, which is counted and needs
// no statistics. It is its verdict where nothing else is said of it.
func (d *Diff) countWork(rebatched bool) {
	differs := func(v [2]int64) bool { return math.Abs(float64(v[1]-v[0])) > leastWork*float64(v[0]) }
	if !differs(d.FLOPs) && (rebatched || !differs(d.Bytes)) && d.Verdict != OnlyA && d.Verdict != OnlyB {
		return
	}
	d.counted = d.Work
	if d.Verdict != Same && d.Verdict != Untested {
		return
	}
	d.Verdict = MoreWork
	if cmp.Or(cmp.Compare(d.Work, 0), cmp.Compare(d.FLOPs[1], d.FLOPs[0]), cmp.Compare(d.Bytes[1], d.Bytes[0])) < 0 {
		d.Verdict = LessWork // of bytes, it may take no time off where FLOPs are the limit
	}
}
