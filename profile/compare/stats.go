package compare

import (
	"math"
	"slices"

	"hotpath/internal/stats"
	"hotpath/internal/student"
)

// hodgesLehmann is the Hodges-Lehmann estimate of the shift from a to b: the median of
// all differences. Its standard error comes from their ranks.
func hodgesLehmann(a, b []float64) (mid, sd float64) {
	d := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			d = append(d, y-x)
		}
	}
	if len(d) == 0 {
		return 0, 0
	}
	slices.Sort(d)
	n, m := float64(len(a)), float64(len(b))
	k := int(math.Floor(n*m/2 - 1.96*math.Sqrt(n*m*(n+m+1)/12)))
	k = min(max(k, 0), (len(d)-1)/2)
	return stats.MedianSorted(d), (d[len(d)-1-k] - d[k]) / 2 / 1.96
}

func mean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(1, len(v)))
}

// logMean is the logarithm of the mean of values that are given as logarithms.
func logMean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += math.Exp(x)
	}
	return math.Log(sum / float64(max(1, len(v))))
}

// withoutMax is values without the largest.
func withoutMax(v []float64) []float64 {
	if len(v) < 2 {
		return v
	}
	s := slices.Sorted(slices.Values(v))
	return s[:len(s)-1]
}

// logMeanVariance is the variance of logMean.
func logMeanVariance(v []float64) float64 {
	n := float64(len(v))
	if n < 2 {
		return 0
	}
	at, times := logMean(v), make([]float64, len(v))
	for i, x := range v {
		times[i] = math.Exp(x - at)
	}
	return squares(times) / (n - 1) / n
}

// squares is the sum of squared distances from the mean.
func squares(v []float64) (sum float64) {
	m := mean(v)
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return sum
}

// trims are two ways to trim squares. part is the share of the largest squares that
// are dropped, so that rows that changed do not hide each other. left is the mean of
// the remaining squares of a standard normal; dividing by it corrects the bias.
var trims = []struct{ part, left float64 }{{0.2, 0.438}, {0.4, 0.214}}

// varianceOf estimates the variance of normal values from their squares, without the
// largest squares, with its degrees of freedom. It uses the trim that gives the
// smallest critical value.
func varianceOf(squares []float64) (variance, freedom float64) {
	s := slices.Sorted(slices.Values(squares))
	best := math.Inf(1)
	for _, t := range trims {
		keep := len(s) - max(1, int(t.part*float64(len(s))))
		if keep < 2 {
			continue
		}
		v, f := mean(s[:keep])/t.left, float64(keep-1)
		if limit := student.Quantile(0.001, f) * math.Sqrt(v); limit < best {
			best, variance, freedom = limit, v, f
		}
	}
	return variance, freedom
}
