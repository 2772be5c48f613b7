package compare

import (
	"math"
	"slices"
	"time"

	"hotpath/internal/stats"
	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// MeasureOverhead computes the overhead from pairs of the same work with and
// without recording. Pairs with a time of 0 are left out.
func MeasureOverhead(with, without []time.Duration) profile.Overhead {
	var o profile.Overhead
	var ratios []float64
	for i := range min(len(with), len(without)) {
		if with[i] > 0 && without[i] > 0 {
			o.With += int64(with[i])
			o.Without += int64(without[i])
			ratios = append(ratios, table.Percent(int64(with[i]-without[i]), int64(without[i])))
		}
	}
	if o.Runs = len(ratios); o.Runs == 0 {
		return o
	}
	slices.Sort(ratios)
	mid := stats.MedianSorted(ratios)
	o.Median = &mid
	if rank := medianRank(o.Runs); rank >= 0 {
		o.Interval = &[2]float64{ratios[rank], ratios[o.Runs-1-rank]}
	}
	return o
}

// medianRank is the highest rank, from 0, that the true median of n independent
// values is above with 97.5 per cent; -1 where even the lowest is not.
func medianRank(n int) int {
	all, _ := math.Lgamma(float64(n + 1))
	below := 0.0
	for rank := range n {
		in, _ := math.Lgamma(float64(rank + 1))
		out, _ := math.Lgamma(float64(n - rank + 1))
		if below += math.Exp(all - in - out - float64(n)*math.Ln2); below > 0.025 {
			return rank - 1
		}
	}
	return -1
}
