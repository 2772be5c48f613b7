package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/profile"
)

// What one of few ops did is not common to all, whatever it makes of the median of them and
// of the time of all. The times are those of MiniLM, whose attention was slowed by 40 per cent.
func TestOneOpIsNotCommon(t *testing.T) {
	for _, c := range []struct {
		name string
		by   [4]float64
		want bool
	}{
		{"attention alone", [4]float64{0.01, 0.00, 0.016, 0.334}, false},
		{"the machine", [4]float64{0.07, 0.05, 0.06, 0.08}, true},
		{"short ops alone", [4]float64{0.07, 0.08, 0.01, 0.06}, false},
		{"the machine, and linear even more", [4]float64{0.07, 0.07, 0.4, 0.07}, true},
	} {
		rng := rand.New(rand.NewPCG(3, 1))
		e := evidence{recs: [2]int{10, 10}, paired: true}
		e.votes[ofKinds] = len(c.by)
		blocks := func(by float64) (x blockValues) {
			for m := range x {
				for side := range x[m] {
					for range e.recs[side] {
						x[m][side] = append(x[m][side], []float64{float64(side)*by + 0.01*rng.NormFloat64()})
					}
				}
			}
			return x
		}
		for i, before := range []float64{0.14, 0.97, 27.1, 4.7} {
			e.rows = append(e.rows, evidenceRow{diff: &Diff{Before: before}, level: ofKinds, votes: true, whole: blocks(c.by[i])})
		}
		e.shifts[ofKinds] = blocks(0.068)
		if got := e.agreed(); got[ofKinds] != c.want {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
		e.shifts[ofKinds] = blocks(0)
		if mid := e.shift(Mean, e.shifts[ofKinds][Mean]).mid; !e.agreed()[ofKinds] {
			t.Errorf("%s: a median that moved by %.4f is not common", c.name, math.Abs(mid))
		}
	}
}

// If just under half of the ops changed, the median of all ops stands still, and that of the
// others, which an op is compared with, does not. Ops that did not change are not called then.
func TestOpsThatDidNotChangeAreNotCalled(t *testing.T) {
	slow := func(s *profile.Step) float64 {
		return timesIf(s.Op == "attention" || s.Op == "norm" || s.Op == "gelu", 1.15)
	}
	for _, m := range machines[:2] {
		rng := rand.New(rand.NewPCG(71, 5))
		alarms, wrong := 0, 0
		for range 20 {
			c := compare(t, madeInTurn(0, m.records(rng, 6, 30, asIs)), madeInTurn(1, m.records(rng, 6, 30, slow)))
			p := &c.Plans[0]
			if slices.ContainsFunc(p.Kinds, func(d Diff) bool {
				return d.Name != "attention" && d.Name != "norm" && d.Name != "gelu" && d.Changed()
			}) {
				alarms++
			}
			if mid, _, _ := c.Real(); mid < 0 && slices.ContainsFunc(p.Kinds, func(d Diff) bool { return d.Changed() }) {
				wrong++
			}
		}
		if alarms > 0 || wrong > 0 {
			t.Errorf("%s: ops that did not change are called in %d of 20, and B is called faster in %d", m.name, alarms, wrong)
		}
	}
}

// If changes are whole, what all steps did is the sum of the rows: it comes after them, and
// they are not added to it.
func TestWholeChangesAreCountedOnce(t *testing.T) {
	changed := func(name string, percent float64) Diff {
		low, high := percent-1, percent+1
		ch := Change{Percent: percent, Verdict: Slower, Low: &low, High: &high}
		return Diff{Name: name, Layer: -1, Before: 100, base: 100, Verdict: Slower, tested: true, Mean: ch, Median: ch}
	}
	same := Diff{Name: "linear", Layer: -1, Before: 100, base: 100, Verdict: Same}
	c := &Comparison{Total: Diff{Before: 200}, Plans: []PlanDiff{{Runs: [2]int64{1, 1}, Whole: true, Total: same, Wait: same,
		Kinds: []Diff{same, changed("attention", 10)}, Common: changed("(all steps)", 12)}}}
	if d := c.Different(); len(d) != 2 || d[0].Name != "attention" || d[1].Name != "(all steps)" {
		t.Errorf("%d rows, the first is %q", len(d), d[0].Name)
	}
	if mid, _, _ := c.Real(); math.Abs(mid-6) > 0.01 {
		t.Errorf("%.2f %%, expected that of all steps", mid)
	}
	c.Plans[0].WholeLayers = true
	if mid, _, _ := c.Real(); math.Abs(mid-6) > 0.01 {
		t.Errorf("%.2f %%, expected that of all steps", mid)
	}
	c.Plans[0].Whole = false
	if d, mid := c.Different(), 0.0; d[0].Name != "(all steps)" {
		t.Errorf("what all have in common is larger than %q beyond it", d[0].Name)
	} else if mid, _, _ = c.Real(); math.Abs(mid-11) > 0.01 {
		t.Errorf("%.2f %%, expected both", mid)
	}
}
