package profile

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// Folding many runs at a time gives exactly what folding them one by one gives, and the
// sums are those of a plain loop over all stamps.
func TestRunsFoldTheSameTogether(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 16))
		p := Plan{ID: "p", Backend: "cpu"}
		for i := range 1 + rng.IntN(4) {
			p.Lanes = append(p.Lanes, fmt.Sprint("worker ", i))
		}
		for i := range 1 + rng.IntN(70) {
			p.Steps = append(p.Steps, Step{ID: i, Name: fmt.Sprint("step ", i), Barrier: rng.IntN(2) == 0, Ragged: rng.IntN(3) == 0, Rows: rng.IntN(9) == 0})
		}
		opts := Options{Events: []int{0, -1, 500}[rng.IntN(3)]}
		together, single := NewRecorder(opts), NewRecorder(opts)
		all, one := mustPlan(t, together, p), mustPlan(t, single, p)
		all.fold.batch.wide = hasWide && seed%3 > 0
		one.fold.batch.wide = hasWide && seed%2 > 0
		g := runGenerator{rng: rng, at: 1 << 50, exact: rng.IntN(4) > 0, bad: rng.IntN(3) == 0, scopes: rng.IntN(2) == 0} // after all collections
		idle := rng.IntN(3) == 0                                                                                          // a worker folds single runs, where it can
		want := newPlainFold(&p)
		for range 1 + rng.IntN(3*all.most) {
			// The same run twice, whatever the pools have in their slots.
			a, b := all.Acquire(), one.Acquire()
			good := g.fill(a)
			copyStamps(b, a)
			if good {
				want.add(a)
			}
			if err := all.Release(a); err != nil && !g.bad {
				t.Fatal(err)
			}
			_ = one.Release(b)
			if idle {
				Idle{single}.Fold()
			} else {
				single.settle(nil)
			}
		}
		if len(together.released.runs) == all.most {
			t.Fatalf("seed %d: %d runs wait", seed, all.most)
		}
		x, y := together.Snapshot(), single.Snapshot()
		for _, c := range []struct {
			name string
			a, b any
		}{
			{"plans", x.Plans, y.Plans}, {"kept runs", asJSON(t, x.Runs), asJSON(t, y.Runs)}, {"ledger", x.Ledger, y.Ledger}, {"elapsed", x.Elapsed, y.Elapsed},
			{"requests", x.Requests, y.Requests}, {"bad runs", x.BadRuns, y.BadRuns}, {"warnings", x.Warnings, y.Warnings},
			{"steps", together.plans[0].steps, single.plans[0].steps}, {"typical times", together.plans[0].typical, single.plans[0].typical},
			{"suspects", together.plans[0].suspect, single.plans[0].suspect}, {"even", together.plans[0].even, single.plans[0].even},
			{"samples", together.plans[0].samples, single.plans[0].samples}, {"run times", together.plans[0].wall, single.plans[0].wall},
		} {
			if !reflect.DeepEqual(c.a, c.b) {
				t.Errorf("seed %d: %d lanes, %d steps: %s differ:\n%+v\n%+v", seed, len(p.Lanes), len(p.Steps), c.name, c.a, c.b)
			}
		}
		if g.bad == (x.BadRuns == 0) && g.made > 20 || x.Ledger.Runs != want.runs {
			t.Errorf("seed %d: %d runs and %d bad ones, expected %d of %d", seed, x.Ledger.Runs, x.BadRuns, want.runs, g.made)
		}
		want.compare(t, seed, together.plans[0])
		if t.Failed() {
			return
		}
	}
}

// asJSON does not tell empty slices from nil.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// runGenerator makes runs with random stamps.
type runGenerator struct {
	rng    *rand.Rand
	at     int64 // end of the last run
	exact  bool  // lanes say where they lost their processor
	bad    bool  // some runs have bad stamps
	scopes bool  // runs are of several scopes
	made   int
}

// fill stamps a run. It is false if the stamps are bad.
func (g *runGenerator) fill(r *Run) (good bool) {
	rng := g.rng
	g.made++
	r.Start = g.at + rng.Int64N(1000)
	steps := len(r.Costs)
	r.Tokens, r.Sequences, r.Rows = 1+rng.IntN(64), 1+rng.IntN(4), 1+rng.IntN(4)
	if g.scopes {
		r.scope = rng.Int32N(3)
	}
	for s := range r.Costs {
		r.Costs[s] = Cost{FLOPs: rng.Int64N(1e6), Bytes: rng.Int64N(1e6)}
	}
	if rng.IntN(3) == 0 {
		r.Shares = append(r.Shares, Share{Request: fmt.Sprint("request ", rng.IntN(5)), Tokens: r.Tokens, Rows: r.Rows})
	}
	// Lane 0 is never absent, and has all steps that no other lane has.
	has := make([]bool, steps)
	end := r.Start
	for i := len(r.Lanes) - 1; i >= 0; i-- {
		l := &r.Lanes[i]
		l.Absent, l.exact = i > 0 && rng.IntN(4) == 0, g.exact
		now := r.Start + rng.Int64N(100)
		l.Wake, l.Done = now, now
		for s := range l.Steps {
			l.Steps[s] = StepStamps{}
			if l.Absent || has[s] && rng.IntN(4) == 0 || i > 0 && rng.IntN(6) == 0 {
				if rng.IntN(2) == 0 { // an older run left them
					l.Steps[s] = StepStamps{rng.Int64N(r.Start), rng.Int64N(r.Start), rng.Int64N(r.Start)}
				}
				continue
			}
			has[s] = true
			now += g.span(200)
			st := &l.Steps[s]
			st.Arrive = now
			now += g.span(3000)
			st.Begin = now
			now += g.span(200_000)
			st.End, l.Done = now, now
			if g.exact && rng.IntN(30) == 0 {
				l.Mark(s, []int64{unknownOff, rng.Int64N(st.End - st.Begin + 1), 2 * (st.End - st.Begin)}[rng.IntN(3)])
			}
		}
		if rng.IntN(8) == 0 {
			l.Gap = rng.Int64N(100)
		}
		if l.Wait = g.span(500); l.Absent {
			l.Wait, l.Gap = 0, 0
		}
		l.Done += l.Wait
		end = max(end, l.Done)
	}
	r.End = end + rng.Int64N(100)
	g.at = r.End
	if !g.bad || rng.IntN(6) > 0 {
		return true
	}
	st := &r.Lanes[0].Steps[rng.IntN(steps)]
	switch rng.IntN(4) {
	case 0:
		r.End = 0
	case 1:
		r.Lanes[0].Done = r.Start - 1
	case 2:
		st.Arrive, st.Begin, st.End = r.Start+2, r.Start+3, r.Start+1
	case 3:
		st.Arrive, st.Begin, st.End = 0, r.Start+1, r.Start+2
	}
	return false
}

// span is a time up to most, and often 0.
func (g *runGenerator) span(most int64) int64 {
	if g.rng.IntN(4) == 0 {
		return 0
	}
	return g.rng.Int64N(1 + g.rng.Int64N(most))
}

func copyStamps(to, from *Run) {
	to.Start, to.End, to.Tokens, to.Sequences, to.Rows, to.scope = from.Start, from.End, from.Tokens, from.Sequences, from.Rows, from.scope
	copy(to.Costs, from.Costs)
	to.Shares = append(to.Shares[:0], from.Shares...)
	for i := range to.Lanes {
		a, b := &to.Lanes[i], &from.Lanes[i]
		copy(a.Steps, b.Steps)
		copy(a.switched, b.switched)
		copy(a.off, b.off)
		a.Wake, a.Done, a.Gap, a.Wait, a.marks, a.Absent, a.exact = b.Wake, b.Done, b.Gap, b.Wait, b.marks, b.Absent, b.exact
	}
}

// plainFold adds up runs in the plainest way.
type plainFold struct {
	plan          *Plan
	lanes         int
	runs          int64
	marks         bool      // some step lost its processor: the time on one depends on what was learned
	compute, wait [][]int64 // [lane][step]
	ledgers       []Ledger  // [lane]
	steps         []stepFold
	even          []int64 // as that of planFold
}

func newPlainFold(p *Plan) *plainFold {
	f := &plainFold{plan: p, lanes: len(p.Lanes), ledgers: make([]Ledger, len(p.Lanes)), steps: make([]stepFold, len(p.Steps)), even: make([]int64, len(p.Steps)*len(p.Lanes))}
	for range p.Lanes {
		f.compute, f.wait = append(f.compute, make([]int64, len(p.Steps))), append(f.wait, make([]int64, len(p.Steps)))
	}
	return f
}

func (f *plainFold) add(r *Run) {
	f.runs++
	var before int64 // the end of the steps before
	for s := range f.steps {
		var first, last, busy, longest int64
		n := 0
		for i := range r.Lanes {
			l, st := &r.Lanes[i], r.Lanes[i].Steps[s]
			if l.Absent || st.Arrive < r.Start {
				continue
			}
			took := st.End - st.Begin
			f.compute[i][s] += took
			f.wait[i][s] += st.Begin - st.Arrive
			f.ledgers[i].Compute += took
			f.ledgers[i].Barrier += st.Begin - st.Arrive
			f.marks = f.marks || l.marked(s)
			busy, longest = busy+took, max(longest, took)
			if n++; n == 1 || st.Begin < first {
				first = st.Begin
			}
			last = max(last, st.End)
		}
		if f.plan.Steps[s].Barrier && first < before {
			first = min(before, last)
		}
		before = max(before, last)
		to := &f.steps[s]
		to.span.addValue(last - first)
		to.longest += longest
		to.flops += r.Costs[s].FLOPs
		to.bytes += r.Costs[s].Bytes
		f.even[s*f.lanes+n-1] += busy
	}
	for i := range r.Lanes {
		l, to := &r.Lanes[i], &f.ledgers[i]
		outside, wall := l.Wake-r.Start+r.End-l.Done, r.End-r.Start
		if l.Absent {
			outside = wall
		}
		if to.Runs, to.Wall, to.LaneTime, to.Barrier = to.Runs+1, to.Wall+wall, to.LaneTime+wall, to.Barrier+l.Wait; i == 0 {
			to.Dispatch += outside
		} else {
			to.Idle += outside
		}
		to.Residual = to.LaneTime - to.Compute - to.Barrier - to.Dispatch - to.Idle
	}
}

// compare reports what a plan has else.
func (f *plainFold) compare(t *testing.T, seed uint64, got *planFold) {
	t.Helper()
	if !reflect.DeepEqual(f.compute, got.compute) || !reflect.DeepEqual(f.wait, got.wait) || !reflect.DeepEqual(f.ledgers, got.lanes) {
		t.Errorf("seed %d: lanes have\n%d, %d, %+v, expected\n%d, %d, %+v", seed, got.compute, got.wait, got.lanes, f.compute, f.wait, f.ledgers)
	}
	if !f.marks && !reflect.DeepEqual(f.even, got.even) {
		t.Errorf("seed %d: even is %d, expected %d", seed, got.even, f.even)
	}
	for s := range f.steps {
		a, b := &f.steps[s], &got.steps[s]
		if a.span != b.span || a.flops != b.flops || a.bytes != b.bytes || !f.marks && a.longest != b.longest {
			t.Errorf("seed %d: step %d has %d FLOPs, %d bytes, %d ns in its busiest lanes, %+v; expected %d, %d, %d, %+v",
				seed, s, b.flops, b.bytes, b.longest, b.span, a.flops, a.bytes, a.longest, a.span)
		}
	}
}
