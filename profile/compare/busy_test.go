package compare

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hotpath/profile"
)

// One recording per side does not show how much other programs take: that they took
// processors from one side is named, and is no change of waits or of whole runs. Recordings
// in turn that were disturbed are named too.
func TestOtherProgramsAreNoChange(t *testing.T) {
	calm, busy := machines[0], machines[0]
	calm.marks, busy.marks = true, true
	busy.interrupt = 60
	named := func(c *Comparison, words ...string) bool {
		return slices.ContainsFunc(c.Warnings, func(w string) bool {
			return strings.HasPrefix(w, "lanes were without a processor") && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(w, word) })
		})
	}
	rng := rand.New(rand.NewPCG(61, 2))
	for range 20 {
		a, b := calm.record(rng, 80, asIs), busy.record(rng, 80, asIs)
		for _, sides := range [][2]*profile.Profile{{a, b}, {b, a}} {
			c := compare(t, sides[:1], sides[1:])
			p := &c.Plans[0]
			if p.Wait.Changed() || p.Total.Changed() || p.Common.Changed() {
				t.Errorf("waiting %+v, runs %+v", p.Wait, p.Total)
			}
			if side := map[bool]string{true: " in B;", false: " in A;"}[sides[1] == b]; !named(c, side) {
				t.Errorf("expected a warning%s got %q", side, c.Warnings)
			}
		}
	}
	a, b := madeInTurn(0, calm.records(rng, 6, 40, asIs)), madeInTurn(1, calm.records(rng, 6, 40, asIs))
	if c := compare(t, a, b); named(c) {
		t.Errorf("a calm machine: %q", c.Warnings)
	}
	a[1], b[2], b[4] = busy.record(rng, 40, asIs), busy.record(rng, 40, asIs), busy.record(rng, 40, asIs)
	c := compare(t, madeInTurn(0, a), madeInTurn(1, b))
	if !named(c, " in recording 2 of A,", " in recordings 3, 5 of B;", "leave these recordings out") {
		t.Errorf("%q", c.Warnings)
	}
	// A build that takes processors from its own lanes is no disturbance.
	c = compare(t, madeInTurn(0, calm.records(rng, 5, 40, asIs)), madeInTurn(1, busy.records(rng, 5, 40, asIs)))
	if !named(c, " in recordings 1, 2, 3, 4, 5 of B;", "other threads of B") || !c.Plans[0].Wait.Changed() {
		t.Errorf("%q, %+v", c.Warnings, c.Plans[0].Wait)
	}
}

// A side whose lanes wait longer with all processors is found from one recording per side.
func TestWaitsOfACalmMachineAreAChange(t *testing.T) {
	calm := machines[0]
	calm.marks = true
	rng := rand.New(rand.NewPCG(61, 3))
	a, b := calm.record(rng, 80, asIs), calm.record(rng, 80, asIs)
	s := &b.Plans[0]
	for i, wall := range s.Samples.Wall {
		s.Samples.Wall[i] = wall + wall/4
		s.Ledger.Wall += wall / 4
		s.Ledger.LaneTime += int64(len(s.Lanes)) * (wall / 4)
	}
	if c := compare(t, []*profile.Profile{a}, []*profile.Profile{b}); c.Plans[0].Wait.Verdict != Slower {
		t.Errorf("%+v", c.Plans[0].Wait)
	}
}
