package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"hotpath/profile"
	"hotpath/profile/report"
)

func compare(t *testing.T, a, b []*profile.Profile) *Comparison {
	t.Helper()
	c, err := Compare(a, b, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func asIs(*profile.Step) float64 { return 1 }

func slowAttention(s *profile.Step) float64 {
	if s.Op == "attention" {
		return 1.2
	}
	return 1
}

// Two recordings of one build compare as no difference in at least 49 of 50
// trials, on every machine; a build with one slower op is found where the
// machine allows it, and never in the wrong direction.
func TestCompareTellsNoiseFromChange(t *testing.T) {
	const trials = 50
	least := map[string]int{"quiet": 40} // that one recording of each must find
	for _, m := range machines {
		for _, c := range []struct{ recs, runs int }{{1, 12}, {1, 60}, {4, 20}} {
			if c.runs == 12 && m.name != "drifting" {
				continue // the hardest of the short ones
			}
			name := fmt.Sprintf("%s, %d of %d runs", m.name, c.recs, c.runs)
			if testing.Short() && m.name != "shared" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(7, uint64(c.runs)))
				noise, found := 0, 0
				var size float64
				for range trials {
					a := m.records(rng, c.recs, c.runs, asIs)
					if len(compare(t, a, m.records(rng, c.recs, c.runs, asIs)).Different()) > 0 {
						noise++
					}
					d := compare(t, a, m.records(rng, c.recs, c.runs, slowAttention)).Plans[0].kindOf("attention")
					if d.Verdict == Faster {
						t.Errorf("attention is %.1f %% faster, p %v", d.Median.Percent, d.Median.Holm)
					}
					if d.Verdict == Slower {
						found++
						size += d.Median.Percent
					}
				}
				t.Logf("%d of %d differ of one build; attention 20 %% slower is found in %d, as %.1f %%", noise, trials, found, size/float64(max(1, found)))
				if noise > trials/50 {
					t.Errorf("%d of %d recordings of one build compare as different", noise, trials)
				}
				want := least[m.name]
				if c.recs > 1 && (m.name == "quiet" || m.name == "shared") {
					want = 45
				}
				if c.runs > 12 && found < want {
					t.Errorf("a kind that is 20 %% slower was found in %d of %d, want %d", found, trials, want)
				}
			})
		}
	}
}

// Where neighbours slow the products of this machine by a third from one moment
// to the next, recordings that were made in turn still show that attention is
// slower, and those of one build do not differ. When they were made says which
// belong together: without it less is found.
func TestCompareTakesRecordingsInTurn(t *testing.T) {
	const trials, pairs = 100, 5
	m := &machines[1]
	rng := rand.New(rand.NewPCG(17, 1))
	sides := func(slow func(*profile.Step) float64) (a, b []*profile.Profile) {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range pairs {
			all, products := math.Exp(0.2*rng.NormFloat64()), math.Exp(0.3*rng.NormFloat64())
			level := func(f float64, s *profile.Step) float64 {
				if s.Op == "linear" || s.Op == "attention" { // both are products
					f *= products
				}
				return f * all
			}
			x := m.record(rng, 20, func(s *profile.Step) float64 { return level(1, s) })
			y := m.record(rng, 20, func(s *profile.Step) float64 { return level(slow(s), s) })
			x.Created, y.Created = at.Add(time.Second), at.Add(2*time.Second)
			if rng.IntN(2) == 0 {
				x.Created, y.Created = y.Created, x.Created
			}
			at = at.Add(2 * time.Second)
			a, b = append(a, x), append(b, y)
		}
		rng.Shuffle(pairs, func(i, j int) { a[i], a[j] = a[j], a[i] }) // the times say which belong together
		return a, b
	}
	noise, found, blind := 0, 0, 0
	for range trials {
		a, b := sides(asIs)
		if len(compare(t, a, b).Different()) > 0 {
			noise++
		}
		a, b = sides(slowAttention)
		d := compare(t, a, b).Plans[0].kindOf("attention")
		if d.Verdict == Slower && math.Abs(d.Median.Percent-20) < 8 {
			found++
		}
		for _, p := range append(a, b...) {
			p.Created = time.Time{}
		}
		if compare(t, a, b).Plans[0].kindOf("attention").Verdict == Slower {
			blind++
		}
	}
	t.Logf("%d of %d differ of one build; attention is found in %d, without the times in %d", noise, trials, found, blind)
	if noise > trials/50 || found < 90 || blind >= found {
		t.Errorf("%d of %d differ of one build; attention is found in %d, without the times in %d", noise, trials, found, blind)
	}
}

func (p *PlanDiff) kindOf(name string) *Diff {
	for i := range p.Kinds {
		if p.Kinds[i].Name == name {
			return &p.Kinds[i]
		}
	}
	return &Diff{Name: "no " + strings.ToUpper(name)}
}

// The difference is divided exactly, and every part of it has a name.
func TestCompareDividesExactly(t *testing.T) {
	m := &machines[0]
	rng := rand.New(rand.NewPCG(3, 3))
	a := m.record(rng, 40, asIs)
	b := m.record(rng, 80, func(s *profile.Step) float64 {
		if s.Op == "gelu" {
			return 3
		}
		return 1
	})
	work := func(p *profile.Profile, step int, by int64) { // as much more of everything
		s := &p.Plans[0]
		s.Stats[step].FLOPs *= by
		s.Stats[step].Bytes *= by
		for i := range s.Samples.Steps[step].FLOPs {
			s.Samples.Steps[step].FLOPs[i] *= by
			s.Samples.Steps[step].Bytes[i] *= by
		}
		more := s.Stats[step].LaneCompute[0] * (by - 1)
		s.Stats[step].LaneCompute[0] += more
		s.Ledger.Compute += more
		s.Ledger.LaneTime += more
		s.Ledger.Wall += more / 2
		for i := range s.Samples.Steps[step].Compute {
			s.Samples.Steps[step].Compute[i] *= by
		}
	}
	work(b, 1, 2) // the first linear step has twice the work
	c := compare(t, []*profile.Profile{a}, []*profile.Profile{b})
	p := &c.Plans[0]
	for _, rows := range [][]Diff{p.Steps, p.Kinds, p.Layers, {p.Wait, p.Common, c.Total}} {
		for i := range rows {
			d := &rows[i]
			if parts := d.Work + d.Efficiency + d.Wait; math.Abs(parts-d.Delta()) > 1e-6*d.Before {
				t.Errorf("%s: %v + %v + %v is not %v", d.Name, d.Work, d.Efficiency, d.Wait, d.Delta())
			}
		}
	}
	sum := func(rows []Diff) (before, delta float64) {
		for i := range rows {
			before += rows[i].Before - rows[i].waited
			delta += rows[i].Work + rows[i].Efficiency
		}
		return before, delta
	}
	b1, d1 := sum(p.Steps)
	for name, rows := range map[string][]Diff{"kinds": p.Kinds, "layers": p.Layers} {
		if b2, d2 := sum(rows); math.Abs(b1-b2) > 1 || math.Abs(d1-d2) > 1 {
			t.Errorf("%s add up to %v and %v, steps to %v and %v", name, b2, d2, b1, d1)
		}
	}
	first := &p.Steps[1]
	if first.Verdict != MoreWork || math.Abs(first.Work/900e3-1) > 0.1 || math.Abs(first.Median.Percent) > 5 || first.FLOPs != [2]int64{1e6, 2e6} {
		t.Errorf("a step with twice the work: %+v", *first)
	}
	if d := p.kindOf("gelu"); d.Verdict != Slower || math.Abs(d.Median.Percent-200) > 20 {
		t.Errorf("a kind that takes three times as long: %+v", *d)
	}
	if mid, low, high := c.Real(); mid < 2 || mid > 8 || low > mid || high < mid { // 0.9 ms of work and 1.1 of time in 25
		t.Errorf("really slower by %v %% (%v to %v)", mid, low, high)
	}
	if got := p.kindOf("attention"); got.Changed() {
		t.Errorf("attention changed: %+v", *got)
	}
}

// A step that was fused meets its parts; a plan that one side lacks is named.
func TestCompareMatches(t *testing.T) {
	a, b := fixture(t), fixture(t)
	s := &b.Plans[0]
	s.Steps[1].Nodes = s.Steps[1].Nodes[:2]
	s.Steps[1].Name = "blk.0/attn/k_proj"
	s.Steps[2].Nodes = []profile.Node{{Name: "blk.0/attn/rope", Op: "rope", Share: 0.5}, {Name: "blk.0/attn/attend", Op: "attention", Share: 0.5}}
	b.Plans[1].ID = "other"
	c, err := Compare([]*profile.Profile{a}, []*profile.Profile{b}, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Plans) != 1 || len(c.OnlyA) != 1 || len(c.OnlyB) != 1 || c.OnlyB[0] != "other" {
		t.Errorf("plans %d, only in A %v, only in B %v", len(c.Plans), c.OnlyA, c.OnlyB)
	}
	var text strings.Builder
	if err := c.Text(&text, report.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not compared  plan decode ran in A (a) and never in B, so no table contains its time", "not compared  plan other ran in B (b) and never in A"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	rows := c.Plans[0].Steps
	if len(rows) != 4 || len(rows[1].a) != 2 || len(rows[1].b) != 2 || rows[1].Name != "blk.0/attn/qkv + attend" {
		t.Errorf("rows %+v", rows)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "4 and 4 runs are too few") {
		t.Errorf("warnings %v", c.Warnings)
	}
	b.Plans = b.Plans[1:]
	b.Runs = nil
	if _, err := Compare([]*profile.Profile{a}, []*profile.Profile{b}, "a", "b"); err == nil || !strings.Contains(err.Error(), "no plan in common") {
		t.Errorf("error %v", err)
	}
}

func TestHodgesLehmann(t *testing.T) {
	mid, sd := hodgesLehmann([]float64{1, 2, 3, 4, 5, 6}, []float64{3, 4, 5, 6, 7, 8})
	if mid != 2 || sd < 0.5 || sd > 2 {
		t.Errorf("shift %v, standard error %v", mid, sd)
	}
}

// slowerComparison is of a build whose attention takes half as long again.
func slowerComparison(t *testing.T) *Comparison {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	m := &machines[0]
	return compare(t, m.records(rng, 1, 60, asIs), m.records(rng, 1, 60, func(s *profile.Step) float64 {
		if s.Op == "attention" {
			return 1.5
		}
		return 1
	}))
}
