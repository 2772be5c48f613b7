package profile

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// coarsePlan is one step that one lane runs by itself.
func coarsePlan(id string) Plan {
	return Plan{ID: id, Name: id, Backend: "cpu", Phase: "embed", Lanes: []string{"worker 0"},
		Steps: []Step{{ID: 0, Name: "blk.0/up", Op: "linear", Kernel: "gemm_f32", Class: "f32"}}}
}

// stampWhole is a run that computes from its first moment to its last.
func stampWhole(t *testing.T, h PlanHandle, from, to int64, cost Cost) {
	t.Helper()
	r := h.Acquire()
	r.Start, r.End, r.Tokens = from, to, 10
	for i := range r.Lanes {
		l := &r.Lanes[i]
		l.Wake, l.Done = from, to
		l.Steps[0].Arrive, l.Steps[0].Begin, l.Steps[0].End = from, from, to
	}
	r.Costs[0] = cost
	if err := h.Release(r); err != nil {
		t.Fatal(err)
	}
}

// twoLanes is a machine whose memory gives one lane more than half of what two
// get.
var twoLanes = Ceilings{FLOPs: 200e9, Bytes: 24e9, Class: map[string]float64{"bf16": 800e9}, Lanes: 2,
	One: &Ceilings{FLOPs: 100e9, Bytes: 20e9, Class: map[string]float64{"bf16": 400e9}}}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*math.Abs(want) }

// Two workers with a run each share the time and the machine: they are held
// against the ceiling of two lanes, and their tokens count together.
func TestRunsSideBySide(t *testing.T) {
	rec := NewRecorder(Options{})
	if err := rec.SetCeilings("", twoLanes); err != nil {
		t.Fatal(err)
	}
	coarse := mustPlan(t, rec, coarsePlan("coarse"))
	// Each lane computes 50 GFLOP/s: half of what it can.
	const runs, length = 2000, 1000
	for i := range int64(runs / 2) { // many more than are kept
		from := 1 + i*length
		stampWhole(t, coarse, from, from+length, Cost{FLOPs: 50 * length, Bytes: 8})
		stampWhole(t, coarse, from+length/4, from+length+length/4, Cost{FLOPs: 50 * length, Bytes: 8})
	}
	p := rec.Snapshot()
	s := &p.Plans[0]
	elapsed := int64(runs/2*length + length/4)
	if p.Elapsed != elapsed || s.Elapsed != elapsed || s.Ledger.Wall != runs*length {
		t.Errorf("%d and %d ns elapsed, want %d, of %d in runs", p.Elapsed, s.Elapsed, elapsed, s.Ledger.Wall)
	}
	if got, want := s.TokensPerSecond(), float64(runs*10)/float64(elapsed)*1e9; !near(got, want, 1e-9) {
		t.Errorf("%v tok/s, want %v", got, want)
	}
	r := StepResult{s, &s.Steps[0], &s.Stats[0]}
	if !near(r.GFLOPS(), 100, 1e-3) || !near(r.Roofline(), 50, 1e-3) || !near(float64(r.Lost), float64(elapsed)/2, 1e-3) {
		t.Errorf("%v GFLOP/s, %v %% of the roofline, %d ns lost of %d, want half of 200 GFLOP/s", r.GFLOPS(), r.Roofline(), r.Lost, elapsed)
	}
	if root := p.Tree(); !near(float64(root.Time), float64(elapsed), 1e-6) || root.Lost != r.Lost {
		t.Errorf("the tree has %d ns and lost %d, want %d and %d", root.Time, root.Lost, elapsed, r.Lost)
	}
	var text bytes.Buffer
	if err := Readers.Text(&text, p); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "side by side, 1.000 ms on the clock") {
		t.Errorf("the report does not say what the wall time of such runs is:\n%s", text.String())
	}
	if strings.Contains(text.String(), "worker 0") {
		t.Errorf("the report gives the runs of all workers to one:\n%s", text.String())
	}
}

// A lane that has the machine for itself is held against the ceiling of one.
func TestRunAloneIsHeldAgainstOneLane(t *testing.T) {
	rec := NewRecorder(Options{})
	if err := rec.SetCeilings("", twoLanes); err != nil {
		t.Fatal(err)
	}
	h := mustPlan(t, rec, coarsePlan("coarse"))
	for i := range int64(10) {
		stampWhole(t, h, 1+2000*i, 1001+2000*i, Cost{Bytes: 10_000}) // 10 GB/s
	}
	p := rec.Snapshot()
	s := StepResult{&p.Plans[0], &p.Plans[0].Steps[0], &p.Plans[0].Stats[0]}
	if p.Elapsed != 10_000 || s.Plan.AtOnce() != 1 || s.Roofline() != 50 || s.GBps() != 10 {
		t.Errorf("%d ns, %v at once, %v GB/s, %v %%, want half of 20 GB/s", p.Elapsed, s.Plan.AtOnce(), s.GBps(), s.Roofline())
	}
}

// A fine run and coarse runs of one recording are ranked by the same clock.
func TestFineAndCoarseShareAScale(t *testing.T) {
	rec := NewRecorder(Options{})
	if err := rec.SetCeilings("", twoLanes); err != nil {
		t.Fatal(err)
	}
	coarse := mustPlan(t, rec, coarsePlan("coarse"))
	def := coarsePlan("fine")
	def.Lanes = []string{"worker 0", "worker 1"}
	fine := mustPlan(t, rec, def)
	stampWhole(t, fine, 1, 1501, Cost{FLOPs: 1000})
	for range 2 { // both take 1000 ns of the machine, 2000 of runs
		stampWhole(t, coarse, 2001, 3001, Cost{FLOPs: 1000})
	}
	p := rec.Snapshot()
	if p.Elapsed != 2500 || p.Ledger.Wall != 3500 {
		t.Errorf("%d ns elapsed of %d, want 2500 of 3500", p.Elapsed, p.Ledger.Wall)
	}
	for _, by := range []By{ByTime, ByLost} {
		if top := p.Top(1, by)[0]; top.Plan.ID != "fine" {
			t.Errorf("by %s: %s first, want the fine step, which took 1500 ns", by, top.Plan.ID)
		}
	}
	var sum int64
	for i := range p.Plans {
		sum += p.Plans[i].Elapsed
	}
	if sum != p.Elapsed || p.Tree().Time != p.Elapsed {
		t.Errorf("plans have %d ns and the tree %d, want %d", sum, p.Tree().Time, p.Elapsed)
	}
}

func TestElapsedAllocatesNothing(t *testing.T) {
	rec := NewRecorder(Options{})
	f := newPlanFold(rec, coarsePlan("coarse"))
	at := int64(1)
	if n := testing.AllocsPerRun(2000, func() {
		rec.elapsed.addSpan(f, at, at+10)
		at += 5
	}); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}

func TestCeilingsOfSomeLanes(t *testing.T) {
	four := Ceilings{FLOPs: 400, Bytes: 40, Class: map[string]float64{"bf16": 1600}, Lanes: 4, One: &Ceilings{FLOPs: 130, Bytes: 25}}
	if c := four.at(2.5); c.FLOPs != 265 || c.Bytes != 32.5 || c.Class["bf16"] != 1000 {
		t.Errorf("half way: %+v, want the middle, and a part of the class that was not measured", c)
	}
	for _, lanes := range []float64{4, 9} {
		if c := four.at(lanes); c.FLOPs != 400 {
			t.Errorf("%v lanes: %+v, want all", lanes, c)
		}
	}
	if c := (Ceilings{FLOPs: 400}).at(1); c.FLOPs != 400 {
		t.Errorf("%+v, want all where nobody said of how many lanes", c)
	}
}
