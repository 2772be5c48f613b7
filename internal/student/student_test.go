package student

import (
	"math"
	"testing"
)

// Values from tables of Student's distribution, two-sided.
func TestTables(t *testing.T) {
	for _, c := range []struct{ freedom, p, t float64 }{
		{1, 0.05, 12.7062}, {2, 0.05, 4.30265}, {3, 0.05, 3.18245}, {4, 0.05, 2.77645}, {5, 0.05, 2.57058}, {8, 0.05, 2.30600}, {30, 0.05, 2.04227}, {1000, 0.05, 1.96234},
		{1, 0.01, 63.6567}, {5, 0.01, 4.03214}, {10, 0.01, 3.16927}, {30, 0.001, 3.64596}, {2, 0.0001, 99.9925},
	} {
		if got := Quantile(c.p, c.freedom); math.Abs(got/c.t-1) > 1e-5 {
			t.Errorf("t of %v at %v degrees of freedom is %v, expected %v", c.p, c.freedom, got, c.t)
		}
		if got := Tail(c.t, c.freedom); math.Abs(got/c.p-1) > 1e-4 {
			t.Errorf("beyond %v at %v degrees of freedom lies %v, expected %v", c.t, c.freedom, got, c.p)
		}
	}
}

// Without a degree of freedom nothing is known.
func TestNoFreedom(t *testing.T) {
	if q, p := Quantile(0.05, 0), Tail(100, 0); !math.IsInf(q, 1) || p != 1 {
		t.Errorf("quantile %v and tail %v, expected infinity and 1", q, p)
	}
}

// Tail takes back what Quantile does, far out too, and more probable values lie further in.
func TestQuantileOfTail(t *testing.T) {
	for _, freedom := range []float64{0.5, 1, 1.7, 3, 10, 33.3, 500, 1e5} {
		last := math.Inf(1)
		for _, p := range []float64{1e-60, 1e-30, 1e-12, 1e-6, 1e-4, 0.003, 0.01, 0.05, 0.3, 0.7, 0.99, 0.9999} {
			q := Quantile(p, freedom)
			if got := Tail(q, freedom); math.Abs(got/p-1) > 1e-9 {
				t.Errorf("beyond the quantile %v of %v at %v degrees of freedom lies %v", q, p, freedom, got)
			}
			if q >= last || q <= 0 {
				t.Errorf("the quantile of %v at %v degrees of freedom is %v, that before was %v", p, freedom, q, last)
			}
			last = q
		}
	}
	for _, c := range []struct{ p, freedom float64 }{{1e-300, 8}, {1e-100, 1e5}, {1e-300, 1000}} {
		if got := Tail(Quantile(c.p, c.freedom), c.freedom); math.Abs(got/c.p-1) > 1e-9 {
			t.Errorf("beyond the quantile of %v at %v degrees of freedom lies %v", c.p, c.freedom, got)
		}
	}
	if far, none := Quantile(0, 5), Quantile(1, 5); !math.IsInf(far, 1) || none != 0 {
		t.Errorf("quantiles of 0 and 1 are %v and %v, expected infinity and 0", far, none)
	}
}

func BenchmarkQuantile(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		Quantile(0.01, 3+float64(i%20))
	}
}
