package compare

import (
	"math"
	"slices"
	"time"

	"hotpath/internal/stats"
	"hotpath/profile"
)

// evidence is what a plan's tests are made from.
type evidence struct {
	recs   [2]int // recordings, the fewer blocks of each the more there are
	rows   []evidenceRow
	shifts [levels]blockValues // what the rows of a level have in common
	wait   blockValues
	waits  []blockValues // [PlanDiff.Waits]
	total  blockValues
	whole  [levels]blockValues // the voters of a level together, by their time
	votes  [levels]int         // rows of a level that said what they have in common
	// paired recordings were made in turn, the k-th of A beside the k-th of B.
	paired      bool
	apartInTime bool // all of one side were made before any of the other
	resized     bool // the sides have other batches
	// By how much the sides differ in time without a processor: in shares of lane time, and
	// as the logarithm of what that makes of a run's time.
	busyShare, busyGrowth float64
}

// blockValues are a row's blocks: logarithms of time for work, but for waits,
// which are shares.
type blockValues [measures][2][][]float64 // [measure][side][recording][block]

func (x *blockValues) clone() (out blockValues) {
	for m := range x {
		for side, recs := range x[m] {
			for _, blocks := range recs {
				out[m][side] = append(out[m][side], slices.Clone(blocks))
			}
		}
	}
	return out
}

// level is the kind of a row: run, op, layer or step.
type level int

const (
	ofAll level = iota // whole runs, what all steps have in common, waits
	ofKinds
	ofLayers
	ofSteps  // have in common what kinds have
	ofPlaces // the same
	levels
)

// evidenceRow is the blocks of one row.
type evidenceRow struct {
	diff  *Diff
	level level
	votes bool // on what all rows of its level have in common
	x     blockValues
	whole blockValues // x before what rows have in common was subtracted
}

// sample takes the evidence from both sides while they are at hand. resized: the sides
// have other batches. If these differ by timing alone, times are compared at equal size.
func (d *PlanDiff) sample(a, b *side, resized bool) {
	e := &d.evidence
	e.resized = resized
	e.paired, e.apartInTime = inTurn(a, b), apartInTime(a, b)
	sides := sampled(a, b, e.paired)
	e.busyShare, e.busyGrowth = busyShift(sides[0], sides[1])
	per := [2]int{}
	for i, s := range sides {
		if len(s.recs) == 0 {
			return
		}
		per[i] = max(2, (maxBlocks+len(s.recs)-1)/len(s.recs))
		for _, r := range s.recs {
			per[i] = min(per[i], len(r.samples.Wall))
		}
	}
	e.recs = [2]int{len(sides[0].recs), len(sides[1].recs)}
	take := func(x *blockValues, row func(side int, r *recording) [measures][]float64) {
		for i, s := range sides {
			for k := range s.recs {
				for m, v := range row(i, &s.recs[k]) {
					x[m][i] = append(x[m][i], v)
				}
			}
		}
	}
	// timed reads the blocks of rows whose time depends on the batch.
	timed := func(x *blockValues, row func(side int, r *recording, size sizeEffect) rowSample) {
		var size sizeEffect
		if !resized {
			size = newSizeEffect(sides, func(i int, r *recording) []float64 { return row(i, r, sizeEffect{}).perRun() })
		}
		take(x, func(i int, r *recording) [measures][]float64 { return row(i, r, size).blocks(per[i]) })
	}
	for k, rows := range [][]Diff{d.Kinds, d.Layers, d.Steps, d.Places} {
		for i := range rows {
			r := &rows[i]
			if len(r.a) == 0 || len(r.b) == 0 {
				continue
			}
			row := evidenceRow{diff: r, level: ofKinds + level(k)}
			y, steps := rowYard(a, b, r), [2][]int{r.a, r.b}
			timed(&row.x, func(i int, rec *recording, size sizeEffect) rowSample { return rec.sampleRow(steps[i], y, size) })
			r.tailOver = math.Exp(stats.Median(slices.Concat(row.x[Tail][0]...)) - stats.Median(slices.Concat(row.x[Mean][0]...)))
			e.rows = append(e.rows, row)
		}
	}
	timed(&e.total, func(_ int, rec *recording, size sizeEffect) rowSample { return rec.wallRow(a, size) })
	take(&e.wait, func(i int, r *recording) [measures][]float64 { return r.waits(len(sides[i].plan.Lanes), per[i]) })
	e.waits = make([]blockValues, len(d.Waits))
	for k := range d.Waits {
		steps := [2][]int{d.Waits[k].a, d.Waits[k].b}
		take(&e.waits[k], func(i int, r *recording) [measures][]float64 {
			return r.waitsBefore(steps[i], len(sides[i].plan.Lanes), per[i])
		})
	}
	var run []float64
	for _, r := range a.recs {
		for _, w := range r.samples.Wall {
			run = append(run, float64(w))
		}
	}
	slices.Sort(run)
	d.tail = stats.Quantile(run, tailQuantile)
	for i := range e.rows {
		e.rows[i].whole = e.rows[i].x.clone()
	}
	d.takeCommon(ofKinds)
	d.takeCommon(ofLayers)
}

// fewRuns of a plan in a recording prove nothing; recordings with fewer are left out.
const fewRuns = 4

// sampled returns the sides without the recordings that have too few runs of the
// plan, unless all have too few. The plan for a text may depend on the other
// texts of its batch, and a few runs prove nothing. If the sides are paired, both
// recordings of a pair are left out.
func sampled(a, b *side, paired bool) [2]*side {
	out := [2]*side{{plan: a.plan, ceilings: a.ceilings}, {plan: b.plan, ceilings: b.ceilings}}
	for i, s := range [2]*side{a, b} {
		for k, r := range s.recs {
			if len(r.samples.Wall) >= fewRuns && (!paired || len([2]*side{b, a}[i].recs[k].samples.Wall) >= fewRuns) {
				out[i].recs = append(out[i].recs, r)
			}
		}
	}
	if len(out[0].recs) == 0 || len(out[1].recs) == 0 {
		return [2]*side{a, b}
	}
	return out
}

// inTurn reports whether the recordings of two sides were made alternately, in pairs
// of one recording per side, and sorts them by time.
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
// of the other. Neither side's spread then contains what the machine did in
// between.
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

// wholeRecordings is the evidence of rows with one value per recording, and the
// recordings by time.
func wholeRecordings(a, b []*profile.Profile) (e evidence, sortedA, sortedB []*profile.Profile) {
	made := func(profiles []*profile.Profile) (*side, []*profile.Profile) {
		sorted := slices.SortedStableFunc(slices.Values(profiles), func(x, y *profile.Profile) int { return x.Created.Compare(y.Created) })
		s := &side{}
		for _, p := range sorted {
			s.recs = append(s.recs, recording{made: p.Created})
		}
		return s, sorted
	}
	sideA, sortedA := made(a)
	sideB, sortedB := made(b)
	return evidence{recs: [2]int{len(a), len(b)}, paired: inTurn(sideA, sideB), apartInTime: apartInTime(sideA, sideB)}, sortedA, sortedB
}

// units is how many blocks the side with fewer of them has.
func (e *evidence) units() int {
	count := func(side int) (n int) {
		for _, r := range e.wait[Median][side] {
			n += len(r)
		}
		return n
	}
	return min(count(0), count(1))
}

// repeated reports whether both sides have several recordings. Their spread then
// shows how much two recordings of one build differ.
func (e *evidence) repeated() bool { return min(e.recs[0], e.recs[1]) > 1 }

// takeCommon finds the change that all rows of a level have in common, block by
// block, and subtracts from each row what the others have in common: a row that
// changed must not vote on its own change. Each row has one vote, however long it
// takes: if only the matrix product gets slower, most of the time changes but
// only one kind of row.
func (d *PlanDiff) takeCommon(of level) {
	e := &d.evidence
	var voters []*evidenceRow
	for i := range e.rows {
		if r := &e.rows[i]; r.level == of && !r.outsideLayers() && r.diff.Before >= voteShare*d.Total.Before {
			r.votes = true
			voters = append(voters, r)
		}
	}
	e.votes[of] = len(voters)
	for m := range measures {
		before := make([]float64, len(voters)) // of A
		for i, r := range voters {
			before[i] = stats.Median(slices.Concat(r.x[m][0]...))
		}
		// series is the median of the votes of each block, with those of one voter left out, -1:
		// of none. middle is stats.Median, or the lower or upper of the two values in the middle.
		series := func(without int, middle func(votes []float64) float64) (out [2][][]float64) {
			for side := range out {
				for r, blocks := range e.wait[m][side] {
					shift := make([]float64, len(blocks))
					for b := range shift {
						votes := make([]float64, 0, len(voters))
						for i, v := range voters {
							if i != without {
								votes = append(votes, v.x[m][side][r][b]-before[i])
							}
						}
						shift[b] = middle(votes)
					}
					out[side] = append(out[side], shift)
				}
			}
			return out
		}
		e.shifts[of][m], e.whole[of][m] = series(-1, stats.Median), e.together(m, voters, before)
		if e.votes[of] < fewVotes { // nothing tells the machine from the rows
			continue
		}
		// The median of two other votes would follow one that changed.
		own := func(row *evidenceRow) int {
			if len(voters) <= fewVotes {
				return -1
			}
			return slices.IndexFunc(voters, func(v *evidenceRow) bool {
				return v == row || row.level.common() != row.level && v.diff.Name == row.diff.kind
			})
		}
		rest := map[int][2][][]float64{-1: e.shifts[of][m]}
		for i, v := range voters {
			rest[i] = series(i, stats.Median)
			// The others may be divided, half of them changed: then the row is compared with the
			// half that it moved with.
			if low, high := series(i, lowerMedian), series(i, upperMedian); e.divided(m, low, high) {
				moved := e.shift(m, v.whole[m]).mid
				if rest[i] = low; math.Abs(moved-e.shift(m, high).mid) < math.Abs(moved-e.shift(m, low).mid) {
					rest[i] = high
				}
			}
		}
		for i := range e.rows {
			if row := &e.rows[i]; row.level.common() == of {
				for side, recs := range rest[own(row)] {
					for r, blocks := range recs {
						for b, v := range blocks {
							row.x[m][side][r][b] -= v
						}
					}
				}
			}
		}
	}
}

// Of an even number of values the median is the mean of these two; of others both are the
// median.
func lowerMedian(v []float64) float64 { return slices.Sorted(slices.Values(v))[(len(v)-1)/2] }
func upperMedian(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// dividedBy is how far apart, as logarithms, the two values in the middle must move to say
// that rows are divided.
const dividedBy = 0.03

// divided reports whether the two values in the middle moved apart.
func (e *evidence) divided(m Measure, low, high [2][][]float64) bool {
	var apart [2][][]float64
	for side := range low {
		for r, blocks := range low[side] {
			by := make([]float64, len(blocks))
			for b, v := range blocks {
				by[b] = high[side][r][b] - v
			}
			apart[side] = append(apart[side], by)
		}
	}
	return e.shift(m, apart).mid > dividedBy && e.far(m, apart, nearlyFalse)
}

// together is the change of rows, block by block, as a mean by their time.
func (e *evidence) together(m Measure, rows []*evidenceRow, before []float64) (out [2][][]float64) {
	for side := range out {
		for r, blocks := range e.wait[m][side] {
			sums := make([]float64, len(blocks))
			var all float64
			for i, row := range rows {
				all += row.diff.Before
				for b := range sums {
					sums[b] += row.diff.Before * (row.x[m][side][r][b] - before[i])
				}
			}
			for b := range sums {
				sums[b] /= max(all, 1)
			}
			out[side] = append(out[side], sums)
		}
	}
	return out
}

// common is the level whose rows determine the common change of this level's
// rows.
func (l level) common() level {
	if l == ofLayers {
		return ofLayers
	}
	return ofKinds
}
