package profile

import (
	"bytes"
	"context"
	"flag"
	"os"
	"testing"
	"time"
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
		Buffers: []Buffer{{"tokens", "io", -1, 4096, 0, 4}, {"q", "weights", 0, 40 << 10, 0, 4}, {"up", "weights", 1, 60 << 10, 0, 4},
			{"embed/tokens", "activations", -1, 10 << 10, 0, 1}, {"blk.0/attn/qkv", "activations", 0, 30 << 10, 1, 2},
			{"blk.0/attn/attend", "activations", 0, 10 << 10, 2, 3}, {"blk.1/ffn/up", "activations", 1, 40 << 10, 3, 4}},
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
				l.Steps[k].Arrive, l.Steps[k].Begin, l.Steps[k].End = start+v[0], start+v[1], start+v[2]
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

// fixture is a recording whose every number is known: an embed plan on two
// workers, a device plan with overlapping kernels, scopes, requests, counters.
func fixture(t testing.TB) *Profile {
	t.Helper()
	rec, clock := recorderWithClock(Options{})
	rec.SetFacts(Facts{CPU: "Test CPU", Tier: "avx512", Cores: 2, Threads: 2, Go: "go1.26", OS: "linux", Arch: "amd64",
		Model: "mini", Params: 22_713_216, Precision: "bf16", Extra: map[string]string{"file": "mini.gguf"}})
	for backend, c := range map[string]Ceilings{
		"cpu": {FLOPs: 220e9, Bytes: 25e9, Class: map[string]float64{"bf16": 860e9}, Source: "measured", Lanes: 2,
			One: &Ceilings{FLOPs: 110e9, Bytes: 20e9, Class: map[string]float64{"bf16": 430e9}, Lanes: 1}},
	} {
		if err := rec.SetCeilings(backend, c); err != nil {
			t.Fatal(err)
		}
	}
	rec.SetMemory("weights", 90<<20)
	rec.SetOverhead(Overhead{With: 1_004_000, Without: 1_000_000, Runs: 10})

	h := mustPlan(t, rec, testPlan())
	for i := range 4 {
		r := h.Acquire()
		stampTestRun(r, int64(1_000_000+i*200_000))
		if i == 3 {
			r.Request = "req-1"
		}
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	device := mustPlan(t, rec, Plan{ID: "decode", Name: "decode", Model: "mini", Backend: "null", Device: "null:0", Phase: "decode",
		Lanes: []string{"host", "null:0 stream"}, HostLanes: 1,
		Steps: []Step{{ID: 0, Name: "launch", Op: "launch", Layer: -1, Host: true}, {ID: 1, Name: "blk.0/ffn/up", Op: "linear", Kernel: "k1"},
			{ID: 2, Name: "blk.0/ffn/gate", Op: "linear", Kernel: "k1"}}})
	r := device.Acquire()
	r.Start, r.End, r.Tokens = 2_000_000, 2_100_000, 1
	r.Lanes[0].Wake, r.Lanes[0].Done = 2_000_000, 2_100_000
	r.Lanes[0].Steps[0].Arrive, r.Lanes[0].Steps[0].Begin, r.Lanes[0].Steps[0].End = 2_000_000, 2_000_000, 2_010_000
	r.Lanes[1].Wake, r.Lanes[1].Done = 2_010_000, 2_095_000
	r.Lanes[1].Steps[1].Arrive, r.Lanes[1].Steps[1].Begin, r.Lanes[1].Steps[1].End = 2_010_000, 2_010_000, 2_060_000
	r.Lanes[1].Steps[2].Arrive, r.Lanes[1].Steps[2].Begin, r.Lanes[1].Steps[2].End = 2_050_000, 2_050_000, 2_095_000
	if err := device.Release(r); err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		if err := rec.Request(Request{ID: "req-" + string('0'+rune(i)), Name: "chat", Start: 1_000_000 + i*50_000, FirstToken: 1_200_000,
			End: 1_500_000 + i*10_000, PromptTokens: 12, OutputTokens: 4}); err != nil {
			t.Fatal(err)
		}
	}
	rec.Counter("kv blocks", "blocks").Set(17)
	rec.Counter("resident memory", "bytes").Set(283_471_872)

	ctx, end := Scope(WithRecorder(context.Background(), rec), "serve")
	_, endTok := Scope(ctx, "tokenize")
	clock.advance(120_000)
	endTok()
	clock.advance(30_000)
	one, endOne := Scope(ctx, "batch")
	_, endTwo := Scope(ctx, "sample")
	clock.advance(50_000)
	endTwo()
	_, endIn := Scope(one, "pack")
	clock.advance(5_000)
	endIn()
	endOne()
	end()

	p := rec.Snapshot()
	p.Created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p.Start, p.End = 1, 3_000_000
	p.Counters[0].Kept[0].At = 1_700_000
	p.Counters[1].Kept[0].At = 1_800_000
	for _, class := range []string{"go heap objects", "go runtime total"} { // of the test process
		if p.Memory[class] <= 0 {
			t.Errorf("no %s", class)
		}
		delete(p.Memory, class)
	}
	if p.Go == nil || p.Go.Objects <= 0 {
		t.Errorf("no allocations: %+v", p.Go)
	}
	p.Go = &GoStats{HeapCount: HeapCount{1200, 4 << 20}, Cycles: 3, Pause: 120_000, LongPause: 70_000, GCTime: 2_500_000, Goroutines: 4}
	if p.Process == nil || p.Process.Recorder <= 0 {
		t.Errorf("nothing of the whole process: %+v", p.Process)
	}
	p.Process = &ProcessStats{Before: 12_000_000, BeforeCPU: 9_000_000, Scoped: 205_000, InRuns: p.Elapsed, Probing: 10_000, Folding: 5_000, Recorder: 3 << 20}
	p.Resident = &Residency{Bytes: 100 << 20, Owners: []MemoryOwner{{"weights, packed", 90 << 20, 95 << 20}, {otherMemory, 10 << 20, 0}}}
	p.Processor = &ProcessorStats{User: 800_000, System: 50_000, Waited: 40_000, Stolen: 10_000_000, Switches: 3, Preempted: 1, MinorFaults: 200}
	p.Ledger.GC = 0
	for i := range p.Plans {
		p.Plans[i].Ledger.GC = 0
		for j := range p.Plans[i].ByLane {
			p.Plans[i].ByLane[j].GC = 0
		}
	}
	return p
}

var update = flag.Bool("update", false, "rewrite testdata/fixture.json")

// testdata/fixture.json is the fixture, for the tests of packages that read
// profiles. What differs from process to process is left out.
func TestFixtureFile(t *testing.T) {
	p := fixture(t)
	got := encode(t, p)
	const path = "testdata/fixture.json"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the fixture is not %s; -update rewrites it", path)
	}
}
