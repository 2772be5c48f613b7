package compare

import (
	"math"
	"math/rand/v2"
	"slices"
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

// between gives recordings a scope around their runs. In it the host takes so many
// nanoseconds per run beside them, in no scope of its own.
func between(rng *rand.Rand, side, n int, host float64) []*profile.Profile {
	out := hosts(rng, side, n, 1)
	for _, p := range out {
		s := &p.Plans[0]
		runs := s.Ledger.Runs
		took := s.Ledger.Wall + int64(float64(runs)*host*math.Exp(0.06*rng.NormFloat64()))
		p.Start, p.End = 1, 1+took
		p.Process = &profile.ProcessStats{InRuns: s.Ledger.Wall, Scoped: took}
		p.Scopes = append(p.Scopes, profile.ScopeStats{ID: 4, Parent: -1, Name: "work", Calls: 1, Total: took, Call: profile.Dist{P50: took}})
		s.ByScope = []profile.ScopePart{{Scope: 4, Ledger: s.Ledger}}
	}
	return out
}

// What the host does between runs in no scope of its own is compared per run: runs
// themselves move by more than it.
func TestTimeBetweenRunsIsCompared(t *testing.T) {
	const name = "work, outside of runs"
	rng := rand.New(rand.NewPCG(10, 10))
	row := func(c *Comparison) *ScopeDiff {
		for i := range c.Scopes {
			if c.Scopes[i].Name == name {
				return &c.Scopes[i]
			}
		}
		t.Fatalf("no row %q of %+v", name, c.Scopes)
		return nil
	}
	c := compare(t, between(rng, 0, 6, 1e5), between(rng, 1, 6, 3e5))
	d := row(c)
	if d.Verdict != Slower || math.Abs(d.Change.Percent-200) > 40 || d.Calls != [2]float64{20, 20} || math.Abs(d.Before/1e5-1) > 0.2 {
		t.Errorf("0.1 ms a run became 0.3: %+v, %s", d, d.Change.cell())
	}
	if s := c.Summary(); !strings.Contains(s, "Scope work, outside of runs takes 0.") {
		t.Errorf("the summary is %q", s)
	}
	if _, what := c.Worst(); !strings.Contains(what, name) {
		t.Errorf("--fail-above names %q", what)
	}
	if d := row(compare(t, between(rng, 0, 6, 1e5), between(rng, 1, 6, 1e5))); d.Verdict != Same {
		t.Errorf("one build: %s", d.Change.cell())
	}
	// Three recordings are not enough to be certain of any factor: the summary names
	// it all the same, and the table has it first.
	c = compare(t, between(rng, 0, 3, 1e5), between(rng, 1, 3, 2e6))
	if d := row(c); d.Verdict == Same && (c.scopesTable(0).Rows[0][0] != name || !strings.Contains(c.Summary(), "Nearest to a difference is scope "+name+": +") || !strings.Contains(c.Summary(), " to more)")) {
		t.Errorf("p is %v, the first scope is %s, and the summary %q", d.Change.Holm, c.scopesTable(0).Rows[0][0], c.Summary())
	}
}

// Of few calls one may do all the work: the mean tells, not the median. The scope inside
// says more than what of its parent lies outside of runs.
func TestFewCallsByTheirMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	series := func(side int, pack float64) []*profile.Profile {
		out := hosts(rng, side, 6, 1)
		for _, p := range out {
			wobble := math.Exp(0.03 * rng.NormFloat64())
			p.Scopes = append(p.Scopes, profile.ScopeStats{ID: 4, Parent: 0, Name: "load", Calls: 3, Total: int64(pack * wobble), Call: profile.Dist{P50: 30_000, Count: 3, Sum: int64(pack * wobble)}})
		}
		return out
	}
	c := compare(t, series(0, 7e6), series(1, 28e6))
	i := slices.IndexFunc(c.Scopes, func(d ScopeDiff) bool { return d.Name == "compile/load" })
	if d := &c.Scopes[i]; d.Verdict != Slower || !d.OfMean || math.Abs(d.Change.Percent-300) > 60 || !strings.HasPrefix(d.says(), "The mean call of scope compile/load is ") {
		t.Errorf("%+v: %s", d, d.says())
	}
	inner := ScopeDiff{Name: "work/compile", Added: 4, Verdict: Slower}
	outer := ScopeDiff{Name: "work" + outsideOfRuns, OutsideRuns: true, Added: 4.1, Verdict: Slower}
	c.Scopes = []ScopeDiff{inner, outer}
	if !c.within(&c.Scopes[1]) || c.within(&c.Scopes[0]) {
		t.Error("the scope inside of work does not stand for work outside of runs")
	}
	if c.Scopes[0].Added = 20; c.within(&c.Scopes[1]) {
		t.Error("a scope that is mostly runs stands for the time outside of them")
	}
	// A side whose calls are just enough for a median is not compared with a mean.
	some := func(side, calls int) []*profile.Profile {
		out := series(side, 7e6)
		for _, p := range out {
			s := &p.Scopes[4]
			s.Calls, s.Call.Count, s.Call.Sum = int64(calls), int64(calls), int64(calls)*30_000
		}
		return out
	}
	c = compare(t, some(0, 7), some(1, 8))
	if d := &c.Scopes[i]; d.Changed() || !d.OfMean {
		t.Errorf("7 and 8 equal calls: %+v", d)
	}
}

// A few slow calls move no median, but the time of all calls.
func TestFewSlowCallsAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	side := func(side int, slow float64) []*profile.Profile {
		out := hosts(rng, side, 6, 1)
		for _, p := range out {
			p.Start, p.End = 1, 1+300e6
			s := &p.Scopes[2]
			s.Call.Count = s.Calls
			s.Call.Sum = int64(float64(s.Calls*s.Call.P50) * (1 + slow) * math.Exp(0.06*rng.NormFloat64()))
		}
		return out
	}
	c := compare(t, side(0, 0), side(1, 4))
	var rows []ScopeDiff
	for _, d := range c.Scopes {
		if d.Name == "sample" {
			rows = append(rows, d)
		} else if d.Changed() {
			t.Errorf("%s is %s: %s", d.label(), d.Verdict, d.Change.cell())
		}
	}
	if len(rows) != 2 || rows[0].OfMean || rows[0].Changed() || !rows[1].OfMean || rows[1].Verdict != Slower || math.Abs(rows[1].Change.Percent-400) > 80 {
		t.Fatalf("%+v", rows)
	}
	if s := c.Summary(); !strings.Contains(s, "The mean call of scope sample is ") || strings.Contains(s, "The median call") {
		t.Errorf("the summary is %q", s)
	}
	if _, what := c.Worst(); !strings.Contains(what, "scope sample (mean)") {
		t.Errorf("--fail-above names %q", what)
	}
	for _, d := range compare(t, side(0, 4), side(1, 4)).Scopes {
		if d.Changed() {
			t.Errorf("one build: %s is %s: %s", d.label(), d.Verdict, d.Change.cell())
		}
	}
	// The usual call is slower, all together are faster: both are said, and no gate fails.
	c = compare(t, side(0, 4), func() []*profile.Profile {
		out := side(1, 0)
		for _, p := range out {
			p.Scopes[2].Call.P50 = p.Scopes[2].Call.P50 * 3 / 2
		}
		return out
	}())
	if s := c.Summary(); !strings.Contains(s, "The mean call of scope sample is ") || !strings.Contains(s, "The median call of scope sample is ") {
		t.Errorf("the summary is %q", s)
	}
	if worst, what := c.Worst(); worst > 0 {
		t.Errorf("--fail-above counts %.1f %% of %q", worst, what)
	}
	// A slow first call is a larger part of fewer calls.
	c = compare(t, side(0, 0), func() []*profile.Profile {
		out := side(1, 0)
		for _, p := range out {
			s := &p.Scopes[2]
			s.Calls, s.Call.Count = s.Calls/2, s.Call.Count/2
		}
		return out
	}())
	for _, d := range c.Scopes {
		if d.Name == "sample" && (d.OfMean || d.Changed()) {
			t.Errorf("half as many calls: %s is %s: %s", d.label(), d.Verdict, d.Change.cell())
		}
	}
	// All calls are slower: one sentence, of the mean.
	c = compare(t, side(0, 0), func() []*profile.Profile {
		out := side(1, 2)
		for _, p := range out {
			p.Scopes[2].Call.P50 *= 3
		}
		return out
	}())
	if n := strings.Count(c.Summary(), "scope sample"); n != 1 {
		t.Errorf("%d sentences of one scope: %q", n, c.Summary())
	}
}
