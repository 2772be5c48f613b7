package engine

import (
	"math"
	"testing"
)

// TestTally: an accident moves little, a change of the machine is believed after
// three comparisons, and what is seen first is the middle one of three.
func TestTally(t *testing.T) {
	for _, c := range []struct {
		name   string
		ratios []float64
		want   float64
	}{
		{"nothing", nil, 1},
		{"the first", []float64{1.2}, 1.2},
		{"an accident first", []float64{5, 0.9, 0.9}, 0.9},
		{"small differences", []float64{1.1, 0.94, 1.1, 0.94, 1.1, 0.94, 1.1, 0.94}, 1.02},
		{"an accident later", []float64{0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 6, 0.9}, 0.93},
		{"a change", []float64{0.9, 0.9, 0.9, 0.9, 0.9, 2, 2.1, 2.2}, 2.1},
		{"and back", []float64{2, 2, 2, 2, 2, 0.9, 1, 0.8}, 0.9},
	} {
		var s tally
		for _, r := range c.ratios {
			s.add(r, false)
		}
		if got := s.ratio(); math.Abs(math.Log(got/c.want)) > 0.03 {
			t.Errorf("%s: %.3f, expected %g", c.name, got, c.want)
		}
	}
	var s tally
	for i := range 100 {
		s.add([]float64{0.75, 3}[i%2], true)
	}
	if got := s.ratio(); math.Abs(math.Log(got/1.5)) > 0.1 {
		t.Errorf("estimates that are off by two either way: %.3f, expected 1.5", got)
	}
}
