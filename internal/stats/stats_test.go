package stats

import (
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 3, 2, 1}, 2.5}} {
		before := slices.Clone(c.v)
		if got := Median(c.v); got != c.want || !slices.Equal(c.v, before) {
			t.Errorf("the median of %v is %v, expected %v", before, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	v := []float64{1, 2, 4, 8, 16}
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 4, 0.625: 6, 0.75: 8, 1: 16} {
		if got := Quantile(v, q); got != want {
			t.Errorf("quantile %v is %v, expected %v", q, got, want)
		}
	}
	if got := Rank(v, 2.5); got != 6 {
		t.Errorf("the value at place 2.5 is %v, expected 6", got)
	}
	if got := Quantile([]float64{7}, 0.9); got != 7 {
		t.Errorf("of one value: %v", got)
	}
}
