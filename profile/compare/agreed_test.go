package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

// What one of few ops did is not common to all, whatever it makes of the median of them and
// of the time of all. The times are those of MiniLM, whose attention was slowed by 40 per cent.
func TestOneOpIsNotCommon(t *testing.T) {
	for _, c := range []struct {
		name string
		by   [4]float64
		want bool
	}{
		{"attention alone", [4]float64{0.01, 0.00, 0.016, 0.334}, false},
		{"the machine", [4]float64{0.07, 0.05, 0.06, 0.08}, true},
		{"short ops alone", [4]float64{0.07, 0.08, 0.01, 0.06}, false},
		{"the machine, and linear even more", [4]float64{0.07, 0.07, 0.4, 0.07}, true},
	} {
		rng := rand.New(rand.NewPCG(3, 1))
		e := evidence{recs: [2]int{10, 10}, paired: true}
		e.votes[ofKinds] = len(c.by)
		blocks := func(by float64) (x blockValues) {
			for m := range x {
				for side := range x[m] {
					for range e.recs[side] {
						x[m][side] = append(x[m][side], []float64{float64(side)*by + 0.01*rng.NormFloat64()})
					}
				}
			}
			return x
		}
		for i, before := range []float64{0.14, 0.97, 27.1, 4.7} {
			e.rows = append(e.rows, evidenceRow{diff: &Diff{Before: before}, level: ofKinds, votes: true, whole: blocks(c.by[i])})
		}
		e.shifts[ofKinds] = blocks(0.068)
		if got := e.agreed(); got[Mean][ofKinds] != c.want || got[Median][ofKinds] != c.want {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
		e.shifts[ofKinds] = blocks(0)
		if mid := e.shift(Mean, e.shifts[ofKinds][Mean]).mid; !e.agreed()[Mean][ofKinds] {
			t.Errorf("%s: a median that moved by %.4f is not common", c.name, math.Abs(mid))
		}
	}
}
