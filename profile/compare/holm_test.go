package compare

import (
	"math"
	"testing"
)

// The first line is R's p.adjust(c(1,2,3,4,5)/100, "holm"), in another order.
func TestHolm(t *testing.T) {
	for _, c := range []struct{ p, want []float64 }{
		{[]float64{0.03, 0.01, 0.05, 0.02, 0.04}, []float64{0.09, 0.05, 0.09, 0.08, 0.09}},
		{[]float64{0.4, 0.9}, []float64{0.8, 0.9}},
		{[]float64{0.6, 0.9}, []float64{1, 1}},
		{nil, []float64{}},
	} {
		got := Holm(c.p)
		for i := range c.want {
			if len(got) != len(c.want) || math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("Holm(%v) = %v, expected %v", c.p, got, c.want)
			}
		}
	}
}

// With one sample less than SamplesFor no division of them is improbable enough.
func TestSamplesFor(t *testing.T) {
	for _, c := range []struct{ cases, want int }{{1, 4}, {6, 5}, {7, 6}, {20, 6}, {1000, 9}} {
		if got := SamplesFor(c.cases); got != c.want {
			t.Errorf("%d cases need %d samples, expected %d", c.cases, got, c.want)
		}
	}
}
