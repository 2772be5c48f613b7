package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hotpath/profile"
	"hotpath/profile/report"
)

// injected is a change that was made on purpose: what compare must find, and
// how large.
type injected struct {
	name string
	slow func(rng *rand.Rand) func(*profile.Step) float64
	// row is where it must be found, and size how large it is by measure, in
	// per cent; 0 is not held.
	row  func(*PlanDiff) *Diff
	size [measures]float64
}

var injections = []injected{
	{"one op by 20 %", func(*rand.Rand) func(*profile.Step) float64 {
		return func(s *profile.Step) float64 { return timesIf(s.Op == "attention", 1.2) }
	}, func(p *PlanDiff) *Diff { return p.kindOf("attention") }, [measures]float64{Median: 20, Mean: 20}},
	{"one layer by 25 %", func(*rand.Rand) func(*profile.Step) float64 {
		return func(s *profile.Step) float64 { return timesIf(s.Layer == 3, 1.25) }
	}, func(p *PlanDiff) *Diff { return p.layerOf(3) }, [measures]float64{Median: 25, Mean: 25}},
	{"one call in ten 6 times", func(rng *rand.Rand) func(*profile.Step) float64 {
		return func(s *profile.Step) float64 { return timesIf(s.Op == "attention" && rng.Float64() < 0.1, 6) }
	}, func(p *PlanDiff) *Diff { return p.kindOf("attention") }, [measures]float64{Mean: 50}},
}

func timesIf(on bool, f float64) float64 {
	if on {
		return f
	}
	return 1
}

func (p *PlanDiff) layerOf(n int) *Diff {
	for i := range p.Layers {
		if p.Layers[i].Layer == n {
			return &p.Layers[i]
		}
	}
	return &Diff{Name: "no layer"}
}

// Changes that were made on purpose are found in 18 of 20 trials where the
// machine allows it, and sized within their intervals, which contain their
// estimates. One call in ten that takes six times as long fails --fail-above 3%.
func TestCompareFindsInjectedChanges(t *testing.T) {
	const trials = 20
	m := &machines[0]
	for _, c := range []struct{ recs, runs int }{{1, 120}, {5, 30}} {
		for _, in := range injections {
			t.Run(fmt.Sprintf("%s, %d of %d runs, %s", m.name, c.recs, c.runs, in.name), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(31, uint64(c.runs)))
				found, sized, failed := 0, 0, 0
				for range trials {
					a, b := m.records(rng, c.recs, c.runs, asIs), m.records(rng, c.recs, c.runs, in.slow(rng))
					cmp := compare(t, a, b)
					holdsEstimates(t, cmp)
					d := in.row(&cmp.Plans[0])
					// One recording of each may show it in single steps only.
					if named := func(d Diff) bool { return d.Verdict == Slower || d.Verdict == SlowerTail }; named(*d) || slices.ContainsFunc(cmp.Plans[0].Steps, func(s Diff) bool { return s.kind == d.Name && named(s) }) {
						found++
					}
					ok := true
					for k, want := range in.size {
						low, high := d.Of(Measure(k)).bounds()
						ok = ok && (want == 0 || low <= want && want <= high)
					}
					if ok {
						sized++
					}
					if worst, _ := cmp.Worst(); worst > 3 {
						failed++
					}
				}
				t.Logf("found in %d, sized in %d, more than 3 %% in %d of %d", found, sized, failed, trials)
				if found < 18 || sized < 18 {
					t.Errorf("found in %d and sized in %d of %d, expected 18", found, sized, trials)
				}
				if strings.HasPrefix(in.name, "one call") && failed < 18 {
					t.Errorf("--fail-above 3%% catches the tail in %d of %d, expected 18", failed, trials)
				}
			})
		}
	}
}

// holdsEstimates fails where an interval does not contain its estimate.
func holdsEstimates(t *testing.T, c *Comparison) {
	t.Helper()
	for i := range c.Plans {
		p := &c.Plans[i]
		for _, rows := range [][]Diff{p.Kinds, p.Layers, p.Steps, {p.Total, p.Common, p.Wait}} {
			for k := range rows {
				for m := range measures {
					ch := rows[k].Of(m)
					if low, high := ch.bounds(); low > ch.Percent || high < ch.Percent {
						t.Errorf("%s of %s: %v is not within %v to %v", m, rows[k].Name, ch.Percent, low, high)
					}
					if low, high := ch.bounds(); ch.judged() && low <= 0 && high >= 0 {
						t.Errorf("%s of %s is %s, and its interval %v to %v has 0 in it", m, rows[k].Name, ch.Verdict, low, high)
					}
				}
			}
		}
	}
	if mid, low, high := c.Real(); low > mid || high < mid {
		t.Errorf("%v %% in all is not within %v to %v", mid, low, high)
	}
}

// The same texts in other batches are no more work and no slower, whichever plan
// has computed them.
func TestCompareAcrossBatches(t *testing.T) {
	const trials = 50
	m := &machines[0]
	rng := rand.New(rand.NewPCG(37, 1))
	different := 0
	for range trials {
		// The same tokens each time, cut anew.
		batches := func() []int {
			var out []int
			for left := 60 * simTokens; left > 0; {
				n := min(left, simTokens/4+rng.IntN(3*simTokens/2))
				out = append(out, n)
				left -= n
			}
			return out
		}
		c := compare(t, []*profile.Profile{m.recordSizes(rng, batches(), asIs)}, []*profile.Profile{m.recordSizes(rng, batches(), asIs)})
		if d := c.Different(); len(d) > 0 {
			different++
			t.Log(c.Summary())
		}
	}
	if different > 1 {
		t.Errorf("%d of %d differ by their batches alone", different, trials)
	}
	// One batch of 150 is cut in two: less than a per cent more runs read the weights.
	whole := make([]int, 150)
	for i := range whole {
		whole[i] = simTokens
	}
	cut := append(slices.Clone(whole[1:]), simTokens/2, simTokens/2)
	for _, d := range compare(t, []*profile.Profile{m.recordSizes(rng, whole, asIs)}, []*profile.Profile{m.recordSizes(rng, cut, asIs)}).Different() {
		t.Errorf("one batch was cut in two: %s: %s", d.Name, d.Verdict)
	}
	// Attention of one side lies in another plan: the texts are the same.
	a, b := m.record(rng, 40, asIs), m.record(rng, 40, asIs)
	for _, p := range []*profile.Profile{a, b} {
		other := m.record(rng, 40, asIs).Plans[0]
		other.ID = "other"
		p.Plans = append(p.Plans, other)
	}
	for _, k := range []int{0, 1} { // as if B's longer texts had gone to the other plan
		st := &b.Plans[k].Stats[5]
		st.FLOPs += int64(4*k-2) * st.FLOPs / 4
	}
	for _, d := range compare(t, []*profile.Profile{a}, []*profile.Profile{b}).Different() {
		t.Errorf("%s: %s", d.Name, d.Verdict)
	}
	b.Plans[0].Stats[5].FLOPs *= 2 // more of it in all
	if d := compare(t, []*profile.Profile{a}, []*profile.Profile{b}).Plans[1].kindOf("attention"); d.Verdict != MoreWork {
		t.Errorf("more FLOPs in all are %q", d.Verdict)
	}
}

// Where no shift of all steps is found none is taken off, and where one is, the
// report says how much.
func TestCommonShiftOnlyWhereReal(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	m := &machines[0]
	taken := 0
	for range 20 {
		flat := *m
		flat.recording, flat.drift = 0, 0 // the machine is as fast in both
		c := compare(t, []*profile.Profile{flat.record(rng, 60, asIs)}, []*profile.Profile{flat.record(rng, 60, slowAttention)})
		if c.Plans[0].Shift[Median] != 0 {
			taken++
		}
	}
	if taken > 1 {
		t.Errorf("a shift of all steps is taken off in %d of 20 comparisons without one", taken)
	}
	c := compare(t, []*profile.Profile{m.record(rng, 60, asIs)}, []*profile.Profile{m.record(rng, 60, func(*profile.Step) float64 { return 1.2 })})
	var text strings.Builder
	if err := c.Text(&text, report.Options{}); err != nil {
		t.Fatal(err)
	}
	if shift := c.Plans[0].Shift[Median]; shift < 15 || shift > 25 || !strings.Contains(text.String(), "beyond what all steps have in common: median +") {
		t.Errorf("a shift of 20 %% reads as %v:\n%s", shift, text.String())
	}
}

// A build that holds more memory and is as fast as before differs in its memory
// only.
func TestCompareMemoryOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 1))
	m := &machines[0]
	held := func(weights, heap int64) *profile.Profile {
		p := m.record(rng, 60, asIs)
		p.Memory = map[string]int64{"weights": weights << 20, "go heap objects": heap << 20}
		p.Plans[0].MemoryBytes = map[string]int64{"activation": 8 << 20}
		return p
	}
	a, b := held(100, 50), held(164, 70)
	c := compare(t, []*profile.Profile{a}, []*profile.Profile{b})
	var changed []string
	for i := range c.Memory {
		if c.Memory[i].Changed() {
			changed = append(changed, c.Memory[i].Class+" "+string(c.Memory[i].Verdict))
		}
	}
	if len(c.Memory) != 3 || len(changed) != 1 || changed[0] != "weights more memory" || len(c.Different()) > 0 {
		t.Errorf("%v of %+v; %s", changed, c.Memory, c.Summary())
	}
	if s := c.Summary(); !strings.Contains(s, "weights of process: 100.00 MiB became 164.00") {
		t.Error(s)
	}
}
