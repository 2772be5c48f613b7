package compare

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hotpath/profile"
)

// crowded is a machine whose programs share its processors: each run loses its
// processor three times, for longer than most calls take.
var crowded = machine{"crowded", 0.05, 0.01, 0.01, 0.05, 0.02, 20, 0.05, 3, 0, true}

// One call in ten that is slower is found on a crowded machine, if the system shows
// which calls lost their processor: steps are compared by their time on a processor.
// Other ops are the same either way.
func TestSlowCallsAreFoundOnACrowdedMachine(t *testing.T) {
	const trials = 20
	for _, c := range []struct {
		times        float64
		marks        bool
		least, sized int
	}{
		{6, true, 18, 18}, {2, true, 18, 18}, {6, false, 0, 0}, {2, false, 0, 0}, {1, true, 0, 18}, {1, false, 0, 0},
	} {
		t.Run(fmt.Sprintf("%.0f times, marks %t", c.times, c.marks), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(47, uint64(c.times)))
			m := crowded
			m.marks = c.marks
			slow := func(s *profile.Step) float64 { return timesIf(s.Op == "attention" && rng.Float64() < 0.1, c.times) }
			found, sized, others := 0, 0, 0
			for range trials {
				cmp := compare(t, madeInTurn(0, m.records(rng, 10, 40, asIs)), madeInTurn(1, m.records(rng, 10, 40, slow)))
				holdsEstimates(t, cmp)
				d := cmp.Plans[0].kindOf("attention")
				if d.Verdict == Slower || d.Verdict == SlowerTail {
					found++
				}
				if low, high := d.Mean.bounds(); low <= 10*(c.times-1) && 10*(c.times-1) <= high {
					sized++
				}
				for i := range cmp.Plans[0].Kinds {
					if k := &cmp.Plans[0].Kinds[i]; k.Name != d.Name && k.Changed() {
						others++
					}
				}
			}
			t.Logf("found in %d, sized in %d, %d other ops are named", found, sized, others)
			if found < c.least || sized < c.sized {
				t.Errorf("found in %d and sized in %d of %d, expected %d and %d", found, sized, trials, c.least, c.sized)
			}
			if c.times == 1 && found > 1 || others > 1 {
				t.Errorf("one build: attention is named in %d and other ops in %d of %d", found, others, trials)
			}
		})
	}
}
