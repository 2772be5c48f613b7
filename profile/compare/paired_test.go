package compare

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hotpath/profile"
)

// busy is a machine with eight users: recordings of one build differ by a tenth, runs
// drift by a fifth, and every third run is interrupted.
var busy = machine{"busy", 0.10, 0.03, 0.02, 0.20, 0.05, 20, 0.15, 0.3, 0.02, false}

// madeInTurn stamps recordings of a side, 0 or 1, as made in turn with the other's.
func madeInTurn(side int, p []*profile.Profile) []*profile.Profile {
	for i := range p {
		p[i].Created = time.Date(2026, 11, 16, 0, 2*i+side, 0, 0, time.UTC)
	}
	return p
}

// What a busy machine does to all layers cancels, because a layer is compared with
// the other layers of the same runs: five recordings of each build are enough.
func TestLayerIsFoundOnABusyMachine(t *testing.T) {
	const trials = 12
	rng := rand.New(rand.NewPCG(41, 1))
	found, sized, others := 0, 0, 0
	for range trials {
		c := compare(t, madeInTurn(0, busy.records(rng, 5, 20, asIs)), madeInTurn(1, busy.records(rng, 5, 20, func(s *profile.Step) float64 { return timesIf(s.Layer == 3, 1.25) })))
		holdsEstimates(t, c)
		p := &c.Plans[0]
		d := p.layerOf(3)
		if d.Verdict == Slower {
			found++
		}
		if low, high := d.Median.bounds(); low <= 25 && 25 <= high {
			sized++
		}
		for i := range p.Layers {
			if p.Layers[i].Layer != 3 && p.Layers[i].Changed() {
				others++
			}
		}
	}
	if found < trials-1 || sized < trials-1 || others > 0 {
		t.Errorf("found in %d and sized in %d of %d, expected all but one; other layers were named %d times", found, sized, trials, others)
	}
}

// An op that changed has no vote on what is subtracted from it, so that its change
// is not read as less than it is.
func TestChangeIsReadInFull(t *testing.T) {
	const trials = 30
	rng := rand.New(rand.NewPCG(43, 1))
	sum := 0.0
	for range trials {
		c := compare(t, madeInTurn(0, machines[1].records(rng, 4, 12, asIs)), madeInTurn(1, machines[1].records(rng, 4, 12, func(s *profile.Step) float64 { return timesIf(s.Op == "attention", 1.15) })))
		sum += c.Plans[0].kindOf("attention").Median.Percent
	}
	if got := sum / trials; math.Abs(got-15) > 0.75 {
		t.Errorf("15 %% are read as %.2f on average", got)
	}
}
