package profile

import (
	"math"
	"slices"
	"sync"
)

// mannWhitney is the two-sided probability of the U test that a and b come
// from one distribution, with b first moved by margin towards a: that they
// differ by more than that. Up to 50 values a side it is exact.
func mannWhitney(a, b []float64, margin float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	up := uOneSided(a, b, margin)   // b above a by more than margin
	down := uOneSided(b, a, margin) // b below a by more than margin
	return min(1, 2*min(up, down))
}

// uOneSided is the probability of a U as large as that of b-margin over a.
func uOneSided(a, b []float64, margin float64) float64 {
	var u float64
	for _, x := range a {
		for _, y := range b {
			switch y -= margin; {
			case y > x:
				u++
			case y == x:
				u += 0.5
			}
		}
	}
	n, m := len(a), len(b)
	if n > 50 || m > 50 {
		mean := float64(n*m) / 2
		sd := math.Sqrt(float64(n*m*(n+m+1)) / 12)
		return 0.5 * math.Erfc((u-0.5-mean)/sd/math.Sqrt2)
	}
	var above, all float64
	for i, ways := range uWays(n, m) {
		all += ways
		if float64(i) >= u {
			above += ways
		}
	}
	return above / all
}

// uWays counts, for each U, the orders of n and m values that have it. The
// orders of i and j values are built from those without the largest: where it is
// one of the j, it stands above all i.
func uWays(n, m int) []float64 {
	if w, ok := uKnown.Load([2]int{n, m}); ok {
		return w.([]float64)
	}
	ways := make([][]float64, n+1) // [i] for the current j
	for i := range ways {
		ways[i] = []float64{1}
	}
	for j := 1; j <= m; j++ {
		next := make([][]float64, n+1)
		next[0] = []float64{1}
		for i := 1; i <= n; i++ {
			next[i] = make([]float64, i*j+1)
			for u, w := range next[i-1] { // the largest is one of the i
				next[i][u] += w
			}
			for u, w := range ways[i] { // the largest is one of the j
				next[i][u+i] += w
			}
		}
		ways = next
	}
	uKnown.Store([2]int{n, m}, ways[n])
	return ways[n]
}

// uKnown has what uWays found: a comparison asks for the same sizes for every
// row. There are at most 50 times 50 of them.
var uKnown sync.Map

// shift is the Hodges-Lehmann estimate of how far b lies above a, with its 95
// per cent interval, which is one where intervals says so.
func shift(a, b []float64) (mid, low, high float64) {
	d := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			d = append(d, y-x)
		}
	}
	slices.Sort(d)
	n, m := float64(len(a)), float64(len(b))
	k := int(math.Floor(n*m/2 - 1.96*math.Sqrt(n*m*(n+m+1)/12)))
	k = min(max(k, 0), (len(d)-1)/2)
	return middle(d), d[k], d[len(d)-1-k]
}

// intervals reports whether n and m values have an interval of 95 per cent: of
// fewer, even the range of all differences holds less than that. The orders of
// the values that put all of one side above the other must be at most 2 in 40.
func intervals(n, m int) bool {
	orders := 1.0
	for i := 1; i <= min(n, m) && orders < 40; i++ {
		orders *= float64(max(n, m)+i) / float64(i)
	}
	return orders >= 40
}

// middle is the median of sorted values.
func middle(v []float64) float64 {
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

func median(v []float64) float64 { return middle(slices.Sorted(slices.Values(v))) }

// spread is a standard deviation from the median distance to the median:
// outliers, which may be what is looked for, do not move it.
func spread(v []float64) float64 {
	m := median(v)
	d := make([]float64, len(v))
	for i, x := range v {
		d[i] = math.Abs(x - m)
	}
	return 1.4826 * median(d)
}

// undisturbed is the quantile that stands for a block. What comes between a
// step and its end on a shared machine only ever makes it longer, so the lower
// quantiles are the step's own.
const undisturbed = 0.2

// blocks divides values in order of time into n parts and takes a quantile of
// each. Neighbours in time are alike on a shared machine, so single runs are no
// independent samples; blocks nearly are.
func blocks(v []float64, n int) []float64 {
	n = min(n, len(v))
	out := make([]float64, n)
	for i := range out {
		part := slices.Sorted(slices.Values(v[len(v)*i/n : len(v)*(i+1)/n]))
		out[i] = part[int(undisturbed*float64(len(part)))]
	}
	return out
}
