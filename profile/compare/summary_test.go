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

// The largest part of A's time is named first, wherever it was found.
func TestSummaryBeginsWithTheLargest(t *testing.T) {
	step := Diff{Name: "positions", Layer: -1, base: 1e4, Verdict: Slower, Mean: change(30, 20, 40, 0.001, Slower)}
	c := byHand(step, Diff{Verdict: Same, Mean: change(1, -5, 7, 1, Same)})
	c.Plans[0].ID = "embed.coarse/embed/T256"
	c.Ledger = []LedgerDiff{{Of: "embed.coarse", Column: "dispatch", NoRun: true, Verdict: MoreTime, Before: 1e5, After: 2e5, Change: change(10, 8, 12, 0.001, Slower)}}
	if s := c.Summary(); !strings.HasPrefix(s, "Workers of embed.coarse spend 0.200 ms per run before and between their runs in place of 0.100: 10.0 % of all lane time more (8.0 to 12.0). B is slower by at least 0.3 %") {
		t.Errorf("the summary is %q", s)
	}
	c.Plans[0].Steps[0].base = 10 // less than 0.05 per cent
	if s := c.Summary(); !strings.Contains(s, "Runs of B differ from those of A, but not in their time: the mean of positions is 30.0 % slower (20.0 to 40.0).") || strings.Contains(s, "B differs from A") {
		t.Errorf("the summary is %q", s)
	}
}

// What is certain and does not matter does not hide what is near to a difference and
// does.
func TestSummaryNamesTheNearestBesideTrifles(t *testing.T) {
	far := change(0, -1, 1, 1, Same)
	tiny := Diff{Name: "l2norm", Layer: -1, base: 1e3, tested: true, Verdict: Faster, Median: change(-11, -14, -8, 0.001, Faster), Mean: far, P95: far}
	large := Diff{Name: "blk.1/down_proj", Layer: 1, base: 1e5, tested: true, Verdict: Same, Mean: change(20, 10, 30, 0.02, Same), Median: far, P95: far}
	c := byHand(tiny, Diff{Verdict: Same, Mean: change(1, -5, 7, 1, Same)})
	c.Plans[0].Steps = append(c.Plans[0].Steps, large)
	want := "B differs from A, but not in its time: the median of l2norm is 11.0 % faster (8.0 to 14.0). Nearest to a difference is the mean of blk.1/down_proj: +20.0 % (+10.0 to +30.0), with p = 0.02 after correction; more recordings in turn would tell."
	if s := c.Summary(); s != want {
		t.Errorf("the summary is %q, expected %q", s, want)
	}
	c.Plans[0].Steps[0].base = 2e5
	if s := c.Summary(); strings.Contains(s, "Nearest") {
		t.Errorf("the summary is %q", s)
	}
}

// A layer is called so, a row of one of several plans has its plan, and waits have their
// place.
func TestSummaryNamesRows(t *testing.T) {
	c := byHand(Diff{Verdict: Same}, Diff{Verdict: Same, Mean: change(9, 5, 13, 1, Same)})
	p := &c.Plans[0]
	p.Name, p.Phase = "generate T≤1", "decode"
	p.Layers = []Diff{{Name: "0", Layer: 0, base: 1e5, tested: true, Verdict: SlowerTail, P95: change(14, 9, 18, 0.001, Slower)}}
	if s := c.says(&p.Layers[0]); s != "the p95 of layer 0 is 14.0 % slower (9.0 to 18.0), the median is not" {
		t.Error(s)
	}
	p.Wait = Diff{Name: waitingRow, Layer: -1, points: true, base: 1e6, tested: true, Verdict: Slower, Median: change(12, 11, 13, 0.001, Slower)}
	for _, w := range []struct {
		name    string
		percent float64
		v       Verdict
	}{{"before pool, after norm", 3, Slower}, {"before act, after attn_norm", 8, Slower}, {"before glu, after act", -9, Faster}, {"before head, after gather", 11, Same}} {
		p.Waits = append(p.Waits, Diff{Name: w.name, Layer: -1, points: true, base: 1e6, tested: true, Verdict: w.v, Median: change(w.percent, w.percent, w.percent, 0.001, w.v)})
	}
	c.Plans = append(c.Plans, PlanDiff{Name: "generate T≤64", Phase: "prefill"})
	p = &c.Plans[0]
	if s := c.says(&p.Wait); s != "the median of (waiting) is 12.0 % of a run more (11.0 to 13.0), most of it before act, after attn_norm (8.0 %), in plan generate T≤1 decode" {
		t.Error(s)
	}
	if s := c.says(&p.Waits[0]); s != "the median of the wait before pool, after norm is 3.0 % of a run more (3.0 to 3.0), in plan generate T≤1 decode" {
		t.Error(s)
	}
}

// A scope that changed because one inside of it did is not named beside it, and all say
// which part of the recording they changed.
func TestSummaryNamesTheInnermostScope(t *testing.T) {
	scope := func(name string, added float64) ScopeDiff {
		return ScopeDiff{Name: name, Before: 1e6, After: 2e6, Added: added, Verdict: Slower, Change: change(100, 90, 110, 0.001, Slower)}
	}
	c := byHand(Diff{Verdict: Same}, Diff{Verdict: Same, Mean: change(1, -5, 7, 1, Same)})
	c.Scopes = []ScopeDiff{scope("open model", 5), scope("open model/compile", 4.8), scope("open model/compile/pack weights", 4.5), scope("sample", 2), scope("sample/sort", 0.5)}
	s := c.Summary()
	want := "The median call of scope open model/compile/pack weights is 100.0 % slower (90.0 to 110.0): 1.000 ms became 2.000, 4.5 % of the recording more. The median call of scope sample is 100.0 % slower (90.0 to 110.0): 1.000 ms became 2.000, 2.0 % of the recording more. The median call of scope sample/sort "
	if !strings.HasPrefix(s, want) {
		t.Errorf("the summary is %q", s)
	}
}

// What is certain is not named as near to a difference, though other rows make up for it
// or only its slowest runs matter.
func TestNearestIsNotCertain(t *testing.T) {
	far := change(0, -1, 1, 1, Same)
	row := func(name string, percent float64, v Verdict) Diff {
		return Diff{Name: name, Layer: -1, base: 1e5, tested: true, Verdict: v, Median: far, Mean: change(percent, percent-3, percent+3, 0.001, v), P95: far}
	}
	c := byHand(row("add", 20, Slower), Diff{Verdict: Same, Mean: far})
	c.Plans[0].Steps = append(c.Plans[0].Steps, row("norm", -20, Faster))
	tail := Diff{Name: "attention", Layer: -1, base: 1e5, tested: true, Verdict: SlowerTail, Median: far, Mean: far, P95: change(40, 30, 50, 0.001, Slower)}
	for _, c := range []*Comparison{c, byHand(tail, Diff{Verdict: Same, Mean: far})} {
		if s := c.Summary(); strings.Contains(s, "Nearest") || !strings.HasPrefix(s, "B differs from A") {
			t.Errorf("the summary is %q", s)
		}
	}
}

// Where lanes of runs differ, no sentence says that nothing in runs does.
func TestSummaryOfLanesDoesNotContradictItself(t *testing.T) {
	whole := Diff{Verdict: Same, Mean: change(1, -5, 7, 1, Same)}
	const none = "No difference of time was found in runs"
	c := byHand(Diff{Verdict: Same}, whole)
	c.Total.After = 1.01e6
	c.Ledger = []LedgerDiff{{Of: "embed.coarse", Column: "dispatch", NoRun: true, Verdict: MoreTime, Change: change(10, 8, 12, 0.001, Slower)}}
	if s := c.Summary(); !strings.Contains(s, none) {
		t.Errorf("the summary is %q", s)
	}
	for _, d := range []*Comparison{
		{Ledger: []LedgerDiff{{Of: "embed", Column: "barrier", Verdict: MoreTime, Change: change(10, 8, 12, 0.001, Slower)}}},
		{Uneven: []UnevenDiff{{Step: "gelu", Verdict: FewerLanes, Lanes: [2]float64{2, 1}, Change: change(0, -1, 1, 1, Same)}}},
	} {
		d.Plans, d.Total = c.Plans, c.Total
		if s := d.Summary(); strings.Contains(s, none) || !strings.HasSuffix(s, "Whole runs are not certain to differ: B took 1.0 % longer than A.") {
			t.Errorf("the summary is %q", s)
		}
	}
}
