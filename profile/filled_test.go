package profile

import (
	"context"
	"encoding/base64"
	"reflect"
	"strings"
	"testing"
)

// filled is a recording that has what the fixture has not: together they have a
// value other than 0 in each number of the schema.
func filled(t testing.TB) *Profile {
	t.Helper()
	rec, clock := recorderWithClock(Options{Heap: true, Requests: 8})
	rec.SetFacts(Facts{CPU: "Test CPU", Cores: 2, Threads: 2, Params: 22_713_216})
	for i := range leastProbes + 1 {
		for _, s := range []struct {
			probe Probe
			rate  float64
		}{{Probe{Class: "f32"}, 110e9}, {Probe{Class: "bf16"}, 430e9}, {Probe{Level: "L2", UpTo: 64 << 10}, 90e9}, {Probe{Level: "memory"}, 4e9}} {
			rec.Probed(s.probe, s.rate*(1+0.02*float64(i)), Now()-1000, Now()-500)
		}
	}
	ctx, end := Scope(WithRecorder(context.Background(), rec), "work")
	inner, endInner := Scope(ctx, "embed")

	plan := testPlan()
	plan.Steps[1].Weights, plan.Steps[2].State, plan.Steps[2].Ragged, plan.Steps[4].Rows = 100<<10, true, true, true
	h := mustPlan(t, rec, plan)
	for i := range int64(6) {
		r := h.Acquire()
		stampTestRun(r, 1_000_000+i*200_000)
		r.Shares = append(r.Shares, Share{"a", 60, 60, 1830, 3}, Share{"b", 4, 200, 794, 1})
		if i >= 2 {
			r.InScope(inner)
		}
		for k := range r.Lanes { // the threads lose their processors in step 1, for as long as one of them knows
			l := &r.Lanes[k]
			l.exact, l.Gap = true, 300
			l.Mark(1, 2000+100*i)
			l.Time.off.Add(1500)
			l.Time.blind.Add(2500)
		}
		r.Lanes[1].Wait = 400
		for k := range plan.Steps {
			r.EnterStep(k)
			clock.advance(100)
			r.LeaveStep()
		}
		r.stepHeap[1].addCount(HeapCount{3, 4096})
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	stampRound(rec.Round("embed.coarse", "embed", []string{"worker 0", "worker 1", "worker 2"}), 9_000)
	round := rec.Round("embed.coarse", "embed", []string{"worker 0", "worker 1", "worker 2"})
	stampRound(round, 9_000)
	round.end(9_000)
	for range 3 {
		rec.CountMemory("card", 7, func() DeviceMemory {
			return DeviceMemory{Held: 3 << 20, Used: 2 << 20, ByClass: map[string]int64{"weights": 1 << 20, "io": 1 << 20}}
		})
	}
	for i := range int64(3) {
		if err := rec.Request(Request{ID: string('a' + rune(i)), Start: 1_000_000, FirstToken: 1_400_000, End: 1_900_000 + i, PromptTokens: 12, OutputTokens: 4,
			Tokenize: 10_000, Compile: 20_000, Queue: 30_000, Hand: 40_000}); err != nil {
			t.Fatal(err)
		}
	}
	rec.Counter("temperature", "degrees").Set(-3)
	rec.Counter("temperature", "degrees").Set(40)
	median := 0.5
	rec.SetOverhead(Overhead{With: 1_005_000, Without: 1_000_000, Runs: 10, Median: &median, Interval: &[2]float64{-0.25, 1.5}})
	_, endBatch := Scope(ctx, "batch")
	clock.advance(50_000)
	endBatch()
	endInner()
	end()
	Scope(ctx, "left open")

	p := rec.Snapshot()
	p.Canaries = &Canaries{base64.StdEncoding.EncodeToString([]byte(`[{"plan":"embed/T=64","sample":1,"step":3,"ns":2500}]`))}
	p.BadRuns, p.Abandoned = 1, 2
	p.Go = &GoStats{HeapCount: HeapCount{1200, 4 << 20}, Cycles: 3, Pause: 120_000, LongPause: 70_000, GCTime: 2_500_000, Goroutines: 4}
	p.Process = &ProcessStats{Before: 12_000_000, BeforeCPU: 9_000_000, Scoped: 5_000, InRuns: p.Elapsed, Probing: 10_000, Folding: 5_000, Recorder: 3 << 20}
	p.Resident = &Residency{Bytes: 100 << 20, Owners: []MemoryOwner{{"weights, packed", 90 << 20, 95 << 20}, {otherMemory, 10 << 20, 0}}}
	p.Processor = &ProcessorStats{User: 800_000, System: 50_000, Waited: 40_000, Stolen: 10_000_000, Switches: 3, Preempted: 1, MinorFaults: 200, MajorFaults: 1}
	for i := range p.Plans { // collections as the test has them differ from run to run
		s := &p.Plans[i]
		p.Ledger.GC += int64(len(s.ByLane))*700 - s.Ledger.GC
		s.Ledger.GC = int64(len(s.ByLane)) * 700
		for k := range s.ByLane {
			s.ByLane[k].GC = 700
		}
	}
	return p
}

// TestFilled: no number of the schema is 0 in both recordings, so that the tests that
// change every number of them leave none out.
func TestFilled(t *testing.T) {
	all, set := map[string]bool{}, map[string]bool{}
	w := numberWalk{}
	var walkType func(reflect.Type, string)
	walkType = func(of reflect.Type, name string) {
		switch of.Kind() {
		case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
			all[name] = true
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walkType(of.Elem(), name)
		case reflect.Struct:
			if seen := "type " + of.Name(); !all[seen] {
				all[seen], set[seen] = true, true
				for _, f := range w.fields(of) {
					walkType(of.Field(f.index).Type, of.Name()+f.path)
				}
			}
		}
	}
	walkType(reflect.TypeFor[Profile](), "")
	var walk func(reflect.Value, string)
	walk = func(v reflect.Value, name string) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem(), name)
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i), name)
			}
		case reflect.Map:
			for each := v.MapRange(); each.Next(); {
				walk(each.Value(), name)
			}
		case reflect.Struct:
			for _, f := range w.fields(v.Type()) {
				walk(v.Field(f.index), v.Type().Name()+f.path)
			}
		default:
			set[name] = set[name] || !v.IsZero()
		}
	}
	for _, p := range []*Profile{fixture(t), filled(t)} {
		again, err := Read("a recording", encode(t, p))
		if err != nil {
			t.Fatal(err)
		}
		walk(reflect.ValueOf(again), "")
	}
	for name := range all {
		if !set[name] {
			t.Errorf("%s is 0 in the fixture and in the other recording", strings.TrimPrefix(name, "."))
		}
	}
}
