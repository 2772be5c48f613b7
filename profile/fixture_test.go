package profile

import (
	"context"
	"testing"
	"time"
)

// fixture is a recording whose every number is known: an embed plan on two
// workers, a device plan with overlapping kernels, scopes, requests, counters.
func fixture(t testing.TB) *Profile {
	t.Helper()
	rec, clock := recorderWithClock(Options{})
	rec.SetFacts(Facts{CPU: "Test CPU", Tier: "avx512", Cores: 2, Threads: 2, Go: "go1.26", OS: "linux", Arch: "amd64",
		Model: "mini", Params: 22_713_216, Precision: "bf16", Extra: map[string]string{"file": "mini.gguf"}})
	for backend, c := range map[string]Ceilings{
		"cpu": {FLOPs: 220e9, Bytes: 25e9, Class: map[string]float64{"bf16": 860e9}, Source: "measured"},
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
	r.Lanes[0].Arrive[0], r.Lanes[0].Begin[0], r.Lanes[0].End[0] = 2_000_000, 2_000_000, 2_010_000
	r.Lanes[1].Wake, r.Lanes[1].Done = 2_010_000, 2_095_000
	r.Lanes[1].Arrive[1], r.Lanes[1].Begin[1], r.Lanes[1].End[1] = 2_010_000, 2_010_000, 2_060_000
	r.Lanes[1].Arrive[2], r.Lanes[1].Begin[2], r.Lanes[1].End[2] = 2_050_000, 2_050_000, 2_095_000
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
	for _, class := range []string{"go heap objects", "go runtime total"} { // of the test process
		if p.Memory[class] <= 0 {
			t.Errorf("no %s", class)
		}
		delete(p.Memory, class)
	}
	p.Ledger.GC = 0
	for i := range p.Plans {
		p.Plans[i].Ledger.GC = 0
		for j := range p.Plans[i].ByLane {
			p.Plans[i].ByLane[j].GC = 0
		}
	}
	return p
}
