package engine

import (
	"math"
	"slices"
)

// tally sums up comparisons of two ways by the mean of their logarithms: single
// ones are off by a tenth, and ways differ by less. How far one moves the mean is
// bounded, as any may have met with an accident. Three in a row that are clearly
// beyond it on one side are a change of the machine, and all before is forgotten.
type tally struct {
	mean float64    // of the logarithm of the ratio
	n    int        // comparisons
	last [3]float64 // of loads that are alike, the newest one last
}

const (
	tallyMost   = 12   // comparisons count, the last ones
	tallyLoose  = 32   // where they rely on estimates
	tallyBound  = 0.3  // is how far from the mean a comparison counts
	tallyClear  = 0.15 // away from the mean three in a row are a change
	averageMost = 16   // values make an average
)

func (s *tally) add(ratio float64, loose bool) {
	x := math.Log(max(ratio, 1e-12))
	s.n++
	if loose { // by loads that take half their estimate or twice: all count
		s.mean += (x - s.mean) / float64(min(s.n, tallyLoose))
		return
	}
	s.last[0], s.last[1], s.last[2] = s.last[1], s.last[2], x
	low, high := slices.Min(s.last[:]), slices.Max(s.last[:])
	switch {
	case s.n < len(s.last):
		s.mean += (x - s.mean) / float64(s.n)
	case s.n == len(s.last) || low > s.mean+tallyClear || high < s.mean-tallyClear:
		s.mean, s.n = s.last[0]+s.last[1]+s.last[2]-low-high, len(s.last)
	default:
		s.mean += min(max(x-s.mean, -tallyBound), tallyBound) / float64(min(s.n, tallyMost))
	}
}

// ratio is what apart takes of its estimate, over what all take of theirs.
func (s *tally) ratio() float64 { return math.Exp(s.mean) }

// average is the geometric mean of the last values, about.
type average struct {
	mean float64 // of their logarithms
	n    int
}

func (a *average) add(v float64) {
	a.n++
	a.mean += (math.Log(max(v, 1e-12)) - a.mean) / float64(min(a.n, averageMost))
}

func (a *average) value() float64 { return math.Exp(a.mean) }
