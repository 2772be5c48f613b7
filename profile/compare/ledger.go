package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// The ledger is compared column by column, per run: of each plan, and of workers
// that have no run. If workers run side by side, time between the runs of one
// worker lies within a run of another, so that neither a plan nor the host's time
// outside of runs contains it.

// LedgerDiff is one column of the ledger before and after, in nanoseconds of lane
// time per run: the geometric mean of the recordings of a side, of which Change is.
type LedgerDiff struct {
	Of     string `json:"of"`     // the plan, or the name of the rounds
	Column string `json:"column"` // as in the ledger: compute, no cpu, barrier, ...
	// NoRun: the row is of workers before, between and after their runs.
	NoRun bool `json:"no_run,omitempty"`

	Before float64 `json:"before_ns"`
	After  float64 `json:"after_ns"`
	// Change is in per cent of A's whole lane time.
	Change  Change  `json:"change"`
	Verdict Verdict `json:"verdict"`

	plan string // id of the plan
}

// Changed reports whether the difference is more than noise.
func (d *LedgerDiff) Changed() bool { return d.Verdict == MoreTime || d.Verdict == LessTime }

const (
	// amountFloor is the smallest change of an amount that is reported, as a part of
	// the amount and amountStart. As for scopes, no other row shows what the machine
	// did to it.
	amountFloor = scopeFloor
	// amountStart is the part of the whole that is added to an amount before its
	// logarithm is taken. Amounts may be zero, and one that is smaller than this may
	// grow by a large factor without meaning.
	amountStart = 0.005
)

// ledgerColumn is one column in all recordings of both sides.
type ledgerColumn struct {
	of, column, plan string
	noRun            bool
	perRun           [2][]float64 // [side][recording], lane time
	whole            []float64    // [recording of A], lane time of all per run of this plan
}

// compareLedger compares the columns that all recordings have. As for scopes, only
// several recordings per side, made in turn, can tell.
func compareLedger(a, b []*profile.Profile) []LedgerDiff {
	e, a, b := wholeRecordings(a, b)
	columns := ledgerColumns([2][]*profile.Profile{a, b})
	out := []LedgerDiff{}
	for i := range columns {
		c := &columns[i]
		if len(c.perRun[0]) != len(a) || len(c.perRun[1]) != len(b) || mean(c.whole) <= 0 {
			continue
		}
		if slices.ContainsFunc(slices.Concat(c.perRun[0], c.perRun[1]), func(v float64) bool { return v != 0 }) {
			out = append(out, c.diff(&e))
		}
	}
	return out
}

// diff tests one column.
func (c *ledgerColumn) diff(e *evidence) LedgerDiff {
	d := LedgerDiff{Of: c.of, Column: c.column, NoRun: c.noRun, plan: c.plan}
	d.Change, d.Before, d.After = e.amount(c.perRun, mean(c.whole))
	d.Verdict = d.Change.Verdict
	return d
}

// amount tests times that may be zero: [side][recording]. The change is in per cent
// of whole, a time of A. before and after are geometric means, with amountStart added
// to each time and subtracted from the mean.
func (e *evidence) amount(times [2][]float64, whole float64) (c Change, before, after float64) {
	start := amountStart * whole
	var x [2][][]float64
	var level [2]float64
	for side, values := range times {
		for _, v := range values {
			x[side] = append(x[side], []float64{math.Log(max(0, v) + start)})
		}
		level[side] = math.Exp(mean(slices.Concat(x[side]...)))
	}
	before, after = max(0, level[0]-start), max(0, level[1]-start)
	if !e.repeated() || e.apartInTime {
		return Change{Percent: table.PercentOf(after-before, whole), P: 1, Holm: 1, Verdict: Untested}, before, after
	}
	s := e.shift(Median, x)
	s.freedom = min(s.freedom, moderation)
	c.measure(s, amountFloor, func(log float64) float64 { return table.PercentOf(level[0]*math.Expm1(log), whole) }, true)
	return c, before, after
}

// ledgerColumns gathers the columns of all plans and rounds, in A's order.
func ledgerColumns(sides [2][]*profile.Profile) []ledgerColumn {
	var out []ledgerColumn
	index := map[string]int{}
	take := func(side int, c ledgerColumn, key string, perRun, whole float64) {
		key += "\x00" + c.column
		k, ok := index[key]
		if !ok {
			k = len(out)
			index[key] = k
			out = append(out, c)
		}
		out[k].perRun[side] = append(out[k].perRun[side], perRun)
		if side == 0 {
			out[k].whole = append(out[k].whole, whole)
		}
	}
	sizes := tokensPerRun(sides[0])
	for side, profiles := range sides {
		for _, p := range profiles {
			for i := range p.Plans {
				s := &p.Plans[i]
				if s.Ledger.Runs < fewRuns {
					continue
				}
				runs := runsOf(s, sizes)
				key := fmt.Sprintf("plan %s %d", s.ID, len(s.Lanes))
				for _, part := range columnsOf(&s.Ledger) {
					take(side, ledgerColumn{of: cmp.Or(s.Name, s.ID), column: part.name, plan: s.ID}, key, float64(part.ns)/runs, float64(p.Ledger.LaneTime)/runs)
				}
			}
			for i := range p.Rounds {
				r := &p.Rounds[i]
				var all int64
				for k := range r.ByWorker {
					all += r.ByWorker[k].Runs
				}
				if all < fewRuns {
					continue
				}
				runs, l := asManyRuns(all, tokensOf(p, r.Name), sizes[r.Name]), r.Outside()
				for _, part := range columnsOf(&l) {
					if part.name == "dispatch" || part.name == "idle" {
						take(side, ledgerColumn{of: r.Name, column: part.name, noRun: true}, fmt.Sprintf("rounds %s %d", r.Name, len(r.ByWorker)), float64(part.ns)/runs, float64(p.Ledger.LaneTime)/runs)
					}
				}
			}
		}
	}
	return out
}

type ledgerPart struct {
	name string
	ns   int64
}

// columnsOf are the columns of the report's ledger, which add up to the lane time.
func columnsOf(l *profile.Ledger) []ledgerPart {
	return []ledgerPart{{"compute", l.Compute - l.OffCompute}, {"no cpu", l.OffCompute}, {"barrier", l.Barrier}, {"dispatch", l.Dispatch}, {"idle", l.Idle}, {"residual", l.Residual}}
}

// tokensPerRun is by the id of the plan, and by that of the program of plans, over all
// recordings.
func tokensPerRun(profiles []*profile.Profile) map[string]float64 {
	tokens, runs, out := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, p := range profiles {
		for i := range p.Plans {
			s := &p.Plans[i]
			for _, id := range slices.Compact([]string{s.ID, programOf(s)}) {
				tokens[id] += float64(s.Tokens)
				runs[id] += float64(s.Ledger.Runs)
			}
		}
	}
	for id, n := range runs {
		if n > 0 {
			out[id] = tokens[id] / n
		}
	}
	return out
}

// programOf is the first part of a plan's id. Rounds have the name of the program whose
// plans their workers run.
func programOf(s *profile.PlanStats) string {
	name, _, _ := strings.Cut(s.ID, "/")
	return name
}

// tokensOf is the tokens of all plans of a program.
func tokensOf(p *profile.Profile, program string) (n int64) {
	for i := range p.Plans {
		if s := &p.Plans[i]; programOf(s) == program {
			n += s.Tokens
		}
	}
	return n
}

// runsOf is the runs of a plan as asManyRuns.
func runsOf(s *profile.PlanStats, sizes map[string]float64) float64 {
	return asManyRuns(s.Ledger.Runs, s.Tokens, sizes[s.ID])
}

// asManyRuns is the runs, or as many of A's, of so many tokens each, as have their
// tokens: the same tokens may be cut into more or fewer runs.
func asManyRuns(runs, tokens int64, size float64) float64 {
	if size > 0 && tokens > 0 {
		return float64(tokens) / size
	}
	return float64(runs)
}

// judgeAmounts corrects the columns of the ledger, the uneven steps, the page faults and the
// allocations for their number, as one family.
func (c *Comparison) judgeAmounts() {
	var p []float64
	var of []*Change
	var verdicts []*Verdict
	take := func(ch *Change, v *Verdict) {
		if *v != Untested {
			p, of, verdicts = append(p, ch.P), append(of, ch), append(verdicts, v)
		}
	}
	for i := range c.Ledger {
		take(&c.Ledger[i].Change, &c.Ledger[i].Verdict)
	}
	for i := range c.Uneven {
		take(&c.Uneven[i].Change, &c.Uneven[i].Verdict)
	}
	times := len(p)
	for i := range c.Faults {
		take(&c.Faults[i].Change, &c.Faults[i].Verdict)
	}
	counts := len(p)
	for i := range c.GoHeap {
		take(&c.GoHeap[i].Change, &c.GoHeap[i].Verdict)
	}
	families := c.families()
	for i, h := range Holm(p) {
		of[i].correct(h, families)
		more, less := MoreTime, LessTime
		switch {
		case i >= counts:
			more, less = MoreAllocated, LessAllocated
		case i >= times:
			more, less = MoreFaults, FewerFaults
		}
		switch of[i].Verdict {
		case Slower:
			*verdicts[i] = more
		case Faster:
			*verdicts[i] = less
		}
	}
}

// owner is the row of the ledger.
func (d *LedgerDiff) owner() string {
	if d.NoRun {
		return d.Of + ", no run"
	}
	return d.Of
}

// subject is the row in a sentence, with its verb.
func (d *LedgerDiff) subject() string {
	if d.NoRun {
		return fmt.Sprintf("workers of %s spend %s ms per run %s", d.Of, table.Fms(d.After), map[string]string{
			"dispatch": "before and between their runs", "idle": "after the last run of a round"}[d.Column])
	}
	return fmt.Sprintf("lanes of %s spend %s ms per run %s", d.Of, table.Fms(d.After), map[string]string{
		"compute": "in steps on a processor", "no cpu": "in steps without a processor", "barrier": "at barriers",
		"dispatch": "in dispatch", "idle": "idle", "residual": "between steps (residual)"}[d.Column])
}

// says is the text of a column that changed.
func (d *LedgerDiff) says() string {
	size, low, high, more := d.Change.spoken()
	text := fmt.Sprintf("%s in place of %s: %.1f %% of all lane time %s (%.1f to %.1f).", d.subject(), table.Fms(d.Before), size, more, low, high)
	return strings.ToUpper(text[:1]) + text[1:]
}

// spoken is the change as a size with its interval, and its direction in words.
func (c *Change) spoken() (size, low, high float64, more string) {
	low, high = c.bounds()
	if c.Percent < 0 {
		return -c.Percent, -high, -low, "less"
	}
	return c.Percent, low, high, "more"
}

// told are the columns for the summary: those that changed, but for columns of a plan
// with other rows that differ, which say the same and more.
func (c *Comparison) told() []*LedgerDiff {
	var out []*LedgerDiff
	for i := range c.Ledger {
		d := &c.Ledger[i]
		if d.Changed() && !slices.ContainsFunc(c.Plans, func(p PlanDiff) bool { return p.ID == d.plan && len(p.different()) > 0 }) {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(x, y *LedgerDiff) int {
		return cmp.Compare(math.Abs(y.Change.Percent), math.Abs(x.Change.Percent))
	})
	return out
}

// ledgerTable lists columns: those that changed first, then those that are near to it.
func (c *Comparison) ledgerTable(top int) table.Table {
	f := folding{top: top}
	t := table.Table{Title: "ledger", Note: "ms of lane time per run, the geometric mean of recordings; no run: workers before and between their runs (dispatch), and after their last (idle); change: in per cent of A's whole lane time",
		Cols: []table.Col{table.Left(""), table.Left("column"), table.Right("before"), table.Right("after"), table.Right("diff"), table.Right("change %"), table.Right("noise"), table.Left("verdict")}}
	rows := slices.SortedStableFunc(slices.Values(c.Ledger), func(a, b LedgerDiff) int {
		return cmp.Compare(min(a.Change.Holm, nearlyFalse), min(b.Change.Holm, nearlyFalse))
	})
	for i := range rows {
		d := &rows[i]
		f.add(&t, d.Verdict, !d.Changed() && d.Change.Holm >= nearlyFalse, markOf(d.Changed(), d.Verdict), d.owner(), d.Column, table.Fms(d.Before), table.Fms(d.After), table.Signed(d.After-d.Before), d.Change.cell(), d.Change.noise(), string(d.Verdict))
	}
	f.close(&t)
	return t
}
