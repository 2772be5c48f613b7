package compare

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/profile"
)

// A scope that is certain to be slower is named before the runs, of which nothing is
// certain, and no row that may be chance is named beside it.
func TestSummaryBeginsWithWhatIsCertain(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	c := compare(t, hosts(rng, 0, 6, 1), hosts(rng, 1, 6, 3))
	s := c.Summary()
	if !strings.HasPrefix(s, "The median call of scope sample is ") || strings.Contains(s, "Nearest") || !strings.Contains(s, "No difference of time was found in runs") {
		t.Errorf("the summary is %q", s)
	}
}

// The sum of the rows that are certain is called a lower bound, and the time of whole
// runs stands beside it, with an interval that contains the injected change.
func TestSummaryHasTheTimeOfWholeRuns(t *testing.T) {
	const trials = 10
	rng := rand.New(rand.NewPCG(91, 1))
	m := &machines[0]
	sized := 0
	for range trials {
		c := compare(t, madeInTurn(0, m.records(rng, 6, 24, asIs)), madeInTurn(1, m.records(rng, 6, 24, func(s *profile.Step) float64 { return timesIf(s.Op == "attention", 1.5) })))
		part := 0.0 // of attention in the time of a run
		for _, d := range c.Plans[0].Kinds {
			if d.Name == "attention" {
				part = d.Before / c.Plans[0].Total.Before
			}
		}
		mid, low, high, known := c.Whole()
		if !known || low > mid || mid > high {
			t.Fatalf("%v (%v to %v), known %t", mid, low, high, known)
		}
		if want := 50 * part; low <= want && want <= high {
			sized++
		}
		if s := c.Summary(); !strings.HasPrefix(s, "B is slower by at least ") || !strings.Contains(s, ", counting only rows that are certain: the median of attention is ") || !strings.Contains(s, " Whole runs took ") {
			t.Errorf("the summary is %q", s)
		}
		if _, what := c.Worst(); !strings.HasPrefix(what, "the median of attention is ") && !strings.Contains(what, "of a run of") {
			t.Errorf("--fail-above names %q", what)
		}
	}
	if sized < trials-1 {
		t.Errorf("the interval of whole runs has the change in %d of %d", sized, trials)
	}
	if _, _, _, known := compare(t, m.records(rng, 1, 1, asIs), m.records(rng, 1, 1, asIs)).Whole(); known {
		t.Error("one run each has an interval of whole runs")
	}
}

// byHand is a comparison of one plan with runs of 1 ms and one step, with these
// changes of the step and of whole runs.
func byHand(step, whole Diff) *Comparison {
	none := Diff{Verdict: Same}
	step.tested, whole.tested, whole.base, whole.Before = true, true, 1e6, 1e6
	return &Comparison{Plans: []PlanDiff{{Runs: [2]int64{1, 1}, Steps: []Diff{step}, Common: none, Wait: none, Total: whole}}, Total: Diff{Before: 1e6, After: 1e6}}
}

func change(percent, low, high, holm float64, v Verdict) Change {
	return Change{Percent: percent, Low: &low, High: &high, P: holm, Holm: holm, Verdict: v}
}

// Where whole runs are certain to have taken less, no row makes B slower by at least
// anything.
func TestSummaryIsNoBoundAgainstWholeRuns(t *testing.T) {
	step := Diff{Name: "add", base: 1e5, Verdict: Slower, Mean: change(20, 15, 25, 0.001, Slower)}
	for _, in := range []struct {
		whole Change
		want  string
	}{
		{change(-7, -12, -2, 0.5, Same), "B is slower by 2.0 % of A's time (1.5 to 2.5), counting only rows that are certain: the mean of add is 20.0 % slower (15.0 to 25.0). Whole runs took 7.0 % less time than A (-12.0 to -2.0)."},
		{change(3, -1, 7, 0.5, Same), "B is slower by at least 2.0 % of A's time (1.5 to 2.5), counting only rows that are certain: the mean of add is 20.0 % slower (15.0 to 25.0). Whole runs took 3.0 % longer than A (-1.0 to +7.0)."},
	} {
		if got := byHand(step, Diff{Verdict: Same, Mean: in.whole}).Summary(); got != in.want {
			t.Errorf("%q, expected %q", got, in.want)
		}
	}
}

// A step of which no change matters is not named as near to a difference; a wait, and
// a column of the ledger, are.
func TestNearestMatters(t *testing.T) {
	whole := Diff{Verdict: Same, Mean: change(1, -5, 7, 1, Same)}
	far := change(0, -1, 1, 1, Same)
	step := Diff{Name: "add", base: 1e3, Verdict: Same, Median: change(20, 1, 40, 0.03, Same), Mean: far, P95: far}
	if what, _ := byHand(step, whole).nearest(); what != "" {
		t.Errorf("%s of 1 us in 1 ms is named", what)
	}
	wait := Diff{Name: "before glu, after add", base: 1e6, points: true, tested: true, Verdict: Same, Median: change(2, 0, 4, 0.1, Same), Mean: far, P95: far}
	c := byHand(step, whole)
	c.Plans[0].Waits = []Diff{wait}
	if what, ch := c.nearest(); what != "the median of the wait before glu, after add" || math.Abs(ch.Percent-2) > 0 {
		t.Errorf("%q is named, expected the wait", what)
	}
	c.Ledger = []LedgerDiff{{Of: "embed.coarse", Column: "idle", NoRun: true, Verdict: Same, Change: change(3, 0, 6, 0.05, Same)}}
	if what, _ := c.nearest(); what != "idle of embed.coarse, no run, in per cent of all lane time" {
		t.Errorf("%q is named, expected the column of the ledger", what)
	}
}
