package profile

import (
	"runtime"
	"strings"
	"sync"
	"testing"
)

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
		lanes.addLedger(l.Ledger)
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
		l.Steps[0].Arrive, l.Steps[0].Begin, l.Steps[0].End = 1000, 1000, 1050
		l.Steps[1].Arrive, l.Steps[1].Begin, l.Steps[1].End = 1000+c.yBegin, 1000+c.yBegin, 1100
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
		got := rec.Snapshot().Ledger
		if got.Residual != c.residual || got.ResidualPercent() != c.perHundred {
			t.Errorf("%s: residual %d (%v %%), want %d (%v %%)", c.name, got.Residual, got.ResidualPercent(), c.residual, c.perHundred)
		}
	}
}

// A collection that ends inside a run is charged to all its lanes, and no
// other is.
func TestCollectionsAreCharged(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, Plan{ID: "p", Lanes: []string{"a", "b"}, Steps: []Step{{ID: 0}}})
	release := func(work func()) Ledger {
		before := rec.Snapshot().Ledger
		r := h.Acquire()
		r.Start = Now()
		work()
		r.End = Now()
		for i := range r.Lanes {
			l := &r.Lanes[i]
			l.Wake, l.Done = r.Start, r.End
			l.Steps[0].Arrive, l.Steps[0].Begin, l.Steps[0].End = r.Start, r.Start, r.End
		}
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
		after := rec.Snapshot().Ledger
		return Ledger{GC: after.GC - before.GC}
	}
	runtime.GC()
	if got := release(func() {}); got.GC != 0 {
		t.Errorf("a run without a collection has %d ns of it", got.GC)
	}
	got := release(runtime.GC)
	if got.GC <= 0 || got.GC%2 != 0 {
		t.Errorf("a collection of two lanes was charged %d ns", got.GC)
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
	// Self (34000+35900)/2; 6000 to 41900 on the clock; floor 12 MFLOP at 400 GFLOP/s.
	if s.Self != 34_950 || s.Total != 34_950+(900+100)/2 || s.Clock != 35_900 || s.Floor != 30_000 || s.Lost != 5_900 {
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
	for by, want := range map[By]string{ByTime: "blk.0/attn/qkv", ByLost: "blk.0/attn/qkv", ByAlloc: "blk.1/ffn/up", ByFLOPs: "blk.1/ffn/up", ByUneven: "blk.0/attn/qkv"} {
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
		l.Steps[i].Arrive, l.Steps[i].Begin, l.Steps[i].End = 150, 150, 150+d
	}
	if err := h.Release(r); err != nil {
		t.Fatal(err)
	}
	st := rec.Snapshot().Plans[0].Stats
	if st[0].Self != 50 || st[1].Self != 800 {
		t.Errorf("self %d and %d, want 50 and 800", st[0].Self, st[1].Self)
	}
}

// Lanes that really run at the same time stamp without a lock, and the ledger
// still adds up.
func TestLanesStampConcurrently(t *testing.T) {
	rec := NewRecorder(Options{})
	plan := testPlan()
	plan.Lanes = []string{"worker 0", "worker 1", "worker 2", "worker 3"}
	h := mustPlan(t, rec, plan)
	for range 5 {
		r := h.Acquire()
		r.Start = Now()
		var wg sync.WaitGroup
		for i := range r.Lanes {
			wg.Go(func() {
				l := &r.Lanes[i]
				l.Wake = Now()
				for s := range plan.Steps {
					l.Steps[s].Arrive = Now()
					l.Steps[s].Begin = Now()
					l.Steps[s].End = Now()
				}
				l.Done = Now()
			})
		}
		wg.Wait()
		r.End = Now()
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	l := rec.Snapshot().Ledger
	if got := l.Compute + l.Barrier + l.Dispatch + l.Idle + l.Residual; got != l.LaneTime || l.LaneTime != 4*l.Wall || l.Residual < 0 {
		t.Errorf("parts add up to %d of %+v", got, l)
	}
}
