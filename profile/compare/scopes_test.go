package compare

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"hotpath/profile"
)

// hosts are recordings made in turn with the other side's, which is side 0 or 1.
// Their scopes move by some per cent; sample takes slow times as long.
func hosts(rng *rand.Rand, side, n int, slow float64) []*profile.Profile {
	out := machines[1].records(rng, n, 20, asIs)
	for i, p := range out {
		p.Created = time.Date(2026, 11, 16, 0, 2*i+side, 0, 0, time.UTC)
		at := func(mean float64) profile.Dist {
			return profile.Dist{P50: int64(mean * math.Exp(0.06*rng.NormFloat64()))}
		}
		p.Scopes = []profile.ScopeStats{
			{ID: 0, Parent: -1, Name: "compile", Calls: 1, Call: at(3e8)},
			{ID: 1, Parent: 0, Name: "pack weights", Calls: 1, Call: at(1e8)},
			{ID: 2, Parent: -1, Name: "sample", Calls: 300, Call: at(5e4 * slow)},
			{ID: 3, Parent: -1, Name: "batch", Calls: 300, Call: at(4e3)},
		}
	}
	return out
}

// The host's work is compared too: a scope that takes three times as long is found
// by name and size among several recordings made in turn, though no run differs.
func TestSlowerScopeIsFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	c := compare(t, hosts(rng, 0, 6, 1), hosts(rng, 1, 6, 3))
	for _, d := range c.Scopes {
		want := Same
		if d.Name == "sample" {
			want = Slower
		}
		if d.Verdict != want {
			t.Errorf("%s is %s: %s", d.Name, d.Verdict, d.Change.cell())
		}
	}
	if len(c.Scopes) != 4 || c.Scopes[1].Name != "compile/pack weights" {
		t.Errorf("scopes: %+v", c.Scopes)
	}
	if s := c.Summary(); !strings.Contains(s, "scope sample is ") || c.Same() {
		t.Errorf("the summary is %q", s)
	}
	if d := c.Scopes[2]; math.Abs(d.Change.Percent-200) > 40 || !(*d.Change.Low < 200 && 200 < *d.Change.High) {
		t.Errorf("sample takes 200 %% longer, found %s", d.Change.cell())
	}
}

// One build has no slower scope, and one recording of each side tells nothing.
func TestSameScopesAreSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	alarms := 0
	for range 50 {
		c := compare(t, hosts(rng, 0, 4, 1), hosts(rng, 1, 4, 1))
		for _, d := range c.Scopes {
			if d.Changed() {
				alarms++
			}
		}
	}
	if alarms > 1 {
		t.Errorf("%d false alarms in 50 comparisons", alarms)
	}
	for _, d := range compare(t, hosts(rng, 0, 1, 1), hosts(rng, 1, 1, 3)).Scopes {
		if d.Verdict != Untested || d.Change.P != 1 {
			t.Errorf("%s is %s from one recording of each", d.Name, d.Verdict)
		}
	}
}

// A slower scope fails --fail-above by its part of the whole recording: of all calls,
// not of one.
func TestSlowerScopeIsInWorst(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	longest := func(n int64, p []*profile.Profile) []*profile.Profile {
		for i := range p {
			p[i].Start, p[i].End = 1, 1+n
		}
		return p
	}
	// 300 calls of sample take 15 ms, and three times as long in B.
	for whole, want := range map[int64]float64{300e6: 10, 30e9: 0.1} {
		c := compare(t, longest(whole, hosts(rng, 0, 6, 1)), longest(whole, hosts(rng, 1, 6, 3)))
		worst, what := c.Worst()
		if math.Abs(worst/want-1) > 0.3 || !strings.Contains(what, "scope sample") {
			t.Errorf("recordings of %d ms: %.2f %% (%s), expected about %v %% by scope sample", whole/1e6, worst, what, want)
		}
	}
	if worst, what := compare(t, longest(300e6, hosts(rng, 0, 6, 3)), longest(300e6, hosts(rng, 1, 6, 1))).Worst(); strings.Contains(what, "scope") {
		t.Errorf("a faster scope is %.1f %% slower: %s", worst, what)
	}
}
