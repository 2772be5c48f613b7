package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hotpath/internal/stats"
	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// UnevenDiff is how unevenly lanes share a step, before and after: the steps of a name
// in all layers of a plan. The wait that follows says where lanes wait; this says which
// step they wait for.
type UnevenDiff struct {
	Plan string `json:"plan"`
	Step string `json:"step"`
	// Uneven is how much longer the busiest lane of a call computed than the mean of
	// its lanes, in per cent, before and after, in the median recording.
	Uneven [2]float64 `json:"uneven_percent"`
	// Before and After are the same as nanoseconds per run, the geometric mean of
	// recordings: what an even division would save at most.
	Before  float64 `json:"before_ns"`
	After   float64 `json:"after_ns"`
	Change  Change  `json:"change"` // in per cent of A's run
	Verdict Verdict `json:"verdict"`

	// Lanes is how many lanes share a call, before and after, by time.
	Lanes [2]float64 `json:"lanes"`

	shared Change  // of Lanes, in per cent
	added  float64 // what one lane computes more, in per cent of A's run
}

// Changed reports whether the difference is more than noise.
func (d *UnevenDiff) Changed() bool {
	return d.Verdict == MoreTime || d.Verdict == LessTime || d.otherLanes()
}

// otherLanes reports whether more or fewer lanes share the step. A step that one lane
// does alone is even, so the imbalance is not judged then.
func (d *UnevenDiff) otherLanes() bool { return d.Verdict == FewerLanes || d.Verdict == MoreLanes }

// size is the part of a run that the change takes, in per cent.
func (d *UnevenDiff) size() float64 {
	if d.otherLanes() {
		return d.added
	}
	return d.Change.Percent
}

// leastLanes is the smallest change of the lanes of a step that is reported.
const leastLanes = 0.25

// unevenRow is the steps of a name in all recordings: [side][recording].
type unevenRow struct {
	plan, step      string
	perRun, percent [2][]float64
	lanes, even     [2][]float64 // that share a call; what each of them would take per run
	run             []float64    // [recording of A], wall time
}

// compareUneven compares the steps of plans with several lanes that all recordings have.
func compareUneven(a, b []*profile.Profile) []UnevenDiff {
	e, a, b := wholeRecordings(a, b)
	sizes := tokensPerRun(a)
	var rows []unevenRow
	index := map[string]int{}
	for side, profiles := range [2][]*profile.Profile{a, b} {
		for _, p := range profiles {
			for i := range p.Plans {
				s := &p.Plans[i]
				if len(s.Lanes) < 2 || s.Ledger.Runs < fewRuns {
					continue
				}
				runs := runsOf(s, sizes)
				for _, g := range unevenSteps(s) {
					key := fmt.Sprintf("%s %d %s", s.ID, len(s.Lanes), g.name)
					k, ok := index[key]
					if !ok {
						k = len(rows)
						index[key] = k
						rows = append(rows, unevenRow{plan: cmp.Or(s.Name, s.ID), step: g.name})
					}
					r := &rows[k]
					r.perRun[side] = append(r.perRun[side], float64(g.longest-g.even)/runs)
					r.percent[side] = append(r.percent[side], table.Percent(g.longest-g.even, g.even))
					r.lanes[side] = append(r.lanes[side], float64(g.lanes)/float64(g.even))
					r.even[side] = append(r.even[side], float64(g.even)/runs)
					if side == 0 {
						r.run = append(r.run, float64(s.Ledger.Wall)/runs)
					}
				}
			}
		}
	}
	out := []UnevenDiff{}
	for i := range rows {
		r := &rows[i]
		if len(r.perRun[0]) != len(a) || len(r.perRun[1]) != len(b) || mean(r.run) <= 0 || mean(r.lanes[0]) <= 0 {
			continue
		}
		d := UnevenDiff{Plan: r.plan, Step: r.step, Uneven: [2]float64{stats.Median(r.percent[0]), stats.Median(r.percent[1])}}
		d.Change, d.Before, d.After = e.amount(r.perRun, mean(r.run))
		d.Verdict = d.Change.Verdict
		d.Lanes = [2]float64{stats.Median(r.lanes[0]), stats.Median(r.lanes[1])}
		d.shared, _, _ = e.amount(r.lanes, mean(r.lanes[0]))
		d.added = table.PercentOf(stats.Median(r.even[1])-stats.Median(r.even[0]), mean(r.run))
		out = append(out, d)
	}
	return out
}

type stepsOfName struct {
	name          string
	longest, even int64
	lanes         int64 // time of all lanes
}

// unevenSteps sums up the steps of a plan by their name without the layer. Steps whose
// lanes are not known, as of older files, are left out.
func unevenSteps(s *profile.PlanStats) []stepsOfName {
	var out []stepsOfName
	index := map[string]int{}
	for i := range s.Steps {
		st := &s.Stats[i]
		if st.Even == 0 {
			continue
		}
		name := s.Steps[i].Name
		name = name[strings.LastIndexByte(name, '/')+1:]
		k, ok := index[name]
		if !ok {
			k = len(out)
			index[name] = k
			out = append(out, stepsOfName{name: name})
		}
		out[k].longest += st.Longest
		out[k].even += st.Even
		out[k].lanes -= st.OffCPU
		for _, ns := range st.LaneCompute {
			out[k].lanes += ns
		}
	}
	return out
}

// judgeLanes finds the steps that more or fewer lanes share, as a family of its own.
func (c *Comparison) judgeLanes() {
	families := c.families()
	p := make([]float64, len(c.Uneven))
	for i := range c.Uneven {
		p[i] = c.Uneven[i].shared.P
	}
	for i, h := range Holm(p) {
		d := &c.Uneven[i]
		d.shared.correct(h, families)
		switch more := d.Lanes[1] - d.Lanes[0]; {
		case d.shared.Verdict == Slower && more >= leastLanes:
			d.Verdict = MoreLanes
		case d.shared.Verdict == Faster && more <= -leastLanes:
			d.Verdict = FewerLanes
		}
	}
}

// says is the text of a step that changed.
func (d *UnevenDiff) says() string {
	if d.otherLanes() {
		more := "more"
		if d.added < 0 {
			more = "less"
		}
		return fmt.Sprintf("%.1f lanes share %s (%s) in place of %.1f: one lane computes %.1f %% of a run %s.", d.Lanes[1], d.Step, d.Plan, d.Lanes[0], math.Abs(d.added), more)
	}
	size, low, high, more := d.Change.spoken()
	return fmt.Sprintf("The busiest lane of %s (%s) computes %.1f %% longer than the mean of its lanes in place of %.1f: %.1f %% of a run %s (%.1f to %.1f).", d.Step, d.Plan, d.Uneven[1], d.Uneven[0], size, more, low, high)
}

// unevenTable lists steps: those that changed first, then those that are near to it.
func (c *Comparison) unevenTable(top int) table.Table {
	t := table.Table{Title: "uneven", Note: "how much longer the busiest lane of a call computed than the mean of its lanes, all layers together: per cent of the mean, and ms per run; change: in per cent of a run; lanes: that share a call",
		Cols: []table.Col{table.Left("plan"), table.Left("step"), table.Right("lanes"), table.Right("before %"), table.Right("after %"), table.Right("before"), table.Right("after"), table.Right("diff"), table.Right("change %"), table.Right("noise"), table.Left("verdict")}}
	rows := slices.SortedStableFunc(slices.Values(c.Uneven), func(a, b UnevenDiff) int {
		if a.Changed() != b.Changed() {
			if a.Changed() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(min(a.Change.Holm, nearlyFalse), min(b.Change.Holm, nearlyFalse)), cmp.Compare(max(b.Before, b.After), max(a.Before, a.After)))
	})
	f := folding{top: top}
	for i := range rows {
		d := &rows[i]
		change, noise := d.Change.cell(), d.Change.noise()
		if d.otherLanes() {
			change, noise = "", ""
		}
		f.add(&t, d.Verdict, !d.Changed() && d.Change.Holm >= nearlyFalse, markOf(d.Changed(), d.Verdict), d.Plan, d.Step, fmt.Sprintf("%.1f, %.1f", d.Lanes[0], d.Lanes[1]), fmt.Sprintf("%.1f", d.Uneven[0]), fmt.Sprintf("%.1f", d.Uneven[1]), table.Fms(d.Before), table.Fms(d.After), table.Signed(d.After-d.Before), change, noise, string(d.Verdict))
	}
	f.close(&t)
	return t
}
