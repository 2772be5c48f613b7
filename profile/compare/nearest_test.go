package compare

import (
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/profile"
)

// Where nothing is certain, the summary names the row that is nearest to a
// difference: the one that was slowed. It mostly names none where nothing was.
func TestSummaryNamesTheNearestRow(t *testing.T) {
	const trials, name = 40, "blk.3/linear1"
	named := func(slow float64) (right, wrong, found int) {
		rng := rand.New(rand.NewPCG(9, 9))
		for range trials {
			c := compare(t, machines[3].records(rng, 4, 20, asIs), machines[3].records(rng, 4, 20, func(s *profile.Step) float64 {
				if s.Name == name {
					return slow
				}
				return 1
			}))
			what, change := c.nearest()
			switch {
			case len(c.Different()) > 0:
				found++
			case change == nil:
			case strings.HasSuffix(what, " of "+name):
				right++
				if steps := c.Plans[0].table("steps", "", c.Plans[0].Steps, 3); steps.Rows[0][0] != name {
					t.Errorf("the first of the steps is %s", steps.Rows[0][0])
				}
				if s := c.Summary(); !strings.Contains(s, "Nearest to a difference is "+what+": +") {
					t.Errorf("the summary is %q", s)
				}
			default:
				wrong++
			}
		}
		return right, wrong, found
	}
	if right, wrong, found := named(1.6); right < trials/4 || wrong > trials/8 {
		t.Errorf("a slowed step was found %d times, named %d times, and another %d times", found, right, wrong)
	}
	if _, wrong, found := named(1); wrong+found > trials/5 {
		t.Errorf("one build: %d times a row was named, %d times a difference was found", wrong, found)
	}
}

// A row that was not tested has no probability that looks certain.
func TestUntestedRowIsNotCertain(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	c := compare(t, machines[0].records(rng, 3, 20, asIs), machines[0].records(rng, 3, 20, asIs))
	untested := 0
	for _, d := range c.Plans[0].Layers {
		if d.Verdict != Untested {
			continue
		}
		untested++
		for m := range measures {
			if ch := d.Of(m); ch.P != 1 || ch.Holm != 1 {
				t.Errorf("%s of %s, which was not tested: p %v and %v", m, d.Name, ch.P, ch.Holm)
			}
		}
	}
	if untested == 0 {
		t.Error("every row was tested, expected none for what lies outside of layers")
	}
}
