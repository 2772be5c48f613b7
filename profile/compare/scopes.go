package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// ScopeDiff is one scope before and after: what the host does outside of runs, and
// what contains them. Times are of one call, in nanoseconds: medians of a recording, and of
// these the mean over the recordings of a side. A row of its own has means of a recording
// (OfMean), because some calls may take nearly all of the time; with fewer than fewCalls
// calls there is only that one.
type ScopeDiff struct {
	Name string `json:"name"` // with the scopes around it: compile/pack weights
	// OutsideRuns: the row is what of the scope has no run in flight. Its calls are
	// the runs, and its time is per run, of B per as many tokens as a run of A has.
	OutsideRuns bool `json:"outside_runs,omitempty"`
	// OfMean: Before, After and Change are of the mean of all calls, not of the median.
	OfMean bool `json:"of_mean,omitempty"`

	Calls  [2]float64 `json:"calls"` // per recording, before and after
	Before float64    `json:"before_ns"`
	After  float64    `json:"after_ns"`
	Change Change     `json:"change"` // of the median call, or of the mean
	// Added is the change of all calls, in per cent of the time of A's recordings: by
	// their mean, if that is compared.
	Added   float64 `json:"added_percent"`
	Verdict Verdict `json:"verdict"`
}

// Changed reports whether the difference is more than noise.
func (d *ScopeDiff) Changed() bool { return d.Verdict == Slower || d.Verdict == Faster }

// outsideOfRuns ends the name of a row of OutsideRuns.
const outsideOfRuns = ", outside of runs"

// scopeFloor is the smallest change of a scope that is reported. Quantiles of calls
// are good to some per cent, and no other row shows what the machine did to a scope.
const scopeFloor = 0.1

// fewCalls of a scope have no median that says what they take.
const fewCalls = 8

// scopeCalls is a scope of one recording.
type scopeCalls struct{ calls, median, mean float64 }

func (s scopeCalls) ofMedian() float64 { return s.median }

func (s scopeCalls) ofMean() float64 { return s.mean }

// callsOf are the calls of a scope that was closed at least once.
func callsOf(s *profile.ScopeStats) scopeCalls {
	c := scopeCalls{calls: float64(s.Calls), median: float64(s.Call.P50)}
	if s.Call.Sum > 0 && s.Call.Count > 0 {
		c.mean = float64(s.Call.Sum) / float64(s.Call.Count)
	}
	return c
}

// compareScopes compares every scope that all recordings have. Only several
// recordings of each side can tell: the calls of one recording share its machine.
func compareScopes(a, b []*profile.Profile) []ScopeDiff {
	e, a, b := wholeRecordings(a, b)
	var walls []float64
	for _, p := range a {
		walls = append(walls, float64(p.Wall()))
	}
	whole := mean(walls)
	var found [2]map[string][]scopeCalls
	var order []string
	outside, sizes := map[string]bool{}, tokensPerRun(a)
	for side, profiles := range [2][]*profile.Profile{a, b} {
		found[side] = map[string][]scopeCalls{}
		for _, p := range profiles {
			for i, name := range scopePaths(p) {
				if s := &p.Scopes[i]; s.Call.P50 > 0 {
					if side == 0 && found[0][name] == nil {
						order = append(order, name)
					}
					found[side][name] = append(found[side][name], callsOf(s))
				}
			}
			if h, ok := p.OutsideRuns(); ok && h.Time > 0 {
				name := h.Scope.Name + outsideOfRuns
				if side == 0 && found[0][name] == nil {
					order = append(order, name)
				}
				outside[name] = true
				found[side][name] = append(found[side][name], scopeCalls{calls: float64(h.Runs), median: float64(h.Time) / allRuns(p, sizes)})
			}
		}
	}
	out := []ScopeDiff{}
	for _, name := range order {
		calls := [2][]scopeCalls{found[0][name], found[1][name]}
		if len(calls[0]) != len(a) || len(calls[1]) != len(b) {
			continue
		}
		all := slices.Concat(calls[0], calls[1])
		sums := !outside[name] && !slices.ContainsFunc(all, func(s scopeCalls) bool { return s.mean == 0 })
		if sums && slices.ContainsFunc(all, func(s scopeCalls) bool { return s.calls < fewCalls }) {
			several := slices.ContainsFunc(all, func(s scopeCalls) bool { return s.calls > 1 })
			out = append(out, newScopeDiff(ScopeDiff{Name: name, OfMean: several}, calls, scopeCalls.ofMean, e, whole))
			continue
		}
		row := newScopeDiff(ScopeDiff{Name: name, OutsideRuns: outside[name]}, calls, scopeCalls.ofMedian, e, whole)
		if !sums || apartBy(row.Calls[0], row.Calls[1], otherCalls) {
			out = append(out, row)
			continue
		}
		of := newScopeDiff(ScopeDiff{Name: name, OfMean: true}, calls, scopeCalls.ofMean, e, whole)
		row.Added = of.Added
		out = append(out, row, of)
	}
	return out
}

// otherCalls is the part by which the number of calls may differ where means are compared:
// a slow first call is a larger part of fewer calls.
const otherCalls = 0.15

// newScopeDiff fills a row with the times of the recordings' calls. whole is the time of a
// recording of A.
func newScopeDiff(d ScopeDiff, found [2][]scopeCalls, time func(scopeCalls) float64, e evidence, whole float64) ScopeDiff {
	d.Verdict, d.Change = Untested, Change{P: 1, Holm: 1, Verdict: Untested}
	var x [2][][]float64
	var times, calls [2][]float64
	for side := range found {
		for _, s := range found[side] {
			x[side] = append(x[side], []float64{math.Log(time(s))})
			times[side], calls[side] = append(times[side], time(s)), append(calls[side], s.calls)
		}
	}
	d.Before, d.After, d.Calls = mean(times[0]), mean(times[1]), [2]float64{mean(calls[0]), mean(calls[1])}
	d.Change.Percent = 100 * (d.After/d.Before - 1)
	d.Added = table.PercentOf(d.Calls[0]*(d.After-d.Before), whole)
	if e.repeated() && !e.apartInTime {
		growth := func(log float64) float64 { return 100 * math.Expm1(log) }
		s := e.shift(Median, x)
		s.freedom = min(s.freedom, moderation)
		d.Change.measure(s, scopeFloor, growth, true)
		d.Verdict = Same
	}
	return d
}

// allRuns is how many runs a recording has, as many of A's as have its tokens.
func allRuns(p *profile.Profile, sizes map[string]float64) (runs float64) {
	for i := range p.Plans {
		// By program: smaller batches are computed by other plans of it.
		s := &p.Plans[i]
		runs += asManyRuns(s.Ledger.Runs, s.Tokens, sizes[programOf(s)])
	}
	return runs
}

// scopePaths are the names of a recording's scopes with those around them. Parents
// come before their children.
func scopePaths(p *profile.Profile) []string {
	out := make([]string, len(p.Scopes))
	for i, s := range p.Scopes {
		if out[i] = s.Name; s.Parent >= 0 && s.Parent < i {
			out[i] = out[s.Parent] + "/" + s.Name
		}
	}
	return out
}

// judgeScopes corrects the scopes for their number, as a family of their own.
func (c *Comparison) judgeScopes() {
	var p []float64
	var of []*ScopeDiff
	for i := range c.Scopes {
		if d := &c.Scopes[i]; d.Verdict != Untested {
			p, of = append(p, d.Change.P), append(of, d)
		}
	}
	families := c.families()
	for i, h := range Holm(p) {
		of[i].Change.correct(h, families)
		of[i].Verdict = of[i].Change.Verdict
	}
}

// scopesTable lists scopes: those that changed first, then those that are near to it.
func (c *Comparison) scopesTable(top int) table.Table {
	f := folding{top: top}
	t := table.Table{Title: "scopes", Note: "ms of the median call; (mean): of the mean of all calls; the host's work, and what contains runs; outside of runs: without a run in flight, the mean of a run; noise is what two recordings of one build may differ by",
		Cols: []table.Col{table.Left("scope"), table.Right("calls"), table.Right("before"), table.Right("after"), table.Right("diff"), table.Right("change %"), table.Right("noise"), table.Left("verdict")}}
	rows := slices.SortedStableFunc(slices.Values(c.Scopes), func(a, b ScopeDiff) int {
		return cmp.Compare(min(a.Change.Holm, nearlyFalse), min(b.Change.Holm, nearlyFalse))
	})
	for i := range rows {
		d := &rows[i]
		f.add(&t, d.Verdict, !d.Changed() && d.Change.Holm >= nearlyFalse, markOf(d.Changed(), d.Verdict), d.label(), fmt.Sprintf("%.0f, %.0f", d.Calls[0], d.Calls[1]), table.Fms(d.Before), table.Fms(d.After), table.Signed(d.After-d.Before), d.Change.cell(), d.Change.noise(), string(d.Verdict))
	}
	f.close(&t)
	return t
}

// label names the row in the table.
func (d *ScopeDiff) label() string {
	if d.OfMean {
		return d.Name + " (mean)"
	}
	return d.Name
}

// says is the text of a scope that changed.
func (d *ScopeDiff) says() string {
	size, low, high, more := d.Change.spoken()
	of := ""
	if math.Abs(d.Added) >= 0.05 {
		of = fmt.Sprintf(", %.1f %% of the recording %s", math.Abs(d.Added), more)
	}
	if d.OutsideRuns {
		return fmt.Sprintf("Scope %s takes %s ms a run in place of %s: %+.1f %% (%+.1f to %s)%s.", d.Name, table.Fms(d.After), table.Fms(d.Before), d.Change.Percent, *d.Change.Low, d.Change.upTo(), of)
	}
	call := "The median call"
	switch {
	case d.OfMean:
		call = "The mean call"
	case d.Calls[0] == 1 && d.Calls[1] == 1:
		call = "The call"
	}
	return fmt.Sprintf("%s of scope %s is %.1f %% %s (%.1f to %.1f): %s ms became %s%s.",
		call, d.Name, size, faster(d.Change.Percent), low, high, table.Fms(d.Before), table.Fms(d.After), of)
}
