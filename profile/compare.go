package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Verdict is what the statistics say about a difference.
type Verdict string

// The verdicts. Work is counted and needs no statistics; times do.
const (
	Same     Verdict = "same"      // no more than two recordings of one build differ by
	Slower   Verdict = "slower"    // for the same work
	Faster   Verdict = "faster"    // for the same work
	MoreWork Verdict = "more work" // more FLOPs or bytes
	LessWork Verdict = "less work"
	OnlyA    Verdict = "only in A"
	OnlyB    Verdict = "only in B"
	Untested Verdict = "untested" // too few runs, or a sum of others
)

// Diff is one row of a comparison. Times are nanoseconds of wall time a run:
// lane time divided by the number of lanes. After − Before = Work + Efficiency +
// Wait, exactly.
type Diff struct {
	Name  string `json:"name"`
	Op    string `json:"op,omitempty"`
	Layer int    `json:"layer"` // -1 outside of layers, and for sums

	Before     float64 `json:"before_ns"`
	After      float64 `json:"after_ns"`
	Work       float64 `json:"work_ns"`       // because there was more to do, at A's efficiency
	Efficiency float64 `json:"efficiency_ns"` // because the same was done faster or slower
	Wait       float64 `json:"wait_ns"`       // at barriers, in dispatch and idle

	FLOPs [2]int64 `json:"flops"` // a run, before and after
	Bytes [2]int64 `json:"bytes"`

	// Percent is the change of time for the same work, where it was undisturbed,
	// less what all steps have in common; Low and High are its 95
	// per cent interval, nil where the values are too few for one. Noise is what two recordings of one build may differ by.
	Percent float64  `json:"percent"`
	Low     *float64 `json:"percent_low,omitempty"`
	High    *float64 `json:"percent_high,omitempty"`
	Noise   float64  `json:"noise_percent"`
	P       float64  `json:"p"`
	Holm    float64  `json:"p_holm"`
	Verdict Verdict  `json:"verdict"`

	kind    string   // what the row is most of
	frames  []string // of the flame graph
	a, b    []int    // steps on each side
	waited  float64  // of Before
	base    float64  // what Percent is of
	sure    float64  // of Efficiency or Wait, where it is significant
	counted float64  // of Work, where it is a difference
}

// Delta is the whole difference.
func (d *Diff) Delta() float64 { return d.After - d.Before }

// Changed reports whether the difference is more than noise.
func (d *Diff) Changed() bool { return d.Verdict != Same && d.Verdict != Untested }

// Real is how much of the difference is sure, in nanoseconds a run: the work,
// which is counted, and the change of efficiency where it is significant.
func (d *Diff) Real() float64 { return d.counted + d.sure }

// PlanDiff is one plan that both recordings have.
type PlanDiff struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Phase  string   `json:"phase"`
	Runs   [2]int64 `json:"runs"`
	Total  Diff     `json:"total"`  // wall time a run
	Common Diff     `json:"common"` // what all steps have in common: the machine, or all kernels
	Wait   Diff     `json:"wait"`
	Steps  []Diff   `json:"steps"`
	Kinds  []Diff   `json:"kinds"`
	Layers []Diff   `json:"layers"`

	outside   [2]float64 // of steps, on each side: dispatch and idle, a run
	evidence  evidence
	rebatched bool // the sides have batches of different sizes
}

// Comparison is what changed between two recordings.
type Comparison struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	A       string `json:"a"`
	B       string `json:"b"`
	// Recordings is how many of each side were compared.
	Recordings [2]int     `json:"recordings"`
	Total      Diff       `json:"total"` // of A's runs, and how long B takes for as many
	Plans      []PlanDiff `json:"plans"`
	OnlyA      []string   `json:"only_a"`
	OnlyB      []string   `json:"only_b"`
	Warnings   []string   `json:"warnings"`
}

// Different lists the rows that are more than noise, of all plans, the largest
// difference first. Layers are sums of steps and stay out.
func (c *Comparison) Different() []*Diff {
	var out []*Diff
	for i := range c.Plans {
		p := &c.Plans[i]
		for _, rows := range [][]Diff{p.Kinds, p.Steps} {
			for k := range rows {
				if rows[k].Changed() {
					out = append(out, &rows[k])
				}
			}
		}
		for _, d := range []*Diff{&p.Common, &p.Wait} {
			if d.Changed() {
				out = append(out, d)
			}
		}
	}
	slices.SortStableFunc(out, func(x, y *Diff) int { return cmp.Compare(math.Abs(y.Real()), math.Abs(x.Real())) })
	return out
}

// Worse is by how many per cent of A's time B is surely slower, for --fail-above:
// the work, which is counted, and of times only what is significant. It is
// negative where B is faster.
func (c *Comparison) Worse() float64 {
	var real float64
	for i := range c.Plans {
		p := &c.Plans[i]
		real += float64(p.Runs[0]) * p.real()
	}
	if c.Total.Before == 0 {
		return 0
	}
	return 100 * real / c.Total.Before
}

// real sums steps, or kinds where those are surer: a kind is tested as a whole.
func (p *PlanDiff) real() float64 {
	sum := func(rows []Diff) (t float64) {
		for i := range rows {
			t += rows[i].Real()
		}
		return t
	}
	steps, kinds := sum(p.Steps), sum(p.Kinds)
	if math.Abs(kinds) > math.Abs(steps) {
		steps = kinds
	}
	return steps + p.Common.sure + p.Wait.sure
}

// Compare holds recordings of B against recordings of A: plans by id, steps by
// the graph nodes that they compute, so that a step that was fused or split
// meets its parts. One of each tells which kinds and steps changed; whether
// everything got slower, or the machine, is only known from several of each,
// made in turn.
func Compare(a, b []*Profile, nameA, nameB string) (*Comparison, error) {
	if len(a) == 0 || len(b) == 0 {
		return nil, fmt.Errorf("profile: %d recordings against %d, expected at least one of each", len(a), len(b))
	}
	c := &Comparison{Format: "hotpath-comparison", Version: 1, A: nameA, B: nameB, Recordings: [2]int{len(a), len(b)},
		Plans: []PlanDiff{}, OnlyA: []string{}, OnlyB: []string{}, Warnings: []string{}}
	c.Total = Diff{Name: "total", Layer: -1, Verdict: Untested}
	for _, p := range slices.Concat(a[1:], b) {
		c.sameConditions(a[0], p)
	}
	sidesA, order, err := newSides(a, nameA)
	if err != nil {
		return nil, err
	}
	sidesB, orderB, err := newSides(b, nameB)
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		if y := sidesB[id]; y != nil {
			c.plan(sidesA[id], y)
		} else {
			c.OnlyA = append(c.OnlyA, id)
		}
	}
	for _, id := range orderB {
		if sidesA[id] == nil {
			c.OnlyB = append(c.OnlyB, id)
		}
	}
	if len(c.Plans) == 0 {
		return nil, fmt.Errorf("%s and %s have no plan in common: they have %q and %q", nameA, nameB, strings.Join(c.OnlyA, ", "), strings.Join(c.OnlyB, ", "))
	}
	if slices.ContainsFunc(c.Plans, func(d PlanDiff) bool { return d.evidence.apartInTime && d.evidence.repeated() }) {
		c.warn("all recordings of one side were made before those of the other: what the machine did in between looks like a change, so only large ones are called; make them in turn")
	}
	c.judge(machineShift(a[0], b[0]))
	return c, nil
}

// sameConditions warns of what may make two recordings differ.
func (c *Comparison) sameConditions(a, b *Profile) {
	for _, f := range []struct{ what, a, b string }{
		{"model", subject(a), subject(b)}, {"machine", a.Facts.CPU, b.Facts.CPU}, {"tier", a.Facts.Tier, b.Facts.Tier},
		{"number of threads", count(a.Facts.Threads, "thread"), count(b.Facts.Threads, "thread")}, {"precision", a.Facts.Precision, b.Facts.Precision},
	} {
		if f.a != f.b && f.a != "" && f.b != "" {
			c.warn("the %s differs: %q and %q", f.what, f.a, f.b)
		}
	}
}

// warn says a thing once, however many recordings it is true of.
func (c *Comparison) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.Warnings, text) {
		c.Warnings = append(c.Warnings, text)
	}
}

// machineShift is how far apart the ceilings of two recordings lie, as a
// logarithm: what the machine itself may have changed between them.
func machineShift(a, b *Profile) float64 {
	var most float64
	for backend, x := range a.Ceilings {
		y, ok := b.Ceilings[backend]
		if !ok {
			continue
		}
		for _, v := range [][2]float64{{x.FLOPs, y.FLOPs}, {x.Bytes, y.Bytes}} {
			if v[0] > 0 && v[1] > 0 {
				most = max(most, math.Abs(math.Log(v[1]/v[0])))
			}
		}
	}
	return most
}

// side is the recordings of one plan on one side, with what compared rows are
// made of.
type side struct {
	plan     *PlanStats // of the first recording: the steps, which all share
	recs     []recording
	runs     int64
	tokens   int64
	wall     int64
	units    float64 // runs, or as many of A's as have this side's tokens
	ceilings Ceilings
}

type recording struct {
	plan    *PlanStats
	samples *RunSamples
	made    time.Time
}

// newSides gathers recordings by plan, with the ids in order of appearance.
func newSides(profiles []*Profile, name string) (sides map[string]*side, order []string, err error) {
	sides = map[string]*side{}
	for _, p := range profiles {
		for i := range p.Plans {
			plan := &p.Plans[i]
			if plan.Ledger.Runs == 0 {
				continue
			}
			s := sides[plan.ID]
			if s == nil {
				s = &side{plan: plan, ceilings: p.ceilingsOf(plan.Backend)}
				sides[plan.ID] = s
				order = append(order, plan.ID)
			}
			if !s.plan.sameShape(&plan.Plan) {
				return nil, nil, fmt.Errorf("%s: its recordings have plan %q with different steps or lanes, expected recordings of one build", name, plan.ID)
			}
			s.recs = append(s.recs, recording{plan, p.samples(i), p.Created})
			s.runs += plan.Ledger.Runs
			s.tokens += plan.Tokens
			s.wall += plan.Ledger.Wall
			s.units = float64(s.runs)
		}
	}
	return sides, order, nil
}

// yardstick turns FLOPs and bytes into one measure of work: the shortest time
// on A's roofline, which both sides are held against. Without ceilings it is
// FLOPs, or bytes where there are none.
type yardstick struct {
	c     Ceilings
	class string
}

func (y yardstick) work(flops, bytes int64) float64 {
	if y.c.known() {
		if w := y.c.floor(y.class, flops, bytes); w > 0 {
			return w
		}
	}
	return float64(cmp.Or(flops, bytes))
}

// wallTime is lane time as wall time a run.
func (s *side) wallTime(lane int64) float64 {
	return float64(lane) / float64(len(s.plan.Lanes)) / s.units
}

// measure sums a row's steps over all runs, a run.
func (s *side) measure(steps []int, y yardstick) (time, wait, work float64, flops, bytes int64) {
	var f, b float64
	for _, r := range s.recs {
		for _, k := range steps {
			st := &r.plan.Stats[k]
			time += s.wallTime(sum(st.LaneCompute))
			wait += s.wallTime(sum(st.LaneWait))
			f += float64(st.FLOPs) / s.units
			b += float64(st.Bytes) / s.units
			work += y.work(st.FLOPs, st.Bytes) / s.units
		}
	}
	return time, wait, work, int64(math.Round(f)), int64(math.Round(b))
}

// blocks is the logarithm of time for work, n values from each recording. The
// undisturbed time of each step is taken before they are summed: hardly a run of
// many steps is disturbed in none.
func (s *side) blocks(steps []int, y yardstick, n int) []float64 {
	var out []float64
	for _, r := range s.recs {
		time, all := make([]float64, n), make([]float64, n)
		for _, k := range steps {
			st := &r.samples.Steps[k]
			rate, work := make([]float64, len(r.samples.Wall)), 0.0
			for i := range rate {
				w := cmp.Or(y.work(at(st.FLOPs, i), at(st.Bytes, i)), 1)
				rate[i] = float64(st.Compute[i]) / w
				work += w / float64(len(rate))
			}
			for b, v := range blocks(rate, n) {
				time[b] += v * work
				all[b] += work
			}
		}
		for b := range time {
			out = append(out, math.Log(max(time[b], 1)/all[b]))
		}
	}
	return out
}

// waits is the share of a run's time that was not spent computing, in blocks.
func (s *side) waits(n int) []float64 {
	var out []float64
	for _, r := range s.recs {
		series := make([]float64, len(r.samples.Wall))
		for i := range series {
			all := float64(r.samples.Wall[i]) * float64(len(s.plan.Lanes))
			busy := 0.0
			for k := range r.samples.Steps {
				busy += float64(r.samples.Steps[k].Compute[i])
			}
			if all > 0 {
				series[i] = (all - busy) / all
			}
		}
		out = append(out, blocks(series, n)...)
	}
	return out
}

// idle is the time that no lane computed, of wall time a run.
func (s *side) idle() float64 {
	var t float64
	for _, r := range s.recs {
		t += s.wallTime(r.plan.Ledger.LaneTime - r.plan.Ledger.Compute)
	}
	return t
}

// diff fills the exact part of a row.
func diff(a, b *side, row Diff) Diff {
	y := rowYard(a, b, &row)
	var workA, workB, waitA, waitB, selfA, selfB float64
	selfA, waitA, workA, row.FLOPs[0], row.Bytes[0] = a.measure(row.a, y)
	selfB, waitB, workB, row.FLOPs[1], row.Bytes[1] = b.measure(row.b, y)
	row.Before, row.After, row.Wait, row.waited = selfA+waitA, selfB+waitB, waitB-waitA, waitA
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

// plan compares one plan.
func (c *Comparison) plan(a, b *side) {
	// The same tokens may be cut into more or fewer runs, by nothing but timing:
	// then a run of B is as much as has the tokens of one of A.
	if a.tokens > 0 && b.tokens > 0 {
		b.units = float64(b.tokens) * float64(a.runs) / float64(a.tokens)
	}
	rebatched := math.Abs(b.units/float64(b.runs)-1) > 0.01
	if rebatched {
		c.warn("plan %q: batches of %.0f tokens against %.0f: the bytes of weights for a token differ by that alone, and are not called a difference",
			a.plan.ID, float64(a.tokens)/float64(a.runs), float64(b.tokens)/float64(b.runs))
	}
	d := PlanDiff{rebatched: rebatched, ID: a.plan.ID, Name: cmp.Or(a.plan.Name, a.plan.ID), Phase: a.plan.Phase, Runs: [2]int64{a.runs, b.runs}}
	for _, row := range matchSteps(a.plan, b.plan) {
		d.Steps = append(d.Steps, diff(a, b, row))
	}
	for _, row := range foldRows(d.Steps, func(r *Diff) (string, int) { return r.kind, -1 }) {
		d.Kinds = append(d.Kinds, diff(a, b, row))
	}
	for _, row := range foldRows(d.Steps, func(r *Diff) (string, int) { return layerName(r.Layer), r.Layer }) {
		row.Verdict = Untested
		d.Layers = append(d.Layers, diff(a, b, row))
	}
	slices.SortStableFunc(d.Layers, func(x, y Diff) int { return cmp.Compare(x.Layer, y.Layer) })
	d.Total = Diff{Name: "total", Layer: -1, Verdict: Untested}
	d.Total.Before, d.Total.After = float64(a.wall)/a.units, float64(b.wall)/b.units
	d.Wait = Diff{Name: "(waiting)", Layer: -1, Before: a.idle(), After: b.idle()}
	d.Wait.Wait = d.Wait.After - d.Wait.Before
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
	d.outside = [2]float64{d.Total.Before, d.Total.After}
	for k := range d.Steps {
		d.outside[0] -= d.Steps[k].Before
		d.outside[1] -= d.Steps[k].After
	}
	d.sample(a, b)
	runs := float64(d.Runs[0])
	c.Total.Before += runs * d.Total.Before
	c.Total.After += runs * d.Total.After
	c.Total.Work += runs * d.Total.Work
	c.Total.Efficiency += runs * d.Total.Efficiency
	c.Total.Wait += runs * d.Total.Wait
	c.Plans = append(c.Plans, d)
}

// rowYard measures a row's work in A's compute class, so that a change of class
// is a change of efficiency.
func rowYard(a, b *side, row *Diff) yardstick {
	if len(row.a) > 0 {
		return yardstick{a.ceilings, a.plan.Steps[row.a[0]].Class}
	}
	return yardstick{a.ceilings, b.plan.Steps[row.b[0]].Class}
}
