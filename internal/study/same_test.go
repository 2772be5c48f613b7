package study

import (
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/profile"
	"hotpath/profile/compare"
)

// Of 100 comparisons of two recordings of one build of the real model at most 5
// may say that they differ. The recordings are made one after the other, so that
// all that the machine does in between is in them; in groups of five they are
// compared as made in turn.
func TestOneBuildIsNoDifference(t *testing.T) {
	if !strict {
		t.Skip("takes minutes: make study-check; a simulation is in package profile/compare")
	}
	const trials = 100
	s, err := open(Options{Model: testmodels.Real(t, "all-MiniLM-L6-v2")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	w := s.embed(s.texts(1, even(8, 64)))
	var sides [2][]*profile.Profile
	for i := range trials {
		for k := range 2 {
			side := (k + i) % 2 // a b, b a: neither is always the first
			sides[side] = append(sides[side], recordedAlone(t, s, w, 24))
		}
	}
	for _, group := range []int{1, 5} {
		different := 0
		for i := 0; i+group <= trials; i += group {
			c, err := compare.Compare(sides[0][i:i+group], sides[1][i:i+group], "a", "b")
			if err != nil {
				t.Fatal(err)
			}
			if d := c.Different(); len(d) > 0 {
				different++
				t.Log(c.Summary())
			}
		}
		n := trials / group
		t.Logf("%d of %d comparisons of %s of one build differ", different, n, plural(group, "recording"))
		if different > n/20 {
			t.Errorf("%d of %d differ, expected at most 1 in 20", different, n)
		}
	}
}

// recordedAlone is a recording of runs of an engine that was opened for it.
func recordedAlone(t *testing.T, s *session, w work, runs int) *profile.Profile {
	t.Helper()
	var o opened
	defer o.close()
	r, rec := s.recordedFine(t, &o)
	for range runs {
		if err := w.run(t.Context(), r.Engine); err != nil {
			t.Fatal(err)
		}
	}
	p := rec.Snapshot()
	p.Runs = nil // a trace of each would be a lot
	return p
}
