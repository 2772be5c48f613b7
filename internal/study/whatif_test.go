package study

import (
	"math"
	"math/rand/v2"
	"testing"
)

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
		rng := rand.New(rand.NewPCG(seed, 5))
		tr := &Trial{Seconds: make([][]float64, len(arms))}
		speed := 1.0
		for range 120 {
			for _, i := range []int{0, 1, 2, 2, 1, 0} {
				if rng.IntN(12) == 0 {
					speed = 3.5 - speed // 1 or 2.5 times as long
				}
				tr.Seconds[i] = append(tr.Seconds[i], arms[i]*speed*math.Exp(0.02*rng.NormFloat64()))
			}
		}
		e := contribution(tr, 1, 2)
		if part := e.Mid / tr.Median(2); math.Abs(part/kind-1) > 0.2 {
			t.Errorf("seed %d: contributes %.3f of the whole, expected %.3f", seed, part, kind)
		}
	}
}
