package study

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// twoSpeeds is a trial on a machine that runs at two speeds and takes arms[i]
// seconds for an arm at the faster one.
func twoSpeeds(seed uint64, arms ...float64) *Trial {
	rng := rand.New(rand.NewPCG(seed, 5))
	tr := &Trial{Seconds: make([][]float64, len(arms)), Blocks: 120}
	speed := 1.0
	for range tr.Blocks {
		for k := range 2 * len(arms) {
			i := min(k, 2*len(arms)-1-k) // there and back
			if rng.IntN(12) == 0 {
				speed = 3.5 - speed // 1 or 2.5 times as long
			}
			tr.Seconds[i] = append(tr.Seconds[i], arms[i]*speed*math.Exp(0.02*rng.NormFloat64()))
		}
	}
	return tr
}

// A table of times does not contradict the ratios beside it.
func TestTimesAgreeWithRatios(t *testing.T) {
	for seed := range uint64(10) {
		tr := twoSpeeds(seed, 1, 0.8)
		if got, want := tr.Time(1).Mid/tr.Time(0).Mid, math.Exp(tr.Ratio(1).Mid); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("seed %d: times are %.3f to one, the ratio is %.3f", seed, got, want)
		}
	}
}

// An interval that goes on beyond the axis ends in an arrow, not in a cap.
func TestIntervalsBeyondTheAxis(t *testing.T) {
	bar := Bar{Label: "a", Value: 10, Low: 5, High: 12}
	caps := strings.Count(Bars{Bars: []Bar{bar}}.SVG(), `class="w"`)
	bar.High = 100
	if arrows := strings.Count(Bars{Bars: []Bar{bar}}.SVG(), `class="w"`); arrows != caps+1 {
		t.Errorf("%d lines, expected one more than the %d of an interval that ends", arrows, caps)
	}
}

// On a machine that runs at two speeds, neither of which has most of the time, a
// contribution is still the part of the whole that it is: the medians of two arms
// may be of different speeds, ratios of neighbours are not.
func TestContributionAtTwoSpeeds(t *testing.T) {
	const kind, rest, outside = 0.5, 0.4, 0.1
	arms := []float64{
		slowdown*(kind+rest) + outside,
		kind + slowdown*rest + outside,
		kind + rest + outside,
	}
	for seed := range uint64(40) {
		tr := twoSpeeds(seed, arms...)
		e := contribution(tr, 1, 2)
		if part := e.Mid / tr.Median(2); math.Abs(part/kind-1) > 0.2 {
			t.Errorf("seed %d: contributes %.3f of the whole, expected %.3f", seed, part, kind)
		}
	}
}
