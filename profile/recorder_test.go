package profile

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// testPlan has two lanes and five steps: a fused one, one that a single lane
// runs, barriers in between.
func testPlan() Plan {
	return Plan{ID: "embed/T=64", Name: "embed T=64", Model: "mini", Backend: "cpu", Phase: "embed",
		Lanes: []string{"worker 0", "worker 1"},
		Steps: []Step{
			{ID: 0, Name: "embed/tokens", Op: "gather", Kernel: "gather_f32", Layer: -1, Alloc: 4096},
			{ID: 1, Name: "blk.0/attn/qkv", Op: "linear", Kernel: "gemm_bf16", Class: "bf16", Layer: 0, Barrier: true, Alloc: 12288,
				Nodes: []Node{{"blk.0/attn/q_proj", "linear", 0.5}, {"blk.0/attn/k_proj", "linear", 0.25}, {"blk.0/attn/rope", "rope", 0.25}}},
			{ID: 2, Name: "blk.0/attn/attend", Op: "attention", Kernel: "attn_f32", Layer: 0, Barrier: true},
			{ID: 3, Name: "blk.1/ffn/up", Op: "linear", Kernel: "gemm_bf16", Class: "bf16", Layer: 1, Barrier: true, Alloc: 16384},
			{ID: 4, Name: "pool", Op: "pool", Kernel: "pool_f32", Layer: -1, Barrier: true},
		},
		MemoryBytes: map[string]int64{"activations": 1 << 20, "scratch": 1 << 16},
	}
}

// stamps of one run of testPlan as offsets from its start, 0 = no part in it.
var testStamps = [2]struct {
	wake, done int64
	step       [5][3]int64 // arrive, begin, end
}{
	{1_000, 98_000, [5][3]int64{{1_100, 1_100, 5_000}, {5_100, 6_000, 40_000}, {40_000, 42_000, 60_000}, {60_200, 61_000, 90_000}, {90_000, 91_000, 97_000}}},
	{3_000, 92_000, [5][3]int64{{3_000, 3_000, 5_900}, {5_900, 6_000, 41_900}, {41_900, 42_000, 60_800}, {60_900, 61_000, 91_000}, {}}},
}

var testCosts = [5]Cost{{0, 60_000}, {12_000_000, 200_000}, {2_200_000, 150_000}, {16_000_000, 300_000}, {8_000, 40_000}}

const testWall = 100_000

func stampTestRun(r *Run, start int64) {
	r.Start, r.End = start, start+testWall
	r.Tokens, r.Sequences, r.Rows = 64, 4, 4
	for i := range r.Lanes {
		l, s := &r.Lanes[i], &testStamps[i]
		l.Wake, l.Done = start+s.wake, start+s.done
		for k, v := range s.step {
			if v[2] != 0 {
				l.Arrive[k], l.Begin[k], l.End[k] = start+v[0], start+v[1], start+v[2]
			}
		}
	}
	copy(r.Costs, testCosts[:])
}

func mustPlan(t testing.TB, rec *Recorder, p Plan) PlanHandle {
	t.Helper()
	h, err := rec.Plan(p)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestLedgerAddsUpExactly(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, testPlan())
	const runs = 3
	for i := range runs {
		r := h.Acquire()
		stampTestRun(r, int64(1+i*200_000))
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	p := rec.Snapshot()
	// The residual by another way: the gaps between consecutive stamps.
	var gaps int64
	for _, s := range testStamps {
		last := s.wake
		for _, v := range s.step {
			if v[2] != 0 {
				gaps += v[0] - last
				last = v[2]
			}
		}
		gaps += s.done - last
	}
	want := Ledger{Runs: runs, Wall: runs * testWall, LaneTime: runs * testWall * 2,
		Compute:  runs * (3_900 + 34_000 + 18_000 + 29_000 + 6_000 + 2_900 + 35_900 + 18_800 + 30_000),
		Barrier:  runs * (900 + 2_000 + 800 + 1_000 + 100 + 100 + 100),
		Dispatch: runs * 3_000, Idle: runs * 11_000, Residual: runs * gaps}
	got := p.Plans[0].Ledger
	got.GC = 0 // the test process collects when it likes
	if got != want {
		t.Errorf("ledger\n got %+v\nwant %+v", got, want)
	}
	if s := got.Compute + got.Barrier + got.Dispatch + got.Idle + got.Residual; s != got.LaneTime {
		t.Errorf("parts add up to %d, lane time is %d", s, got.LaneTime)
	}
	var lanes Ledger
	for _, l := range p.Plans[0].ByLane {
		lanes.add(l.Ledger)
	}
	if lanes.Compute != want.Compute || lanes.Residual != want.Residual || lanes.Idle != want.Idle {
		t.Errorf("lanes add up to %+v", lanes)
	}
	if p.Plans[0].Tokens != runs*64 || p.Plans[0].TokensPerSecond() != 64/100e-6 {
		t.Errorf("%d tokens, %v tok/s", p.Plans[0].Tokens, p.Plans[0].TokensPerSecond())
	}
}

func TestResidualKeepsItsSign(t *testing.T) {
	p := Plan{ID: "p", Backend: "cpu", Lanes: []string{"a"}, Steps: []Step{{ID: 0, Name: "x"}, {ID: 1, Name: "y"}}}
	for _, c := range []struct {
		name       string
		yBegin     int64
		residual   int64
		perHundred float64
	}{{"gap", 60, 10, 10}, {"none", 50, 0, 0}, {"overlap", 30, -20, -20}} {
		rec := NewRecorder(Options{})
		h := mustPlan(t, rec, p)
		r := h.Acquire()
		r.Start, r.End = 1000, 1100
		l := &r.Lanes[0]
		l.Wake, l.Done = 1000, 1100
		l.Arrive[0], l.Begin[0], l.End[0] = 1000, 1000, 1050
		l.Arrive[1], l.Begin[1], l.End[1] = 1000+c.yBegin, 1000+c.yBegin, 1100
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
		got := rec.Snapshot().Ledger
		if got.Residual != c.residual || got.ResidualPercent() != c.perHundred {
			t.Errorf("%s: residual %d (%v %%), want %d (%v %%)", c.name, got.Residual, got.ResidualPercent(), c.residual, c.perHundred)
		}
	}
}

func TestBadStampsAreErrors(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(*Run)
	}{
		{"missing event", `step 4 "pool" was stamped by none of 2 lanes`, func(r *Run) {
			r.Lanes[0].Arrive[4], r.Lanes[0].Begin[4], r.Lanes[0].End[4] = 0, 0, 0
		}},
		{"missing end", `lane "worker 1", step 2 "blk.0/attn/attend"`, func(r *Run) { r.Lanes[1].End[2] = 0 }},
		{"missing arrive", `lane "worker 0", step 1 "blk.0/attn/qkv"`, func(r *Run) { r.Lanes[0].Arrive[1] = 0 }},
		{"missing wake", `lane "worker 1" woke at 0`, func(r *Run) { r.Lanes[1].Wake = 0 }},
		{"missing done", `was done at 0`, func(r *Run) { r.Lanes[0].Done = 0 }},
		{"missing start", `run from 0`, func(r *Run) { r.Start = 0 }},
		{"absent but stamped", `not absent`, func(r *Run) { r.Lanes[1].Absent = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := NewRecorder(Options{})
			h := mustPlan(t, rec, testPlan())
			r := h.Acquire()
			stampTestRun(r, 1)
			c.spoil(r)
			err := h.Release(r)
			if !errors.Is(err, ErrStamp) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if err := rec.Err(); !errors.Is(err, ErrStamp) {
				t.Errorf("recorder forgot: %v", err)
			}
			p := rec.Snapshot()
			if p.BadRuns != 1 || len(p.Warnings) != 1 || p.Ledger.Runs != 0 {
				t.Errorf("%d bad runs, warnings %q, %d runs in the ledger", p.BadRuns, p.Warnings, p.Ledger.Runs)
			}
		})
	}
}

func TestAbsentLaneIsIdle(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, testPlan())
	r := h.Acquire()
	stampTestRun(r, 1)
	l := &r.Lanes[1]
	l.Wake, l.Done, l.Absent = 0, 0, true
	clear(l.Arrive)
	clear(l.Begin)
	clear(l.End)
	if err := h.Release(r); err != nil {
		t.Fatal(err)
	}
	if l := rec.Snapshot().Plans[0].ByLane[1]; l.Idle != testWall || l.Residual != 0 {
		t.Errorf("absent lane: %+v", l)
	}
	h.Discard(h.Acquire())
	if n := rec.Snapshot().Abandoned; n != 1 {
		t.Errorf("%d abandoned runs, want 1", n)
	}
}

func TestStepStats(t *testing.T) {
	rec := NewRecorder(Options{})
	if err := rec.SetCeilings("cpu", Ceilings{FLOPs: 100e9, Bytes: 25e9, Class: map[string]float64{"bf16": 400e9}}); err != nil {
		t.Fatal(err)
	}
	h := mustPlan(t, rec, testPlan())
	r := h.Acquire()
	stampTestRun(r, 1)
	if err := h.Release(r); err != nil {
		t.Fatal(err)
	}
	p := rec.Snapshot()
	s := p.ByName("blk.0/attn/qkv")[0]
	// Self (34000+35900)/2; floor 12 MFLOP at 400 GFLOP/s.
	if s.Self != 34_950 || s.Total != 34_950+(900+100)/2 || s.Floor != 30_000 || s.Lost != 4_950 {
		t.Errorf("qkv: %+v", *s.StepStats)
	}
	if s.Span.Max != 35_900 || s.LaneCompute[0] != 34_000 || s.LaneWait[1] != 100 {
		t.Errorf("qkv: %+v", *s.StepStats)
	}
	// 2.2 MFLOP at 100 GFLOP/s take longer than 150 kB at 25 GB/s; gathering
	// only moves bytes, 60 kB.
	for name, want := range map[string]int64{"blk.0/attn/attend": 22_000, "embed/tokens": 2_400} {
		if s := p.ByName(name)[0]; s.Floor != want {
			t.Errorf("%s has floor %d, want %d", name, s.Floor, want)
		}
	}
	for by, want := range map[By]string{ByTime: "blk.0/attn/qkv", ByLost: "blk.0/attn/qkv", ByAlloc: "blk.1/ffn/up", ByFLOPs: "blk.1/ffn/up"} {
		if got := p.Top(1, by); len(got) != 1 || got[0].Step.Name != want {
			t.Errorf("top by %s is %v, want %s", by, got[0].Step.Name, want)
		}
	}
	var lane, flops int64
	for _, g := range p.ByOp() {
		lane += g.LaneTime
		flops += g.FLOPs
		if g.Name == "rope" && (g.FLOPs != 3_000_000 || g.LaneTime != 17_475) {
			t.Errorf("rope has %+v, want a quarter of the fused step", g)
		}
	}
	if lane != p.Ledger.Compute || flops != 30_208_000 {
		t.Errorf("ops add up to %d lane ns and %d FLOPs, want %d and 30208000", lane, flops, p.Ledger.Compute)
	}
	var layers []string
	for _, g := range p.ByLayer() {
		layers = append(layers, g.Name)
	}
	if got := strings.Join(layers, " "); got != "(none) 0 1" {
		t.Errorf("layers %q", got)
	}
}

// On a device plan the host's lanes do not dilute the device's time.
func TestDeviceStepsDivideByDeviceLanes(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, Plan{ID: "d", Backend: "null", Lanes: []string{"host", "null:0 stream"}, HostLanes: 1,
		Steps: []Step{{ID: 0, Name: "launch", Host: true}, {ID: 1, Name: "gemm"}}})
	r := h.Acquire()
	r.Start, r.End = 100, 1100
	for i, d := range []int64{50, 800} {
		l := &r.Lanes[i]
		l.Wake, l.Done = 100, 1100
		l.Arrive[i], l.Begin[i], l.End[i] = 150, 150, 150+d
	}
	if err := h.Release(r); err != nil {
		t.Fatal(err)
	}
	st := rec.Snapshot().Plans[0].Stats
	if st[0].Self != 50 || st[1].Self != 800 {
		t.Errorf("self %d and %d, want 50 and 800", st[0].Self, st[1].Self)
	}
}

func TestPlanRegistration(t *testing.T) {
	rec := NewRecorder(Options{Plans: 1})
	a, b := mustPlan(t, rec, testPlan()), mustPlan(t, rec, testPlan())
	if a != b {
		t.Error("the same plan got two aggregates")
	}
	other := testPlan()
	other.Steps = other.Steps[:2]
	more := testPlan()
	more.ID = "second"
	wrong := testPlan()
	wrong.ID, wrong.Steps[1].ID = "third", 7
	for _, p := range []Plan{other, more, wrong, {ID: "empty"}, {}} {
		if _, err := rec.Plan(p); !errors.Is(err, ErrPlan) {
			t.Errorf("plan %q: error %v, want ErrPlan", p.ID, err)
		}
	}
	var none PlanHandle
	if r := none.Acquire(); r != nil {
		t.Error("the zero handle gave a run")
	}
	if err := none.Release(nil); err != nil {
		t.Error(err)
	}
}

// The trace keeps the first and the last runs within the budget of records.
func TestKeptRunsAreBounded(t *testing.T) {
	rec := NewRecorder(Options{Events: 6 * 10}) // 10 records a run
	h := mustPlan(t, rec, testPlan())
	for i := range 20 {
		r := h.Acquire()
		stampTestRun(r, int64(1+i*testWall))
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	var got []int64
	for _, r := range rec.Snapshot().Runs {
		got = append(got, r.Index)
	}
	want := []int64{0, 1, 2, 17, 18, 19}
	if len(got) != len(want) {
		t.Fatalf("kept %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("kept %v, want %v", got, want)
		}
	}
	small := NewRecorder(Options{Events: 9})
	h = mustPlan(t, small, testPlan())
	r := h.Acquire()
	stampTestRun(r, 1)
	if err := h.Release(r); err != nil {
		t.Fatal(err)
	}
	if p := small.Snapshot(); len(p.Runs) != 0 || len(p.Warnings) != 1 {
		t.Errorf("kept %d runs with warnings %q, want none and a warning", len(p.Runs), p.Warnings)
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, testPlan())
	c := rec.Counter("kv blocks", "blocks")
	start := int64(1)
	if n := testing.AllocsPerRun(200, func() {
		r := h.Acquire()
		stampTestRun(r, start)
		start += testWall
		c.Add(1)
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
		if err := rec.Request(Request{ID: "r", Start: 1, End: 2}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a run, want 0", n)
	}
}

func TestLaneSlotsDoNotShareCacheLines(t *testing.T) {
	r := newRun(5, 3)
	if s := unsafe.Sizeof(r.Lanes[0]); s%128 != 0 {
		t.Errorf("LaneSlots has %d bytes, want a multiple of 128", s)
	}
	addr := func(p *int64) uintptr { return uintptr(unsafe.Pointer(p)) }
	for i := range r.Lanes {
		for j := range r.Lanes {
			if i == j {
				continue
			}
			a, b := addr(&r.Lanes[i].End[4]), addr(&r.Lanes[j].Arrive[0])
			if d := max(a, b) - min(a, b); d < 128 {
				t.Errorf("slots of lanes %d and %d are %d bytes apart", i, j, d)
			}
		}
	}
}

// Runs of several sessions of one plan are released while snapshots are taken.
func TestConcurrentReleases(t *testing.T) {
	rec := NewRecorder(Options{})
	const sessions, runs = 8, 25
	var wg sync.WaitGroup
	for range sessions {
		wg.Go(func() {
			h, err := rec.Plan(testPlan())
			if err != nil {
				t.Error(err)
				return
			}
			for i := range runs {
				r := h.Acquire()
				stampTestRun(r, int64(1+i*testWall))
				if err := h.Release(r); err != nil {
					t.Error(err)
				}
				if i == runs/2 {
					rec.Snapshot()
				}
			}
		})
	}
	wg.Wait()
	l := rec.Snapshot().Ledger
	if l.Runs != sessions*runs || l.LaneTime != l.Runs*2*testWall {
		t.Errorf("%d runs of %d lane ns, want %d", l.Runs, l.LaneTime, sessions*runs)
	}
}

func TestHistogramQuantiles(t *testing.T) {
	var h histogram
	for v := int64(1); v <= 100_000; v++ {
		h.add(v)
	}
	for q, want := range map[float64]float64{0.5: 50_000, 0.95: 95_000, 0.99: 99_000} {
		if got := float64(h.quantile(q)); got < want*15/16 || got > want*17/16 {
			t.Errorf("quantile %v is %v, want %v within 1/16", q, got, want)
		}
	}
	last := -1
	for v := int64(0); v < 1<<20; v++ {
		i := histIndex(v)
		if i != last && i != last+1 {
			t.Fatalf("bucket of %d is %d after %d", v, i, last)
		}
		last = i
	}
	h = histogram{}
	h.add(1 << 62)
	if got := h.dist(); got.P99 != 1<<62 {
		t.Errorf("a value beyond the buckets has p99 %d", got.P99)
	}
}

func BenchmarkRelease(b *testing.B) {
	rec := NewRecorder(Options{})
	p := testPlan()
	for len(p.Steps) < 150 {
		p.Steps = append(p.Steps, Step{ID: len(p.Steps), Name: "more"})
	}
	h := mustPlan(b, rec, p)
	for b.Loop() {
		r := h.Acquire()
		stampTestRun(r, 1)
		for l := range r.Lanes {
			for s := 4; s < len(p.Steps); s++ {
				r.Lanes[l].Arrive[s], r.Lanes[l].Begin[s], r.Lanes[l].End[s] = 1, 2, 3
			}
		}
		if err := h.Release(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
