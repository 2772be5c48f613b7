package compare

import (
	"math"

	"hotpath/internal/stats"
)

// luck is how far rows of one level move apart without a cause, in one measure.
type luck struct {
	repeated bool
	joint    bool      // the rows still contain what they have in common
	rows     []int     // of the evidence
	squares  []float64 // [row]: squared distance beyond the noise of blocks, or variance over recordings
	freedom  float64   // of one row's variance
}

// luck estimates luck for each level. It uses the spread of recordings if there
// are several per side and the machine's effect is included. Otherwise it uses
// the spread of the level's rows.
func (e *evidence) luck(shifts []shiftOf, agreed [levels]bool) (out [levels]luck) {
	repeated := e.repeated() && !e.apartInTime
	groups := map[string][]float64{} // of like steps
	for i := range e.rows {
		if r := &e.rows[i]; r.level == ofSteps {
			groups[r.likeness()] = append(groups[r.likeness()], shifts[i].mid)
		}
	}
	for l := range out {
		out[l].repeated = repeated
		of := level(l).common()
		out[l].joint = e.votes[of] < fewVotes || !agreed[of]
	}
	for i := range e.rows {
		r, s := &e.rows[i], shifts[i]
		to := &out[r.level]
		switch {
		case r.level < ofSteps && !r.votes, r.level == ofPlaces && !repeated, r.outsideLayers():
			continue
		case repeated:
			to.squares = append(to.squares, s.variance)
			to.freedom = s.freedom
		case r.level != ofSteps:
			to.squares = append(to.squares, max(0, s.mid*s.mid-s.variance))
		case len(groups[r.likeness()]) < 3:
			continue
		default:
			like := groups[r.likeness()]
			d, n := s.mid-stats.Median(like), float64(len(like))
			to.squares = append(to.squares, max(0, d*d*n/(n-1)-s.variance))
		}
		to.rows = append(to.rows, i)
	}
	return out
}

// outsideLayers reports whether this is the row of the steps outside of all
// layers. No other row is comparable to it.
func (r *evidenceRow) outsideLayers() bool { return r.level == ofLayers && r.diff.Layer < 0 }

// likeness is what steps of different layers have in common.
func (r *evidenceRow) likeness() string { return r.diff.kind + "\x00" + r.diff.Op }

// others is the variance of one row by all of them.
func (l *luck) others() float64 {
	v, _ := varianceOf(l.squares)
	return v
}

// strange is how many times the others' variance a row's own is in one of a hundred
// rows by luck: the quantile of the chi-squared distribution over its degrees of
// freedom, by Wilson and Hilferty's formula. Beyond it, the row differs from the
// others, as one with few slow calls does.
func strange(freedom float64) float64 {
	v := 2 / (9 * freedom)
	root := 1 - v + 2.326*math.Sqrt(v)
	return root * root * root
}

// moderated is a row's shift with the variance that luck adds. The row itself is
// excluded from the estimate: its own change must not decide its error.
func (l *luck) moderated(s shiftOf, row int) shiftOf {
	var rest []float64
	for k, i := range l.rows {
		if i != row {
			rest = append(rest, l.squares[k])
		}
	}
	v, freedom := varianceOf(rest)
	if !l.repeated {
		// The variance of blocks is the row's own, that of luck the others'.
		if freedom == 0 {
			return shiftOf{s.mid, s.variance, 0}
		}
		// Blocks of one recording are not quite independent: they add no freedom.
		return shiftOf{s.mid, s.variance + v*(1+1/(freedom+1)), freedom}
	}
	v, prior := stats.Median(rest), min(moderation, float64(len(rest))*l.freedom)
	if s.variance > strange(s.freedom)*v {
		return s // a row that strays much further than the others is judged by itself
	}
	variance := (prior*v + s.freedom*s.variance) / (prior + s.freedom)
	if l.joint { // what the machine did is in all of them: together they know it no better than one
		return shiftOf{s.mid, variance, s.freedom}
	}
	return shiftOf{s.mid, variance, prior + s.freedom}
}
