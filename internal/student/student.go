// Package student has Student's distribution: whoever estimates a variance from few
// values needs it.
//
// It imports nothing of ours.
package student

import "math"

// Tail is the two-sided probability of Student's distribution beyond t.
func Tail(t, freedom float64) float64 {
	if freedom <= 0 || math.IsNaN(t) {
		return 1
	}
	t = math.Abs(t)
	return incompleteBeta(freedom/2, 0.5, freedom/(freedom+t*t))
}

// Quantile is the t beyond which the two-sided probability is p.
func Quantile(p, freedom float64) float64 {
	if freedom <= 0 {
		return math.Inf(1)
	}
	low, high := 0.0, 1.0
	for Tail(high, freedom) > p && high < 1e12 {
		high *= 2
	}
	for range 60 {
		if mid := (low + high) / 2; Tail(mid, freedom) > p {
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
