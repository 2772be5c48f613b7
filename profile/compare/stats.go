package compare

import (
	"math"
	"slices"

	"hotpath/internal/stats"
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
		if limit := studentQuantile(0.001, f) * math.Sqrt(v); limit < best {
			best, variance, freedom = limit, v, f
		}
	}
	return variance, freedom
}

// studentTail is the two-sided probability of Student's distribution beyond t.
func studentTail(t, freedom float64) float64 {
	if freedom <= 0 || math.IsNaN(t) {
		return 1
	}
	t = math.Abs(t)
	return incompleteBeta(freedom/2, 0.5, freedom/(freedom+t*t))
}

// studentQuantile is the t beyond which the two-sided probability is p.
func studentQuantile(p, freedom float64) float64 {
	if freedom <= 0 {
		return math.Inf(1)
	}
	low, high := 0.0, 1.0
	for studentTail(high, freedom) > p && high < 1e12 {
		high *= 2
	}
	for range 60 {
		if mid := (low + high) / 2; studentTail(mid, freedom) > p {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// incompleteBeta is the regularized incomplete beta function, by Lentz's
// continued fraction.
func incompleteBeta(a, b, x float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) { // where the fraction converges slowly
		return 1 - incompleteBeta(b, a, 1-x)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(a*math.Log(x)+b*math.Log(1-x)+lab-la-lb) / a
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := range 400 {
		m := float64(i / 2)
		var step float64
		switch {
		case i == 0:
			step = 1
		case i%2 == 0:
			step = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			step = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		if d = 1 + step*d; math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		if c = 1 + step/c; math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if math.Abs(1-c*d) < 1e-14 {
			break
		}
	}
	return front * (f - 1)
}
