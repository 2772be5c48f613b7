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

// SamplesFor is the smallest number of independent values per side with which the U
// test can find a difference among this many tests. The smallest probability of the
// test is 2 divided by the number of ways to split the values into two sides; after
// the correction it must be below [Alpha].
func SamplesFor(tests int) int {
	n, ways := 1, 2.0 // 2n over n
	for 2*float64(tests)/ways >= Alpha {
		n++
		ways *= float64(2*(2*n-1)) / float64(n)
	}
	return n
}
