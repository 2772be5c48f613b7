package profile

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// runOf records one run of steps x, y, ... from 1000 to 1100; stamps are [lane][step]
// begin and end within it, both 0 for a lane that has no part in the step.
func runOf(t *testing.T, c Ceilings, host int, cost Cost, stamps [][][2]int64) *Profile {
	t.Helper()
	p := Plan{ID: "p", Backend: "cpu", HostLanes: host}
	for i := range stamps[0] {
		p.Steps = append(p.Steps, Step{ID: i, Name: string(rune('x' + i)), Op: "op", Host: host > 0 && stamps[0][i][1] > 0})
	}
	return runOfPlan(t, c, p, cost, stamps)
}

// runOfPlan is runOf of a plan without lanes.
func runOfPlan(t *testing.T, c Ceilings, p Plan, cost Cost, stamps [][][2]int64) *Profile {
	t.Helper()
	for i := range stamps {
		p.Lanes = append(p.Lanes, "worker "+string(rune('0'+i)))
	}
	rec := NewRecorder(Options{})
	if err := rec.SetCeilings("cpu", c); err != nil {
		t.Fatal(err)
	}
	h := mustPlan(t, rec, p)
	r := h.Acquire()
	r.Start, r.End = 1000, 1100
	for i, steps := range stamps {
		l := &r.Lanes[i]
		l.Wake, l.Done = 1000, 1100
		for s, v := range steps {
			if v[1] > 0 {
				l.Steps[s].Arrive, l.Steps[s].Begin, l.Steps[s].End = 1000+v[0], 1000+v[0], 1000+v[1]
			}
		}
	}
	for i := range r.Costs {
		r.Costs[i] = cost
	}
	if err := h.Release(r); err != nil {
		t.Fatal(err)
	}
	return rec.Snapshot()
}

func clocks(p *Profile) (out []int64) {
	for i := range p.Plans[0].Stats {
		out = append(out, p.Plans[0].Stats[i].Clock)
	}
	return out
}

// A step that one of two lanes does while the other waits takes as long as it
// takes: that is what its rate is by, and the wait is lost in it.
func TestStepOfOneLane(t *testing.T) {
	p := runOf(t, Ceilings{FLOPs: 10e9}, 0, Cost{FLOPs: 200}, [][][2]int64{{{0, 40}, {40, 70}}, {{0, 0}, {40, 70}}})
	x, y := p.ByName("x")[0], p.ByName("y")[0]
	if x.Self != 20 || x.Clock != 40 || x.GFLOPS() != 5 || x.Roofline() != 50 || x.Lost != 20 {
		t.Errorf("alone: %+v, %v GFLOP/s", *x.StepStats, x.GFLOPS())
	}
	if y.Self != 30 || y.Clock != 30 || y.Lost != 10 {
		t.Errorf("together: %+v", *y.StepStats)
	}
	if top := p.Top(1, ByLost); top[0].Step.Name != "x" {
		t.Errorf("%s has lost most, expected the one that a lane waits for", top[0].Step.Name)
	}
	for _, g := range p.ByOp() {
		if g.Clock != 70 || g.Lost != 30 {
			t.Errorf("%+v", g)
		}
	}
	if root := p.Tree(); root.Clock != 100 || root.Time != 100 || root.Children[0].Clock != 40 {
		t.Errorf("tree: %d on the clock of %d", root.Clock, root.Time)
	}
}

func TestStepsThatOverlap(t *testing.T) {
	for _, c := range []struct {
		name   string
		host   int
		stamps [][][2]int64
		want   []int64
	}{
		{"side by side", 0, [][][2]int64{{{0, 100}, {0, 0}}, {{0, 0}, {0, 100}}}, []int64{50, 50}},
		{"drift", 0, [][][2]int64{{{0, 40}, {40, 100}}, {{0, 60}, {60, 100}}}, []int64{50, 50}},
		{"within", 0, [][][2]int64{{{0, 100}, {0, 0}}, {{0, 0}, {20, 60}}}, []int64{80, 20}},
		{"later one first", 0, [][][2]int64{{{50, 100}, {0, 0}}, {{0, 0}, {0, 50}}}, []int64{50, 50}},
		{"one lane", 0, [][][2]int64{{{0, 30}, {40, 100}}}, []int64{30, 60}},
		{"nothing to do", 0, [][][2]int64{{{0, 100}, {0, 0}}, {{0, 0}, {50, 50}}}, []int64{100, 0}},
		{"a device beside the host", 1, [][][2]int64{{{0, 60}, {0, 0}}, {{0, 0}, {10, 90}}}, []int64{60, 80}},
	} {
		got := clocks(runOf(t, Ceilings{FLOPs: 1e9}, c.host, Cost{FLOPs: 1}, c.stamps))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, expected %d", c.name, got, c.want)
		}
	}
}

// A lane that waits at a barrier reads the clock shortly before it is released: the step
// behind it begins when the last lane has ended all steps before it, and a device's steps
// when they say.
func TestStepsBehindBarriersDoNotOverlap(t *testing.T) {
	for _, c := range []struct {
		name    string
		barrier []bool
		host    int
		stamps  [][][2]int64
		want    []int64
	}{
		{"early reading", []bool{false, true}, 0, [][][2]int64{{{0, 50}, {50, 80}}, {{0, 30}, {48, 90}}}, []int64{50, 40}},
		{"behind two steps", []bool{false, false, true}, 0, [][][2]int64{{{0, 60}, {0, 0}, {60, 80}}, {{0, 0}, {0, 40}, {58, 90}}}, []int64{40, 20, 30}},
		{"before it they overlap", []bool{true, false}, 0, [][][2]int64{{{0, 60}, {60, 100}}, {{0, 40}, {40, 100}}}, []int64{50, 50}},
		{"over before the last", []bool{false, true}, 0, [][][2]int64{{{0, 70}, {0, 0}}, {{0, 0}, {20, 60}}}, []int64{70, 0}},
		{"a device", []bool{false, true}, 1, [][][2]int64{{{0, 60}, {0, 0}}, {{0, 0}, {10, 90}}}, []int64{60, 80}},
	} {
		p := Plan{ID: "p", Backend: "cpu", HostLanes: c.host}
		for i, barrier := range c.barrier {
			p.Steps = append(p.Steps, Step{ID: i, Name: string(rune('x' + i)), Op: "op", Barrier: barrier, Host: c.host > 0 && i == 0})
		}
		got := runOfPlan(t, Ceilings{FLOPs: 1e9}, p, Cost{FLOPs: 1}, c.stamps)
		if !slices.Equal(clocks(got), c.want) {
			t.Errorf("%s: %d, expected %d", c.name, clocks(got), c.want)
		}
	}
}

// Whatever lanes do, no moment counts twice and none in which a step was under
// way is left out.
func TestStepClockAddsUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		stamps := make([][][2]int64, 1+rnd.IntN(4))
		steps := 1 + rnd.IntN(8)
		var inStep [101]bool
		first, last := make([]int64, steps), make([]int64, steps)
		for l := range stamps {
			stamps[l] = make([][2]int64, steps)
			at := int64(1)
			for s := range stamps[l] {
				if l > 0 && rnd.IntN(4) == 0 {
					continue
				}
				b := at + rnd.Int64N(5)
				e := b + rnd.Int64N(8)
				stamps[l][s] = [2]int64{b, e}
				at = e
				if first[s] == 0 || b < first[s] {
					first[s] = b
				}
				last[s] = max(last[s], e)
			}
		}
		var under int64
		for s := range first {
			for i := first[s]; i < last[s]; i++ {
				if !inStep[i] {
					inStep[i] = true
					under++
				}
			}
		}
		var got int64
		for _, v := range clocks(runOf(t, Ceilings{FLOPs: 1e9}, 0, Cost{FLOPs: 1}, stamps)) {
			got += v
		}
		if got > under || got < under-int64(steps) { // each step is rounded down
			t.Fatalf("%v: %d on the clock, expected %d", stamps, got, under)
		}
	}
}

// An older file has no such time, and keeps what it said.
func TestClockOfOlderFiles(t *testing.T) {
	p := runOf(t, Ceilings{FLOPs: 10e9}, 0, Cost{FLOPs: 200}, [][][2]int64{{{0, 40}}, {{0, 0}}})
	old := strings.NewReplacer(`"version":4`, `"version":3`, `"clock_ns":40,`, "").Replace(string(encode(t, p)))
	q, err := Read("old", []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if s := q.ByName("x")[0]; s.Clock != 20 || s.GFLOPS() != 10 {
		t.Errorf("%+v, expected what was held against the machine then", *s.StepStats)
	}
}

// The per cents of a flame graph are of the values that it prints, below 0 or not.
func TestFlameOfLostBelowZero(t *testing.T) {
	p := runOf(t, Ceilings{FLOPs: 1e9}, 0, Cost{FLOPs: 40}, [][][2]int64{{{0, 60}, {60, 90}}})
	var b bytes.Buffer
	if err := Readers.FlameOfLost(&b, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"p: time lost beyond the roofline, 10 ns, drawn where it is above 0: 20 ns<", "<title>p (model): 10 ns, 100.0 %</title>", "<title>x (node): 20 ns, 200.0 %</title>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
