package compare

import (
	"cmp"
	"slices"
)

// Alpha is the probability, over all tests of a comparison of benchmarks, to
// call a difference real where there is none.
const Alpha = 0.05

// Holm corrects probabilities for their number by Holm's method, which controls the
// family-wise error rate.
func Holm(p []float64) []float64 {
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

// SamplesFor is how many independent values of each side the U test needs
// before any difference can be called real among so many tests: from there on
// the least probability that it can give, 2 of all the ways to divide the
// values, stays below [Alpha] after the correction.
func SamplesFor(tests int) int {
	n, ways := 1, 2.0 // 2n over n
	for 2*float64(tests)/ways >= Alpha {
		n++
		ways *= float64(2*(2*n-1)) / float64(n)
	}
	return n
}
