package compare

import (
	"cmp"
	"math"
	"slices"

	"hotpath/profile"
)

// leastWork is the part by which counted work must differ to be called different.
const leastWork = 1e-3

// workCount is the work of both sides over all plans of each phase, per token.
// How texts are put into batches, and so which plan computes them, may depend on
// nothing but timing. Such batches move work between plans and change none.
type workCount map[string]*phaseWork // by phase

type phaseWork struct {
	tokens, runs [2]int64
	flops        [2]map[string]float64 // by op of the graph's nodes, whatever step computes them
	rebatched    bool                  // plans have different tokens or numbers of runs on the two sides
}

func countedWork(a, b map[string]*side) workCount {
	out := workCount{}
	for k, sides := range []map[string]*side{a, b} {
		for id, s := range sides {
			w := out[s.plan.Phase]
			if w == nil {
				w = &phaseWork{flops: [2]map[string]float64{{}, {}}}
				out[s.plan.Phase] = w
			}
			w.tokens[k] += s.tokens
			w.runs[k] += s.runs
			for _, r := range s.recs {
				for i := range r.plan.Stats {
					for _, n := range r.plan.Steps[i].Parts() {
						w.flops[k][n.Op] += n.Share * float64(r.plan.Stats[i].FLOPs)
					}
				}
			}
			o := a[id]
			if k == 0 {
				o = b[id]
			}
			// Each run reads the weights once, so bytes differ by as much as runs do.
			w.rebatched = w.rebatched || o == nil || apartBy(float64(s.runs)/float64(len(s.recs)), float64(o.runs)/float64(len(o.recs)), leastWork) ||
				apartBy(float64(s.tokens)/float64(len(s.recs)), float64(o.tokens)/float64(len(o.recs)), leastWork)
		}
	}
	return out
}

// apartBy reports whether two numbers differ by more than a part of the first.
func apartBy(a, b, part float64) bool { return math.Abs(b-a) > part*a }

// leastOp is the least part of a phase's FLOPs that an op is compared with. Older builds
// gave ops without FLOPs a part of their step's that depended on the size of the plan.
const leastOp = 1e-8

// differs reports whether a phase computes more or less of an op per token.
func (w *phaseWork) differs(op string) bool {
	small := true
	for _, flops := range w.flops {
		all := 0.0
		for _, f := range flops {
			all += f
		}
		small = small && flops[op] <= leastOp*all
	}
	if small {
		return false
	}
	n := w.tokens
	if n[0] == 0 || n[1] == 0 {
		n = w.runs
	}
	return apartBy(w.flops[0][op]/float64(n[0]), w.flops[1][op]/float64(n[1]), leastWork)
}

// ops are the ops of a row's nodes, on both sides.
func (d *Diff) ops(a, b *profile.PlanStats) []string {
	var out []string
	for side, steps := range [2][]int{d.a, d.b} {
		plan := [2]*profile.PlanStats{a, b}[side]
		for _, k := range steps {
			for _, n := range plan.Steps[k].Parts() {
				if !slices.Contains(out, n.Op) {
					out = append(out, n.Op)
				}
			}
		}
	}
	return out
}

// countWork records that a row has more or less work. Work is counted, so it
// needs no statistics. It is the row's verdict if the row has no other.
func (d *Diff) countWork(w *phaseWork) {
	if d.Verdict != OnlyA && d.Verdict != OnlyB {
		flops := apartBy(float64(d.FLOPs[0]), float64(d.FLOPs[1]), leastWork) && slices.ContainsFunc(d.nodes, w.differs)
		bytes := apartBy(float64(d.Bytes[0]), float64(d.Bytes[1]), leastWork) && !w.rebatched
		if !flops && !bytes {
			return
		}
	}
	d.counted = d.Work
	if d.Verdict != Same && d.Verdict != Untested {
		return
	}
	d.Verdict = MoreWork
	if cmp.Or(cmp.Compare(d.Work, 0), cmp.Compare(d.FLOPs[1], d.FLOPs[0]), cmp.Compare(d.Bytes[1], d.Bytes[0])) < 0 {
		d.Verdict = LessWork // of bytes, it may take no time off where FLOPs are the limit
	}
}

// diff fills the exact part of a row.
func diff(a, b *side, row Diff) Diff {
	y := rowYard(a, b, &row)
	var workA, workB, waitA, waitB, selfA, selfB float64
	selfA, waitA, workA, row.FLOPs[0], row.Bytes[0] = a.measure(row.a, y)
	selfB, waitB, workB, row.FLOPs[1], row.Bytes[1] = b.measure(row.b, y)
	row.Before, row.After, row.Wait, row.waited = selfA+waitA, selfB+waitB, waitB-waitA, waitA
	row.Verdict, row.nodes = Same, row.ops(a.plan, b.plan)
	switch {
	case len(row.b) == 0:
		row.Work, row.Verdict = -selfA, OnlyA
	case len(row.a) == 0:
		row.Work, row.Verdict = selfB, OnlyB
	case workA > 0 && workB > 0:
		row.Work = selfA * (workB/workA - 1)
	}
	row.Efficiency = selfB - selfA - row.Work
	return row
}

// waitingRow names the row of time that lanes did not compute; its changes are in
// points of a run's time.
const waitingRow = "(waiting)"

// plan compares one plan.
func (c *Comparison) plan(a, b *side, work workCount) {
	// The same tokens may be cut into more or fewer runs, by nothing but timing:
	// then a run of B is as much as has the tokens of one of A.
	if a.tokens > 0 && b.tokens > 0 {
		b.units = float64(b.tokens) * float64(a.runs) / float64(a.tokens)
	}
	resized := c.resizes(a.plan.Phase)
	switch {
	case resized:
		c.warn("phase %q: batches differ, see the result: times are per work, whatever the batch, and bytes, which depend on it, are not judged", a.plan.Phase)
	case work[a.plan.Phase].rebatched:
		c.warn("phase %q: the sides put its tokens into different batches, which is no difference of the build: times are compared at equal batch size, and bytes, which depend on it, are not judged", a.plan.Phase)
	}
	d := PlanDiff{ID: a.plan.ID, Name: cmp.Or(a.plan.Name, a.plan.ID), Phase: a.plan.Phase, Runs: [2]int64{a.runs, b.runs}}
	for _, row := range matchSteps(a.plan, b.plan) {
		d.Steps = append(d.Steps, diff(a, b, row))
	}
	for _, row := range foldRows(d.Steps, func(r *Diff) (string, int) { return r.kind, -1 }) {
		d.Kinds = append(d.Kinds, diff(a, b, row))
	}
	for _, row := range foldRows(d.Steps, func(r *Diff) (string, int) { return profile.LayerName(r.Layer), r.Layer }) {
		d.Layers = append(d.Layers, diff(a, b, row))
	}
	d.Places = places(a, b, d.Steps)
	slices.SortStableFunc(d.Layers, func(x, y Diff) int { return cmp.Compare(x.Layer, y.Layer) })
	d.Total = Diff{Name: "total", Layer: -1, Verdict: Same}
	d.Total.Before, d.Total.After = a.wall/a.units, b.wall/b.units
	d.Wait = Diff{Name: waitingRow, Layer: -1, Verdict: Same, points: true, Before: a.idle(), After: b.idle()}
	d.Wait.Wait = d.Wait.After - d.Wait.Before
	d.Waits = waitRows(a, b, d.Steps)
	for k := range d.Steps {
		r := &d.Steps[k]
		d.Total.Work += r.Work
		d.Total.Efficiency += r.Efficiency
		for side := range 2 {
			d.Total.FLOPs[side] += r.FLOPs[side]
			d.Total.Bytes[side] += r.Bytes[side]
		}
	}
	d.Total.Wait = d.Wait.Wait
	d.Common = Diff{Name: "(all steps)", Layer: -1, Verdict: Same, Before: d.Total.Before - d.Wait.Before, After: d.Total.After - d.Wait.After,
		Work: d.Total.Work, Efficiency: d.Total.Efficiency}
	d.Outside = [2]float64{d.Total.Before, d.Total.After}
	for k := range d.Steps {
		d.Outside[0] -= d.Steps[k].Before
		d.Outside[1] -= d.Steps[k].After
	}
	d.sample(a, b, resized)
	runs := float64(d.Runs[0])
	c.Total.Before += runs * d.Total.Before
	c.Total.After += runs * d.Total.After
	c.Total.Work += runs * d.Total.Work
	c.Total.Efficiency += runs * d.Total.Efficiency
	c.Total.Wait += runs * d.Total.Wait
	c.Plans = append(c.Plans, d)
}
