package compare

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hotpath/profile"
)

// twoKinds makes a recording one of decoding, whose steps are products and attention
// and little else: too few kinds to tell what the machine did to all of them.
func twoKinds(recs []*profile.Profile) []*profile.Profile {
	for _, r := range recs {
		for i := range r.Plans[0].Steps {
			if s := &r.Plans[0].Steps[i]; s.Op != "attention" {
				s.Op = "linear"
			}
		}
	}
	return recs
}

// If a plan has two kinds of steps, what the machine did is in every row. Then many
// steps that moved together prove no more than one of them.
func TestFewKindsOfOneBuildAreTheSame(t *testing.T) {
	const trials = 60
	for _, recs := range []int{2, 3, 5} {
		for _, m := range []machine{machines[1], busy} {
			t.Run(fmt.Sprintf("%s, %d of each", m.name, recs), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(61, uint64(recs)))
				noise := 0
				for range trials {
					c := compare(t, twoKinds(madeInTurn(0, m.records(rng, recs, 24, asIs))), twoKinds(madeInTurn(1, m.records(rng, recs, 24, asIs))))
					if p := &c.Plans[0]; p.evidence.votes[ofKinds] >= fewVotes {
						t.Fatalf("%d kinds vote", p.evidence.votes[ofKinds])
					}
					holdsEstimates(t, c)
					if d := c.Different(); len(d) > 0 {
						noise++
						t.Logf("%s", d[0].says())
					}
				}
				if noise > 1 {
					t.Errorf("%d of %d comparisons of one build found a difference", noise, trials)
				}
			})
		}
	}
}

// An op that got slower is still found in such a plan.
func TestChangeIsFoundAmongFewKinds(t *testing.T) {
	const trials = 20
	rng := rand.New(rand.NewPCG(67, 1))
	m, found, sized := &machines[0], 0, 0
	for range trials {
		c := compare(t, twoKinds(madeInTurn(0, m.records(rng, 6, 24, asIs))), twoKinds(madeInTurn(1, m.records(rng, 6, 24, slowAttention))))
		d := c.Plans[0].kindOf("attention")
		if d.Verdict == Slower {
			found++
		}
		if low, high := d.Median.bounds(); low <= 20 && 20 <= high {
			sized++
		}
	}
	if found < 18 || sized < 18 {
		t.Errorf("found in %d and sized in %d of %d, expected 18", found, sized, trials)
	}
}
