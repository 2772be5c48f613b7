package bench

import (
	"cmp"
	"slices"
)

// holm corrects probabilities for their number, by Holm's method: the chance
// that any of the differences it lets through is none stays below the level.
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	out, floor := make([]float64, len(p)), 0.0
	for rank, i := range order {
		floor = max(floor, min(1, float64(len(p)-rank)*p[i]))
		out[i] = floor
	}
	return out
}

// samplesFor is the number of samples of each of two reports from which the
// least probability that the U test can give, 2 of all the ways to divide the
// samples, stays below Alpha after the correction for so many cases.
func samplesFor(cases int) int {
	n, ways := 1, 2.0 // 2n over n
	for 2*float64(cases)/ways >= Alpha {
		n++
		ways *= float64(2*(2*n-1)) / float64(n)
	}
	return n
}
