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
	if math.IsInf(t, 0) {
		return 0
	}
	all := freedom + t*t
	return incompleteBeta(freedom/2, 0.5, freedom/all, t*t/all)
}

// Quantile is the t beyond which the two-sided probability is p: Newton's method on the
// logarithm of the probability as a function of that of t. Far out the probability is a
// power of t, so few steps are enough. A step that leaves the interval that holds t is
// replaced by one to its geometric middle.
func Quantile(p, freedom float64) float64 {
	switch {
	case freedom <= 0 || p <= 0:
		return math.Inf(1)
	case p >= 1:
		return 0
	}
	a, _ := math.Lgamma((freedom + 1) / 2)
	b, _ := math.Lgamma(freedom / 2)
	peak := a - b - math.Log(freedom*math.Pi)/2 // of the density, as a logarithm
	low, high, t := 0.0, math.Inf(1), 1.0
	for range 200 {
		tail := Tail(t, freedom)
		if tail > p {
			low = t
		} else {
			high = t
		}
		density := math.Exp(peak - (freedom+1)/2*math.Log1p(t*t/freedom))
		next := t * math.Exp(math.Log(tail/p)*tail/(2*density*t))
		if !(next > low && next < high) { // also if the probability is too small for a number
			switch {
			case math.IsInf(high, 1):
				next = t * max(t, 2)
			case low == 0:
				next = high / 2
			default:
				next = math.Sqrt(low) * math.Sqrt(high)
			}
		}
		if math.Abs(next-t) <= 1e-12*t {
			break
		}
		t = next
	}
	return t
}

// incompleteBeta is the regularized incomplete beta function of x, by Lentz's continued
// fraction. y is 1 - x: the difference would lose digits where x is near 1.
func incompleteBeta(a, b, x, y float64) float64 {
	if x <= 0 {
		return 0
	}
	if y <= 0 {
		return 1
	}
	if x > (a+1)/(a+b+2) { // where the fraction converges slowly
		return 1 - incompleteBeta(b, a, y, x)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(a*math.Log(x)+b*math.Log(y)+lab-la-lb) / a
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
