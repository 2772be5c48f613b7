package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hotpath/profile"
)

// coarse gives recordings rounds of two workers. Between their runs workers take so
// many nanoseconds per run, which vary between recordings as they do on a busy machine.
func coarse(rng *rand.Rand, side, n int, between float64) []*profile.Profile {
	out := madeInTurn(side, machines[3].records(rng, n, 20, asIs))
	for _, p := range out {
		s := &p.Plans[0]
		r := profile.RoundStats{Name: "embed.coarse", Rounds: 2, ByWorker: make([]profile.WorkerStats, 2)}
		for k := range r.ByWorker {
			w := &r.ByWorker[k]
			w.Runs, w.InRuns = s.Ledger.Runs/2, s.Ledger.LaneTime/2
			w.Dispatch = int64(float64(w.Runs) * between * math.Exp(0.2*rng.NormFloat64()))
			w.Idle = int64(2e6 * rng.ExpFloat64())
			r.Wall = max(r.Wall, w.InRuns+w.Dispatch+w.Idle)
		}
		for k := range r.ByWorker {
			w := &r.ByWorker[k]
			w.Idle = r.Wall - w.InRuns - w.Dispatch
		}
		p.Rounds = []profile.RoundStats{r}
		p.Ledger.LaneTime += r.Outside().LaneTime
	}
	return out
}

func (c *Comparison) column(of, column string) *LedgerDiff {
	i := slices.IndexFunc(c.Ledger, func(d LedgerDiff) bool { return d.owner() == of && d.Column == column })
	if i < 0 {
		return &LedgerDiff{Of: "no " + of, Column: column}
	}
	return &c.Ledger[i]
}

// What workers do between their runs is in no run, and another run is in flight
// meanwhile. The ledger has it: it is found, sized and named, and --fail-above counts it.
func TestTimeBetweenRunsOfWorkersIsFound(t *testing.T) {
	const trials, was, is = 20, 0.2e6, 7e6
	rng := rand.New(rand.NewPCG(81, 1))
	found, sized, others := 0, 0, 0
	for range trials {
		a, b := coarse(rng, 0, 6, was), coarse(rng, 1, 6, is)
		c := compare(t, a, b)
		d := c.column("embed.coarse, no run", "dispatch")
		var whole float64 // lane time per run
		for _, p := range a {
			whole += float64(p.Ledger.LaneTime) / float64(p.Plans[0].Ledger.Runs) / float64(len(a))
		}
		want := 100 * (is - was) / whole
		if low, high := d.Change.bounds(); low <= want && want <= high && low <= d.Change.Percent && d.Change.Percent <= high {
			sized++
		}
		for i := range c.Ledger {
			if o := &c.Ledger[i]; o != d && o.Changed() {
				others++
			}
		}
		if d.Verdict != MoreTime {
			continue
		}
		found++
		if s := c.Summary(); !strings.Contains(s, "Workers of embed.coarse spend ") || !strings.Contains(s, " ms per run before and between their runs in place of 0.") || c.Same() {
			t.Errorf("the summary is %q", s)
		}
		if worst, what := c.Worst(); worst < d.Change.Percent || worst == d.Change.Percent && what != "dispatch of embed.coarse, no run, of all lane time" {
			t.Errorf("--fail-above has %.1f %% by %q, expected at least %.1f", worst, what, d.Change.Percent)
		}
		if first := c.ledgerTable(-1).Rows[0]; first[0] != "embed.coarse, no run" || first[1] != "dispatch" {
			t.Errorf("the first row is %q", first)
		}
	}
	if found < 18 || sized < 18 || others > 1 {
		t.Errorf("found in %d and sized in %d of %d, %d other columns are named", found, sized, trials, others)
	}
	c := compare(t, coarse(rng, 0, 10, is), coarse(rng, 1, 10, was))
	if d := c.column("embed.coarse, no run", "dispatch"); d.Verdict != LessTime || !strings.Contains(c.Summary(), "of all lane time less") {
		t.Errorf("%s is %s, and the summary %q", d.Column, d.Verdict, c.Summary())
	}
	if _, what := c.Worst(); strings.Contains(what, "dispatch") {
		t.Errorf("--fail-above fails for what got faster: %s", what)
	}
}

// The ledgers of one build are the same, and one recording per side, or all of one
// side before the other, tells nothing.
func TestSameLedgersAreSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(82, 1))
	alarms := 0
	for range 100 {
		c := compare(t, coarse(rng, 0, 5, 1e6), coarse(rng, 1, 5, 1e6))
		if slices.ContainsFunc(c.Ledger, func(d LedgerDiff) bool { return d.Changed() }) {
			alarms++
		}
		if len(c.Ledger) != 4 {
			t.Fatalf("the ledger has %+v, expected compute and barrier of the plan, dispatch and idle of workers", c.Ledger)
		}
	}
	if alarms > 1 {
		t.Errorf("%d false alarms in 100 comparisons", alarms)
	}
	before := coarse(rng, 0, 5, 1e6)
	after := coarse(rng, 1, 5, 9e6)
	for i := range after {
		after[i].Created = after[i].Created.AddDate(0, 0, 1)
	}
	for _, c := range []*Comparison{compare(t, before, after), compare(t, before[:1], after[:1])} {
		for _, d := range c.Ledger {
			if d.Verdict != Untested || d.Change.P != 1 {
				t.Errorf("%s of %s is %s", d.Column, d.owner(), d.Verdict)
			}
		}
	}
}

// Time in runs but outside of steps is in its own column of the plan's ledger.
// Where a row of the plan says it already, the summary does not say it again.
func TestLedgerOfPlanIsCompared(t *testing.T) {
	rng := rand.New(rand.NewPCG(83, 1))
	dispatched := func(side int, ns int64) []*profile.Profile {
		recs := madeInTurn(side, machines[0].records(rng, 8, 20, asIs))
		for _, p := range recs {
			s := &p.Plans[0]
			for r := range s.Samples.Wall {
				took := ns + int64(0.2*float64(ns)*rng.Float64())
				s.Samples.Wall[r] += took
				s.Ledger.Wall += took
				s.Ledger.LaneTime += 2 * took
				s.Ledger.Dispatch += took
				s.Ledger.Idle += took
			}
			p.Ledger = s.Ledger
		}
		return recs
	}
	for _, in := range []struct {
		to   int64
		told bool
	}{{150e3, true}, {6e6, false}} { // 0.4 and 17 per cent of a run
		c := compare(t, dispatched(0, 50e3), dispatched(1, in.to))
		for _, d := range c.Ledger {
			want := Same
			if d.Column == "dispatch" || d.Column == "idle" {
				want = MoreTime
			}
			if d.Verdict != want {
				t.Errorf("%s is %s: %s", d.Column, d.Verdict, d.Change.cell())
			}
		}
		if s := c.Summary(); strings.Contains(s, " ms per run in dispatch in place of 0.0") != in.told {
			t.Errorf("%d ns: the summary is %q", in.to, s)
		}
	}
}

// The same tokens in fewer and larger runs take the same time per token, so no
// column changed.
func TestLedgerIsComparedAtEqualTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(84, 1))
	batches := func(side, runs int) []*profile.Profile {
		recs := madeInTurn(side, machines[0].records(rng, 8, 20, asIs))
		for _, p := range recs {
			p.Plans[0].Ledger.Runs = int64(runs)
		}
		return recs
	}
	for _, d := range compare(t, batches(0, 40), batches(1, 10)).Ledger {
		if d.Verdict != Same || math.Abs(d.After/d.Before-1) > 0.1 {
			t.Errorf("%s: %v ns per run became %v, and it is %s", d.Column, d.Before, d.After, d.Verdict)
		}
	}
}

// The same tokens in half as many runs are no difference of workers without a run.
func TestLargerRunsAreNoTimeBetweenRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(83, 1))
	sides := [2][]*profile.Profile{coarse(rng, 0, 6, 1e6), coarse(rng, 1, 6, 1e6)}
	for side, recs := range sides {
		for _, p := range recs {
			p.Plans[0].ID = "embed.coarse/embed/T4096"
			p.Plans[0].Ledger.Runs /= int64(1 + side)
			for k := range p.Rounds[0].ByWorker {
				w := &p.Rounds[0].ByWorker[k]
				w.Runs /= int64(1 + side)
				w.Dispatch = 20e6
			}
		}
	}
	found := false
	for _, d := range compareLedger(sides[0], sides[1]) {
		if d.NoRun && d.Column == "dispatch" {
			if found = true; d.Before == 0 || math.Abs(d.After/d.Before-1) > 1e-9 {
				t.Errorf("%s of %s is %g ns and then %g", d.Column, d.owner(), d.Before, d.After)
			}
		}
	}
	if !found {
		t.Error("the ledger has no time between runs")
	}
}

// Lanes that wait longer in runs that are faster do not make B slower; those without a
// run, and those of another plan, do.
func TestWaitsOfFasterRunsAreNotWorst(t *testing.T) {
	column := LedgerDiff{Of: "embed", Column: "barrier", plan: "embed/embed/T64", Verdict: MoreTime, Change: change(4, 3, 5, 0.001, Slower)}
	for _, in := range []struct {
		whole Verdict
		plan  string
		want  float64
	}{{Faster, column.plan, 0}, {Same, column.plan, 4}, {Slower, column.plan, 4}, {Faster, "", 4}, {Faster, "embed/embed/T256", 4}} {
		c := byHand(Diff{Verdict: Same}, Diff{Verdict: in.whole, Mean: change(-10, -12, -8, 0.001, Same)})
		c.Plans[0].ID = column.plan
		c.Ledger = []LedgerDiff{column}
		c.Ledger[0].plan = in.plan
		if got, what := c.Worst(); got != in.want {
			t.Errorf("runs are %s, plan %q: %g %% by %q, expected %g", in.whole, in.plan, got, what, in.want)
		}
	}
}

// The times of a column and its change say the same, whatever the spread of recordings.
func TestTimesOfAColumnAgreeWithItsChange(t *testing.T) {
	const whole = 1000.0
	for _, times := range [][2][]float64{
		{{100, 110, 900}, {120, 120, 130}},
		{{0, 0, 50}, {10, 0, 0}},
		{{3, 5, 7}, {3, 5, 7}},
	} {
		for _, e := range []evidence{{recs: [2]int{3, 3}}, {recs: [2]int{3, 3}, paired: true}, {recs: [2]int{3, 3}, apartInTime: true}} {
			c, before, after := e.amount(times, whole)
			if want := 100 * (after - before) / whole; math.Abs(c.Percent-want) > 1e-9 || before < 0 || after < 0 {
				t.Errorf("%v: %g and %g, a change of %g %%, expected %g", times, before, after, c.Percent, want)
			}
		}
	}
	e := evidence{recs: [2]int{1, 1}}
	if _, before, after := e.amount([2][]float64{{100}, {0}}, whole); math.Abs(before-100) > 1e-9 || after > 1e-9 {
		t.Errorf("one recording of each: %g and %g", before, after)
	}
}
