// Package stats has order statistics: medians and quantiles. Intervals and verdicts
// are in package experiment; bench uses the tests of significance of x/perf.
//
// It imports nothing of ours; whoever measures may import it.
package stats

import (
	"math"
	"slices"
)

// Median is the middle of v, or the mean of the two middle values; 0 of none. v
// stays as it is.
func Median(v []float64) float64 { return MedianSorted(slices.Sorted(slices.Values(v))) }

// MedianSorted is Median of values in order. It allocates nothing.
func MedianSorted(v []float64) float64 {
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Quantile interpolates between the values of v, which are in order: q is 0 for
// the first and 1 for the last.
func Quantile(v []float64, q float64) float64 { return Rank(v, q*float64(len(v)-1)) }

// Rank is the value at a place of v, which is in order; between two places it is
// interpolated. It is 0 of none.
func Rank(v []float64, at float64) float64 {
	if len(v) == 0 {
		return 0
	}
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// Spread is a standard deviation from the median distance to the median: outliers
// do not move it.
func Spread(v []float64) float64 {
	m := Median(v)
	d := make([]float64, len(v))
	for i, x := range v {
		d[i] = math.Abs(x - m)
	}
	return 1.4826 * Median(d)
}
