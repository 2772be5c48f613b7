package compare

import (
	"math"
	"slices"

	"hotpath/internal/stats"
	"hotpath/internal/student"
)

// How differences are separated from noise.
//
// Two recordings of one build differ for four reasons: each run differs from the
// next; the machine drifts, so that neighbouring runs are alike; the whole
// machine was faster or slower during one of the recordings; and single steps
// were luckier in one of them, because of the placement of their pages. A test of
// single runs allows only for the first reason. Therefore:
//
//   - Steps are compared by their time on a processor, call by call. What other
//     programs take is counted as waiting: it may be a hundred times as long as the
//     call that it interrupts, so that no tail would be seen beside it.
//   - A recording is cut into blocks. The median, the mean and the 95th percentile of
//     blocks are compared.
//   - With several recordings per side, their spread is the error. If they were
//     recorded alternately, the two of a pair are compared, so that effects of the
//     machine on both cancel. One row has few recordings, so its variance is
//     moderated by the variance of the other rows.
//   - With one recording per side, the spread of the other rows is the error: an op
//     must differ by more than ops do, a layer by more than layers, a step by more
//     than the same step of the other layers.
//   - The common change of all ops is judged separately, and reported if it is real.
//     An op is compared with the other ops of the same block: what the machine does
//     to all of them cancels, and the op's own change has no part in what is
//     subtracted from it. A layer is compared with the other layers in the same way.
//   - Student's distribution gives interval and probability, with the degrees of
//     freedom of the error. Holm's method corrects for the number of tests.
const (
	maxBlocks   = 12    // of a recording
	leastBlocks = 8     // of a side, to call anything different
	leastMargin = 0.01  // smaller differences are never reported
	commonFloor = 0.35  // one recording per side cannot tell a slow hour from a slow build below this
	waitMargin  = 0.005 // of a run's time: smaller differences of waits are never reported
	waitFloor   = 0.02  // the same for one recording per side: waits of one build differ by this much
	voteShare   = 0.001 // of a run's time: shorter rows have no vote
	fewVotes    = 3
	// falseAlarms is the probability, over all tests of a comparison, to call a
	// difference real where there is none.
	falseAlarms = 0.01
	// nearlyFalse is the same for what the summary names as near to a difference.
	nearlyFalse = 0.2
	// medianVariance is the variance of a median of normal values over that of their
	// mean.
	medianVariance = math.Pi / 2
	// mostNoise is where noise and intervals end, in per cent. Few values have tails
	// of any length, and a bound of a million per cent tells nobody more.
	mostNoise = 1000
	// moderation is how many degrees of freedom the other rows count for at most
	// in the variance of a row.
	moderation = 8
)

// shiftOf is the difference of a row between the sides, with its variance and the
// degrees of freedom of that variance.
type shiftOf struct{ mid, variance, freedom float64 }

// shift estimates the difference from the blocks of one measure. With one recording
// per side the variance is that of blocks within a recording, which does not contain
// the difference between recordings of one build.
func (e *evidence) shift(m Measure, x [2][][]float64) shiftOf {
	if !e.repeated() {
		a, b := slices.Concat(x[0]...), slices.Concat(x[1]...)
		freedom := float64(len(a) + len(b) - 2)
		if m == Mean { // a mean has all of the time in it, however rare
			s := shiftOf{logMean(b) - logMean(a), logMeanVariance(a) + logMeanVariance(b), freedom}
			// A difference that a single block causes is not a change: an interruption
			// may be a hundred times as long as the step that it interrupts.
			s.variance += sq(s.mid - (logMean(withoutMax(b)) - logMean(withoutMax(a))))
			return s
		}
		mid, sd := hodgesLehmann(a, b)
		return shiftOf{mid, sd * sd, freedom}
	}
	center := stats.Median
	if m == Mean {
		center = logMean
	}
	var mids [2][]float64
	for side, recs := range x {
		for _, r := range recs {
			mids[side] = append(mids[side], center(r))
		}
	}
	n, k := float64(len(mids[0])), float64(len(mids[1]))
	if e.paired {
		d := make([]float64, len(mids[0]))
		for i := range d {
			d[i] = mids[1][i] - mids[0][i]
		}
		return shiftOf{mean(d), squares(d) / (n - 1) / n, n - 1}
	}
	each := (squares(mids[0]) + squares(mids[1])) / (n + k - 2) // the variance of one recording
	if e.apartInTime {
		n, k = 1, 1 // neighbours in time are correlated: together they count as one
	}
	return shiftOf{mean(mids[1]) - mean(mids[0]), each * (1/n + 1/k), float64(len(mids[0]) + len(mids[1]) - 2)}
}

// oneTest is one measure of one row.
type oneTest struct {
	row    *Diff
	change *Change
}

// judge gives every row its verdict. machine is how far the machine's ceilings
// moved between the recordings.
func (c *Comparison) judge(machine float64, work workCount) {
	// Kinds are few and steps many: were they one family, the correction for the
	// steps would hide the kinds. Each level has its part of the probability.
	var families [levels][]oneTest
	for i := range c.Plans {
		for l, tests := range c.Plans[i].test(machine) {
			families[l] = append(families[l], tests...)
		}
	}
	for _, tests := range families {
		p := make([]float64, len(tests))
		for i, t := range tests {
			p[i] = t.change.P
		}
		for i, h := range Holm(p) {
			tests[i].change.correct(h, c.families())
		}
	}
	c.judgeScopes()
	c.judgeAmounts()
	c.judgeLanes()
	for i := range c.Plans {
		d := &c.Plans[i]
		few := d.evidence.units() < leastBlocks
		if few {
			c.warn("plan %q: %d and %d runs are too few to call a time different, which needs %d of each", d.ID, d.Runs[0], d.Runs[1], leastBlocks)
		}
		for _, r := range []*Diff{&d.Wait, &d.Common, &d.Total} {
			r.conclude(few)
		}
		for k := range d.Waits {
			d.Waits[k].conclude(few)
		}
		for _, rows := range [][]Diff{d.Kinds, d.Places, d.Layers, d.Steps} {
			for k := range rows {
				rows[k].conclude(few)
				rows[k].countWork(work[d.Phase])
			}
		}
	}
}

// families is how many families of tests there are: those of rows, scopes, amounts of
// whole recordings, and lanes of steps, if these were tested. They share falseAlarms.
func (c *Comparison) families() float64 {
	n := float64(levels) // places and layers are one family
	uneven := slices.ContainsFunc(c.Uneven, func(d UnevenDiff) bool { return d.Verdict != Untested })
	if uneven || slices.ContainsFunc(c.Ledger, func(d LedgerDiff) bool { return d.Verdict != Untested }) ||
		slices.ContainsFunc(slices.Concat(c.Faults, c.GoHeap), func(d CountDiff) bool { return d.Verdict != Untested }) {
		n++
	}
	if uneven {
		n++
	}
	return n
}

// correct takes a probability that is corrected for the number of tests of its
// family, corrects it for the number of families, and gives the verdict.
func (c *Change) correct(p, families float64) {
	if c.Holm = min(1, families*p); c.Holm >= falseAlarms {
		return
	}
	c.Verdict = Slower
	if c.Percent < 0 {
		c.Verdict = Faster
	}
}

// conclude is the verdict of a row from those of its measures. The total time
// counts first, then the usual one, then the slowest runs.
func (d *Diff) conclude(few bool) {
	switch {
	case d.Verdict != Same:
	case d.Mean.judged():
		d.Verdict = d.Mean.Verdict
	case d.Median.judged():
		d.Verdict = d.Median.Verdict
	case d.P95.Verdict == Slower:
		d.Verdict = SlowerTail
	case d.P95.Verdict == Faster:
		d.Verdict = FasterTail
	case few || !d.tested:
		d.Verdict = Untested
	}
	for m := range measures {
		if c := d.Of(m); !d.tested {
			c.P, c.Holm = 1, 1 // 0 would say that it is certain
		}
	}
}

// test fills the changes of a plan's rows, and lists those that it tested by
// level.
func (d *PlanDiff) test(machine float64) (tests [levels][]oneTest) {
	e := &d.evidence
	if e.units() == 0 {
		return tests
	}
	enough := e.units() >= leastBlocks
	take := func(l level, row *Diff, m Measure, s shiftOf, floor float64, percent func(float64) float64) {
		row.tested = true
		c := row.Of(m)
		if c.measure(s, floor, percent, enough); enough {
			tests[l] = append(tests[l], oneTest{row, c})
		}
	}
	growth := func(log float64) float64 { return 100 * math.Expm1(log) }
	points := func(share float64) float64 { return 100 * share }
	d.Wait.base, d.Total.base, d.Common.base = d.Total.Before, d.Total.Before+d.Total.Work, d.Common.Before+d.Common.Work
	for i := range e.rows {
		r := e.rows[i].diff
		r.base = r.Before + r.Work - r.waited
	}
	agreed := e.agreed()
	d.Whole, d.WholeLayers = !agreed[ofKinds], !agreed[ofLayers]
	for m := range measures {
		// Whether the machine or the build got slower is known from several
		// recordings in turn alone.
		floor := func(x [2][][]float64, least, unknown float64) float64 {
			if e.repeated() && !e.apartInTime {
				return least
			}
			return max(least, unknown) + 3*math.Hypot(stats.Spread(slices.Concat(x[0]...)), stats.Spread(slices.Concat(x[1]...)))
		}
		of := func(x [2][][]float64) shiftOf {
			s := e.shift(m, x)
			s.freedom = min(s.freedom, moderation) // neighbours in time are alike
			return s
		}
		take(ofAll, &d.Total, m, of(e.total[m]), floor(e.total[m], leastMargin, commonFloor+machine+e.busyGrowth), growth)
		take(ofAll, &d.Wait, m, of(e.wait[m]), floor(e.wait[m], waitMargin, waitFloor+e.busyShare), points)
		for k := range d.Waits {
			d.Waits[k].base = d.Total.Before
			take(ofAll, &d.Waits[k], m, of(e.waits[k][m]), floor(e.waits[k][m], waitMargin, waitFloor+e.busyShare), points)
		}
		apart := floor(e.shifts[ofKinds][m], leastMargin, commonFloor+machine)
		if e.votes[ofKinds] >= fewVotes {
			common := e.shifts[ofKinds][m]
			if !agreed[ofKinds] {
				common = e.whole[ofKinds][m]
			}
			take(ofAll, &d.Common, m, of(common), apart, growth)
			apart = leastMargin
		}
		shifts := e.rowShifts(m, agreed)
		luck := e.luck(shifts, agreed)
		var doubt [levels]float64 // variance of what the other rows have in common
		for l, to := range map[level]*[measures]float64{ofKinds: &d.Shift, ofLayers: &d.LayerShift} {
			if e.votes[l] < fewVotes || !agreed[l] {
				continue
			}
			doubt[l] = medianVariance * luck[l].others() / float64(e.votes[l]-1)
			s := e.within(m, e.shifts[l][m])
			s.variance += luck[l].others() / float64(e.votes[l])
			if enough && student.Tail(s.mid/math.Sqrt(s.variance), s.freedom) < falseAlarms {
				to[m] = growth(s.mid)
			}
		}
		for i := range e.rows {
			r := &e.rows[i]
			if r.outsideLayers() || r.level == ofLayers && e.votes[ofLayers] < fewVotes {
				continue // nothing to hold a layer against
			}
			s := luck[r.level].moderated(shifts[i], i)
			if r.level >= ofSteps {
				s = s.plus(varianceOf(luck[ofKinds].squares))
				if !e.repeated() { // steps are hit one by one: luck has longer tails than Student's
					s.freedom = min(s.freedom, moderation)
				}
			}
			if s.freedom <= 0 {
				if apart == leastMargin {
					continue // nothing is known of luck
				}
				s.freedom = moderation // the floor holds it
			}
			s.variance += doubt[r.level.common()]
			family := r.level
			if family == ofPlaces {
				family = ofLayers // a few tests more: kinds, the fewest, shall not pay for them
			}
			take(family, r.diff, m, s, apart, growth)
		}
	}
	return tests
}

// agreed reports for kinds and layers whether what the median of them did was common to
// all: the recordings do not show that it did anything, or rows with most of the time moved
// like that. A row may be short, and what happens to three short ones is not the machine's;
// nor is what one row that changed makes of the time of all. Only recordings in turn can
// tell, because then the machine is the same for both sides on average. Kinds depend on the
// size of batches each in its own way, so they have nothing in common where batches differ.
// All measures have one answer, because rows are sums and a table has one note.
func (e *evidence) agreed() (out [levels]bool) {
	for _, l := range []level{ofKinds, ofLayers} {
		out[l] = true
		for m := range measures {
			common := e.shifts[l][m]
			ok := e.votes[l] < fewVotes || !e.resized && (!e.repeated() || e.apartInTime || !e.far(m, common, falseAlarms) || e.movedLike(m, l, e.shift(m, common).mid))
			out[l] = out[l] && ok
		}
	}
	return out
}

// far reports whether the recordings show that something moved; chance is the probability
// to say so if nothing did.
func (e *evidence) far(m Measure, x [2][][]float64, chance float64) bool {
	s := e.shift(m, x)
	return math.Abs(s.mid) > student.Quantile(chance, s.freedom)*math.Sqrt(s.variance)
}

// movedLike reports whether voters of a level with at least half of their time moved in
// the same direction as common did, and at least half as far.
func (e *evidence) movedLike(m Measure, l level, common float64) bool {
	var moved, all float64
	for i := range e.rows {
		if r := &e.rows[i]; r.votes && r.level == l {
			if by := e.shift(m, r.whole[m]).mid; by*common > 0 && math.Abs(by) >= math.Abs(common)/2 {
				moved += r.diff.Before
			}
			all += r.diff.Before
		}
	}
	return moved >= all/2
}

// within is the shift between these recordings, whatever its cause. Its variance is
// that of the blocks within them.
func (e *evidence) within(m Measure, x [2][][]float64) shiftOf {
	out := shiftOf{mid: e.shift(m, x).mid, freedom: moderation}
	for _, recs := range x {
		for _, r := range recs {
			out.variance += medianVariance * sq(stats.Spread(r)) / float64(len(r)) / sq(float64(len(recs)))
		}
	}
	return out
}

// plus adds another source of error. The degrees of freedom of the sum are Welch
// and Satterthwaite's.
func (s shiftOf) plus(variance, freedom float64) shiftOf {
	if variance == 0 || freedom == 0 {
		return s
	}
	sum := s.variance + variance
	if s.freedom > 0 {
		s.freedom = sum * sum / (s.variance*s.variance/s.freedom + variance*variance/freedom)
	}
	s.variance = sum
	return s
}

// rowShifts are the shifts of all rows in one measure: beyond what all have in common
// where that is agreed.
func (e *evidence) rowShifts(m Measure, agreed [levels]bool) []shiftOf {
	out := make([]shiftOf, len(e.rows))
	for i := range e.rows {
		r := &e.rows[i]
		x := &r.x
		if !agreed[r.level.common()] {
			x = &r.whole
		}
		out[i] = e.shift(m, x[m])
	}
	return out
}

// measure fills a change. A difference below the floor does not count. The interval
// contains the floor and the standard error.
func (c *Change) measure(s shiftOf, floor float64, percent func(float64) float64, enough bool) {
	deviation := math.Sqrt(s.variance)
	c.Percent, c.Verdict, c.P, c.Holm = percent(s.mid), Same, 1, 1
	if !enough {
		return
	}
	c.Noise = min(mostNoise, percent(floor+student.Quantile(falseAlarms, s.freedom)*deviation))
	half := math.Hypot(student.Quantile(0.05, s.freedom)*deviation, floor)
	low, high := percent(s.mid-half), min(max(mostNoise, c.Percent), percent(s.mid+half))
	c.Low, c.High = &low, &high
	if beyond := math.Abs(s.mid) - floor; beyond > 0 {
		c.P = 0
		if deviation > 0 {
			c.P = student.Tail(beyond/deviation, s.freedom)
		}
	}
}
