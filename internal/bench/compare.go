package bench

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"

	"hotpath/profile/compare"
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
	// TooFew is said where no samples, however far apart, would have shown a
	// difference, and NotJudged of the machine's own ceilings.
	TooFew    Verdict = "too few samples"
	NotJudged Verdict = "not judged"
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
	need  int // samples of each side, where there are too few
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

// ErrUnit reports that the units that were asked for are in neither report, or
// not in both.
var ErrUnit = errors.New("no such unit")

// ceilingNames begin the names of the ceilings, ours and go test's. They are the
// machine's, and no program made them better or worse.
var ceilingNames = []string{"Ceiling/", "Cases/Ceiling/"}

func (c *Change) isCeiling() bool {
	return slices.ContainsFunc(ceilingNames, func(p string) bool { return strings.HasPrefix(c.Name, p) })
}

// Compare compares the cases that both reports have, in the units that only
// matches, or without it in all that say something of their own.
func Compare(before, after *Data, only *regexp.Regexp) (*Comparison, error) {
	c := &Comparison{Changes: []Change{}, OnlyOld: missing(before, after), OnlyNew: missing(after, before), Warnings: []string{}}
	for _, key := range []string{"goos", "goarch", "cpu", "tier", "threads"} {
		if a, b := before.Machine[key], after.Machine[key]; a != b && a != "" && b != "" {
			c.warn("%s differs (%q and %q): the change may be the machine's", key, a, b)
		}
	}
	var units []string // that both have of a case
	for i := range before.Series {
		a := &before.Series[i]
		b := after.series(a.Name, a.Unit)
		if b != nil && !slices.Contains(units, a.Unit) {
			units = append(units, a.Unit)
		}
		switch {
		case b == nil:
			continue
		case only != nil && !only.MatchString(a.Unit):
			continue
		case only == nil && slices.Contains(derived, a.Unit) && before.series(a.Name, "ns/op") != nil && after.series(a.Name, "ns/op") != nil:
			continue
		}
		c.Changes = append(c.Changes, c.change(before, after, a, b))
	}
	switch {
	case len(units) > 0 && len(c.Changes) == 0:
		return nil, fmt.Errorf("%w: the results that %s and %s have in common have the units %s", ErrUnit, before.File, after.File, strings.Join(units, ", "))
	case len(c.Changes) == 0:
		return nil, fmt.Errorf("%s and %s have no benchmark in common", before.File, after.File)
	}
	c.judge(before)
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
func (c *Comparison) change(before, after *Data, a, b *Series) Change {
	x, y := newSample(a), newSample(b)
	ch := Change{Name: a.Name, Unit: a.Unit}
	ch.exact = before.Units[a.Unit].Assume == "exact" && after.Units[a.Unit].Assume == "exact"
	var assume benchmath.Assumption = benchmath.AssumeNothing
	if ch.exact {
		assume = benchmath.AssumeExact
	}
	ch.Old, ch.New = c.side(before, a, assume, x), c.side(after, b, assume, y)
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
	return benchmath.NewSample(slices.Clone(s.Samples), &benchmath.Thresholds{CompareAlpha: compare.Alpha})
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
func (c *Comparison) judge(before *Data) {
	families := map[string][]int{}
	var order []string
	for i := range c.Changes {
		unit := c.Changes[i].Unit
		if ch := &c.Changes[i]; ch.isCeiling() {
			ch.Holm, ch.Verdict = ch.P, NotJudged
			continue
		}
		if families[unit] == nil {
			order = append(order, unit)
		}
		families[unit] = append(families[unit], i)
	}
	for _, unit := range order {
		family := families[unit]
		p := make([]float64, len(family))
		for j, i := range family {
			p[j] = c.Changes[i].P
		}
		least := math.MaxInt // samples of a case that has too few
		for j, q := range compare.Holm(p) {
			ch := &c.Changes[family[j]]
			ch.Holm = q
			better := before.better(unit)
			if ch.exact { // flops/op that change are other work, not worse work, unless the report says so
				better = before.declared(unit)
			}
			ch.Verdict, ch.bad = verdict(ch, better)
			if ch.Verdict == NoDifference && !ch.exact && !ch.canDiffer(len(family)) {
				ch.Verdict, ch.need = TooFew, compare.SamplesFor(len(family))
				least = min(least, ch.Old.N, ch.New.N)
			}
		}
		if least < math.MaxInt {
			c.warn("%s: %d samples of %d cases cannot show a difference; %d or more of each can", unit, least, len(family), compare.SamplesFor(len(family)))
		}
	}
}

// canDiffer says whether so many samples can show a difference among tests: the
// least probability is 2 of all the ways to divide them.
func (c *Change) canDiffer(tests int) bool {
	a, b := min(c.Old.N, c.New.N), max(c.Old.N, c.New.N)
	ways := 1.0
	for i := 1; i <= a && ways < 1e15; i++ {
		ways *= float64(b+i) / float64(i)
	}
	return 2*float64(tests)/ways < compare.Alpha
}

func verdict(c *Change, better int) (v Verdict, bad bool) {
	grew := c.New.Median > c.Old.Median
	switch {
	case c.exact && c.New.Median == c.Old.Median:
		return Same, false
	case !c.exact && c.Holm >= compare.Alpha || c.New.Median == c.Old.Median:
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

// Unjudged is the error of a comparison that says nothing of some cases or of
// all of them, and could not have found them worse; nil where it says something
// of each.
func (c *Comparison) Unjudged() error {
	judged := false
	for i := range c.Changes {
		switch ch := &c.Changes[i]; ch.Verdict {
		case TooFew:
			return fmt.Errorf("too few samples to judge: %s in %s has %d and %d, expected %d or more of each", ch.Name, ch.Unit, ch.Old.N, ch.New.N, ch.need)
		case NotJudged:
		default:
			judged = true
		}
	}
	if !judged {
		return errors.New("nothing to judge: only ceilings are in common")
	}
	return nil
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
