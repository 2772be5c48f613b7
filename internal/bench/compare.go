package bench

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	"golang.org/x/perf/benchmath"

	"hotpath/profile"
)

// Verdict is what the statistics say about one case in one unit.
type Verdict string

// The verdicts. Faster and Slower are said of times and rates, Better and Worse
// of what else has a good direction, Changed of what has none.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	Changed      Verdict = "changed"
	Same         Verdict = "same"
	NoDifference Verdict = "no difference"
)

// Side is one report's samples of a case.
type Side struct {
	Median float64 `json:"median"`
	Spread string  `json:"spread"` // of the median's 95 % interval; ∞ where there are too few samples for one
	N      int     `json:"n"`
}

// Change is one case in one unit, before and after.
type Change struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Old  Side   `json:"old"`
	New  Side   `json:"new"`
	// Percent is how much the median moved; nil where it was 0 and is not.
	Percent *float64 `json:"percent"`
	P       float64  `json:"p"`      // of the Mann-Whitney U test, two-sided
	Holm    float64  `json:"p_holm"` // P, corrected for the number of cases in this unit
	Verdict Verdict  `json:"verdict"`

	bad   bool // a real change for the worse
	exact bool
}

// Worsened says whether a case got worse, for real and by more than percent.
func (c *Change) Worsened(percent float64) bool {
	return c.bad && (c.Percent == nil || math.Abs(*c.Percent) > percent)
}

// Comparison is what changed between two reports.
type Comparison struct {
	Changes  []Change `json:"changes"`
	OnlyOld  []string `json:"only_old"`
	OnlyNew  []string `json:"only_new"`
	Warnings []string `json:"warnings"`
}

// derived are units that follow from a case's time and its work. They are
// compared where there is no time, and where somebody asks for them.
var derived = []string{"tok/s", "GFLOP/s", "GB/s", "MB/s", "%ceiling"}

// Compare compares the cases that both reports have, in the units that only
// matches, or without it in all that say something of their own.
func Compare(old, new *Data, only *regexp.Regexp) (*Comparison, error) {
	c := &Comparison{Changes: []Change{}, OnlyOld: missing(old, new), OnlyNew: missing(new, old), Warnings: []string{}}
	for _, key := range []string{"goos", "goarch", "cpu", "tier", "threads"} {
		if a, b := old.Machine[key], new.Machine[key]; a != b && a != "" && b != "" {
			c.warn("%s differs (%q and %q): the change may be the machine's", key, a, b)
		}
	}
	for i := range old.Series {
		a := &old.Series[i]
		b := new.series(a.Name, a.Unit)
		switch {
		case b == nil:
			continue
		case only != nil && !only.MatchString(a.Unit):
			continue
		case only == nil && slices.Contains(derived, a.Unit) && old.series(a.Name, "ns/op") != nil && new.series(a.Name, "ns/op") != nil:
			continue
		}
		c.Changes = append(c.Changes, c.change(old, new, a, b))
	}
	if len(c.Changes) == 0 {
		return nil, fmt.Errorf("%s and %s have no benchmark in common", old.File, new.File)
	}
	c.judge(old)
	return c, nil
}

func (c *Comparison) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// missing are the names of a that b has not, once each.
func missing(a, b *Data) []string {
	names, has := []string{}, map[string]bool{}
	for i := range b.Series {
		has[b.Series[i].Name] = true
	}
	for i := range a.Series {
		if name := a.Series[i].Name; !has[name] {
			has[name] = true
			names = append(names, name)
		}
	}
	return names
}

// change measures; judge says later what it means, once all are known.
func (c *Comparison) change(old, new *Data, a, b *Series) Change {
	x, y := newSample(a), newSample(b)
	ch := Change{Name: a.Name, Unit: a.Unit}
	ch.exact = old.Units[a.Unit].Assume == "exact" && new.Units[a.Unit].Assume == "exact"
	var assume benchmath.Assumption = benchmath.AssumeNothing
	if ch.exact {
		assume = benchmath.AssumeExact
	}
	ch.Old, ch.New = c.side(old, a, assume, x), c.side(new, b, assume, y)
	if !ch.exact {
		ch.P = benchmath.AssumeNothing.Compare(x, y).P
	}
	switch d := ch.New.Median - ch.Old.Median; {
	case d == 0:
		ch.Percent = &d
	case ch.Old.Median != 0:
		if p := 100 * d / math.Abs(ch.Old.Median); !math.IsInf(p, 0) && !math.IsNaN(p) {
			ch.Percent = &p
		}
	}
	return ch
}

func newSample(s *Series) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(s.Samples), &benchmath.Thresholds{CompareAlpha: profile.Alpha})
}

func (c *Comparison) side(d *Data, s *Series, assume benchmath.Assumption, x *benchmath.Sample) Side {
	sum := assume.Summary(x, 0.95)
	if assume == benchmath.AssumeExact {
		for _, w := range sum.Warnings {
			c.warn("%s: %s in %s: %v", d.File, s.Name, s.Unit, w)
		}
	}
	return Side{sum.Center, sum.PctRangeString(), len(s.Samples)}
}

// judge corrects the probabilities of each unit for the number of its cases:
// of a hundred that did not change, five would pass for changed otherwise.
func (c *Comparison) judge(old *Data) {
	families := map[string][]int{}
	var order []string
	for i := range c.Changes {
		unit := c.Changes[i].Unit
		if families[unit] == nil {
			order = append(order, unit)
		}
		families[unit] = append(families[unit], i)
	}
	for _, unit := range order {
		family := families[unit]
		p := make([]float64, len(family))
		least := math.MaxInt
		for j, i := range family {
			p[j] = c.Changes[i].P
			least = min(least, c.Changes[i].Old.N, c.Changes[i].New.N)
		}
		exact := false
		for j, q := range profile.Holm(p) {
			ch := &c.Changes[family[j]]
			exact = exact || ch.exact
			ch.Holm = q
			better := old.better(unit)
			if ch.exact { // flops/op that change are other work, not worse work, unless the report says so
				better = old.declared(unit)
			}
			ch.Verdict, ch.bad = verdict(ch, better)
		}
		if need := profile.SamplesFor(len(family)); !exact && least < need {
			c.warn("%s: %d samples of %d cases cannot show a difference; %d or more of each can", unit, least, len(family), need)
		}
	}
}

func verdict(c *Change, better int) (v Verdict, bad bool) {
	grew := c.New.Median > c.Old.Median
	switch {
	case c.exact && c.New.Median == c.Old.Median:
		return Same, false
	case !c.exact && c.Holm >= profile.Alpha || c.New.Median == c.Old.Median:
		return NoDifference, false
	case better == 0:
		return Changed, false
	}
	bad = grew != (better > 0)
	words := [2]Verdict{Better, Worse}
	if slices.Contains(derived, c.Unit) || slices.Contains([]string{"ns/op", "sec/op", "B/s"}, c.Unit) {
		words = [2]Verdict{Faster, Slower}
	}
	if bad {
		return words[1], true
	}
	return words[0], false
}

// Failures are the changes that are worse by more than percent.
func (c *Comparison) Failures(percent float64) []Change {
	var out []Change
	for i := range c.Changes {
		if c.Changes[i].Worsened(percent) {
			out = append(out, c.Changes[i])
		}
	}
	return out
}
