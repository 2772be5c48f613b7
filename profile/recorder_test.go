package profile

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

func TestBadStampsAreErrors(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(*Run)
	}{
		{"missing event", `step 4 "pool" was stamped by none of 2 lanes`, func(r *Run) {
			r.Lanes[0].Steps[4].Arrive, r.Lanes[0].Steps[4].Begin, r.Lanes[0].Steps[4].End = 0, 0, 0
		}},
		{"missing end", `lane "worker 1", step 2 "blk.0/attn/attend"`, func(r *Run) { r.Lanes[1].Steps[2].End = 0 }},
		{"missing arrive", `lane "worker 0", step 1 "blk.0/attn/qkv"`, func(r *Run) { r.Lanes[0].Steps[1].Arrive = 0 }},
		{"missing wake", `lane "worker 1" woke at 0`, func(r *Run) { r.Lanes[1].Wake = 0 }},
		{"missing done", `was done at 0`, func(r *Run) { r.Lanes[0].Done = 0 }},
		{"missing start", `run from 0`, func(r *Run) { r.Start = 0 }},
		{"missing costs", `run has costs of 4 steps, expected 5`, func(r *Run) { r.Costs = r.Costs[:4] }},
		{"missing slots", `lane "worker 1" has slots for 0 steps, expected 5`, func(r *Run) { r.Lanes[1].Steps = nil }},
		{"absent but stamped", `not absent`, func(r *Run) { r.Lanes[1].Absent = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := NewRecorder(Options{})
			h := mustPlan(t, rec, testPlan())
			r := h.Acquire()
			stampTestRun(r, 1)
			c.spoil(r)
			if err := h.Release(r); err != nil {
				t.Fatalf("%v before the runs are folded", err)
			}
			err := rec.Err()
			if !errors.Is(err, ErrStamp) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			p := rec.Snapshot()
			if p.BadRuns != 1 || len(p.Warnings) != 1 || p.Ledger.Runs != 0 {
				t.Errorf("%d bad runs, warnings %q, %d runs in the ledger", p.BadRuns, p.Warnings, p.Ledger.Runs)
			}
		})
	}
}

// Bad runs among good ones: the Release that folds them says so, and the good
// ones count.
func TestReleaseReportsBadRunsWhenItFolds(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, testPlan())
	var errs int
	for i := range 2 * pendingRuns {
		r := h.Acquire()
		stampTestRun(r, int64(1+i*testWall))
		if i%8 == 3 {
			r.Lanes[0].Done = 0
		}
		if err := h.Release(r); err != nil {
			if !errors.Is(err, ErrStamp) {
				t.Fatal(err)
			}
			errs++
		}
	}
	if errs != 2 {
		t.Errorf("%d errors from %d runs folded %d at a time, want 2", errs, 2*pendingRuns, pendingRuns)
	}
	if p := rec.Snapshot(); p.BadRuns != 2*pendingRuns/8 || p.Ledger.Runs != 2*pendingRuns*7/8 {
		t.Errorf("%d bad runs and %d good ones", p.BadRuns, p.Ledger.Runs)
	}
}

// A bad run fails no Release of another plan, which may fold it.
func TestReleaseReportsItsOwnPlan(t *testing.T) {
	rec := NewRecorder(Options{})
	other := testPlan()
	other.ID = "other"
	bad, good := mustPlan(t, rec, testPlan()), mustPlan(t, rec, other)
	r := bad.Acquire()
	stampTestRun(r, 1)
	r.Lanes[0].Done = 0
	if err := bad.Release(r); err != nil {
		t.Fatalf("%v before it was folded", err)
	}
	for i := range pendingRuns {
		r := good.Acquire()
		stampTestRun(r, int64(1+i*testWall))
		if err := good.Release(r); err != nil {
			t.Fatalf("run %d of another plan: %v", i, err)
		}
	}
	if err := rec.Err(); !errors.Is(err, ErrStamp) {
		t.Errorf("the recorder says %v, expected a bad stamp", err)
	}
}

func TestAbsentLaneIsIdle(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, testPlan())
	r := h.Acquire()
	stampTestRun(r, 1)
	l := &r.Lanes[1]
	l.Wake, l.Done, l.Absent = 0, 0, true
	clear(l.Steps)
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

func TestPlanRegistration(t *testing.T) {
	rec := NewRecorder(Options{Plans: 2})
	a, b := mustPlan(t, rec, testPlan()), mustPlan(t, rec, testPlan())
	if a != b {
		t.Error("the same plan got two aggregates")
	}
	other := testPlan()
	other.Model, other.Steps[1].Kernel = "other", "of another"
	if c, again := mustPlan(t, rec, other), mustPlan(t, rec, other); c == a || c != again || !c.Records() {
		t.Error("a plan with other steps got no aggregate of its own")
	}
	more := testPlan()
	more.ID = "second"
	if h := mustPlan(t, rec, more); h.Records() {
		t.Error("a third plan is recorded, expected two")
	}
	wrong := testPlan()
	wrong.ID, wrong.Steps[1].ID = "third", 7
	for _, p := range []Plan{wrong, {ID: "empty"}, {}} {
		if _, err := rec.Plan(p); !errors.Is(err, ErrPlan) {
			t.Errorf("plan %q: error %v, want ErrPlan", p.ID, err)
		}
	}
	p := rec.Snapshot()
	if id := testPlan().ID; len(p.Plans) != 2 || p.Plans[0].ID != id || p.Plans[1].ID != id+"#other" {
		t.Errorf("%d plans, expected %q and a second one of that name", len(p.Plans), id)
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "more than 2 plans") {
		t.Errorf("warnings %q, expected one about the third plan", p.Warnings)
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

// flopsFromInputs is a Costing whose steps take as many FLOPs as the input of
// the same number says.
type flopsFromInputs struct{}

func (flopsFromInputs) Costs(r *Run, costs []Cost) (steps int) {
	for s := range costs {
		costs[s] = Cost{FLOPs: int64(r.Inputs[s]), Bytes: 1}
	}
	return len(costs)
}

// Costs that are asked for later are those of each run's own inputs, and a
// run from the pool has none of the run before.
func TestCostsAreAskedForLater(t *testing.T) {
	rec := NewRecorder(Options{Runs: 4})
	p := testPlan()
	p.Inputs = len(p.Steps)
	h := mustPlan(t, rec, p)
	const runs = 3 * pendingRuns
	want := make([]int64, len(p.Steps))
	for i := range runs {
		r := h.Acquire()
		if len(r.Inputs) != 0 || cap(r.Inputs) < p.Inputs || r.Costing != nil {
			t.Fatalf("run %d begins with %d inputs of %d and costing %v", i, len(r.Inputs), cap(r.Inputs), r.Costing)
		}
		for s, c := range r.Costs {
			if c != (Cost{}) {
				t.Fatalf("run %d begins with a cost of %v for step %d", i, c, s)
			}
		}
		stampTestRun(r, int64(1+i)*testWall)
		clear(r.Costs)
		if i%3 > 0 {
			r.Costing = flopsFromInputs{}
			for s := range want {
				r.Inputs = append(r.Inputs, int32(i*s))
				want[s] += int64(i * s)
			}
		}
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	for s, st := range rec.Snapshot().Plans[0].Stats {
		if st.FLOPs != want[s] || st.Bytes != runs*2/3 {
			t.Errorf("step %d: %d FLOPs and %d bytes, want %d and %d", s, st.FLOPs, st.Bytes, want[s], runs*2/3)
		}
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	rec := NewRecorder(Options{})
	p := testPlan()
	p.Inputs = len(p.Steps)
	h := mustPlan(t, rec, p)
	c := rec.Counter("kv blocks", "blocks")
	start := int64(1)
	if n := testing.AllocsPerRun(200, func() {
		r := h.Acquire()
		stampTestRun(r, start)
		r.Costing = flopsFromInputs{}
		for s := range p.Steps {
			r.Inputs = append(r.Inputs, int32(s))
		}
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

func TestCountersAreBounded(t *testing.T) {
	rec := NewRecorder(Options{Counters: 1, Samples: 4})
	c := rec.Counter("a", "")
	if rec.Counter("a", "") != c {
		t.Error("one name, two counters")
	}
	rec.Counter("b", "").Set(1)
	for i := range 10 {
		c.Set(float64(i))
	}
	c.Add(-5)
	c.Set(math.NaN())
	p := rec.Snapshot()
	if len(p.Counters) != 1 || len(p.Warnings) != 2 {
		t.Fatalf("%d counters, warnings %q", len(p.Counters), p.Warnings)
	}
	if got := p.Counters[0]; got.Last != 4 || got.Peak != 9 || got.Samples != 11 || len(got.Kept) != 4 || got.Kept[3].Value != 4 {
		t.Errorf("%+v", got)
	}
}

func TestLaneSlotsDoNotShareCacheLines(t *testing.T) {
	r := newRun(&Plan{Steps: make([]Step, 5), Lanes: make([]string, 3)}, make([]LaneTime, 3), NewRecorder(Options{}))
	if s := unsafe.Sizeof(r.Lanes[0]); s%128 != 0 {
		t.Errorf("LaneSlots has %d bytes, want a multiple of 128", s)
	}
	addr := func(p *int64) uintptr { return uintptr(unsafe.Pointer(p)) }
	for i := range r.Lanes {
		for j := range r.Lanes {
			if i == j {
				continue
			}
			a, b := addr(&r.Lanes[i].Steps[4].Arrive), addr(&r.Lanes[j].Steps[0].Begin)
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
					if g := rec.Snapshot().Go; g.Cycles < 0 || g.Pause < 0 || g.GCTime < 0 {
						t.Errorf("%+v since the recorder was made", g) // a collection was forgotten twice
					}
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
				r.Lanes[l].Steps[s].Arrive, r.Lanes[l].Steps[s].Begin, r.Lanes[l].Steps[s].End = 1, 2, 3
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

// What lies between two steps and is no wait is the residual, and a wait after a
// lane's last step is the barrier's.
func TestTimeBetweenStepsIsResidual(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, testPlan())
	r := h.Acquire()
	r.Start, r.End = 1000, 2000
	stamps := [2][5][3]int64{ // arrive, begin, end
		{{1100, 1100, 1200}, {1210, 1250, 1300}, {1300, 1300, 1500}, {}, {1590, 1600, 1900}},
		{{}, {1100, 1250, 1320}, {}, {1400, 1400, 1700}, {}},
	}
	for i, lane := range [2]struct{ wake, done, wait int64 }{{1090, 1950, 30}, {1050, 1700, 0}} {
		l := &r.Lanes[i]
		l.Wake, l.Done, l.Wait = lane.wake, lane.done, lane.wait
		for s, v := range stamps[i] {
			l.Steps[s].Arrive, l.Steps[s].Begin, l.Steps[s].End = v[0], v[1], v[2]
		}
	}
	if err := errors.Join(h.Release(r), rec.Err()); err != nil {
		t.Fatal(err)
	}
	got := rec.Snapshot()
	for i, want := range []Ledger{
		{Runs: 1, Wall: 1000, LaneTime: 1000, Compute: 650, Barrier: 50 + 30, Dispatch: 90 + 50, Residual: 10 + 10 + 90 + 20},
		{Runs: 1, Wall: 1000, LaneTime: 1000, Compute: 370, Barrier: 150, Idle: 50 + 300, Residual: 50 + 80},
	} {
		if l := got.Plans[0].ByLane[i].Ledger; l != want {
			t.Errorf("lane %d: %+v, expected %+v", i, l, want)
		}
	}
	for s := range stamps[0] {
		for i := range stamps {
			v := stamps[i][s]
			if st := got.Plans[0].Stats[s]; st.LaneWait[i] != v[1]-v[0] || st.LaneCompute[i] != v[2]-v[1] {
				t.Errorf("lane %d, step %d: waited %d and worked %d, expected %d and %d", i, s, st.LaneWait[i], st.LaneCompute[i], v[1]-v[0], v[2]-v[1])
			}
		}
		if v := got.Plans[0].Samples.Steps[s].Wait[0]; v != stamps[0][s][1]-stamps[0][s][0]+stamps[1][s][1]-stamps[1][s][0] {
			t.Errorf("step %d: a sample waited %d", s, v)
		}
	}
	if raw := got.Runs[0].Lanes[0]; raw.Wait != 30 {
		t.Errorf("the kept run waited %d ns after its last step, expected 30", raw.Wait)
	}
}

// Slots are used again with the stamps of an older run in them: those are no
// stamps of this one, where a lane has no part in a step, and where one is missing.
func TestOldStampsDoNotCount(t *testing.T) {
	rec := NewRecorder(Options{Events: -1})
	h := mustPlan(t, rec, testPlan())
	const all = 4 * (pendingRuns + spareRuns) // so that every run of the pool is used again
	both := 0
	for i := range all {
		r := h.Acquire()
		start := int64(1 + i*testWall)
		stampTestRun(r, start)
		l := &r.Lanes[1]
		if i < all/2 { // then lane 1 has a part in the last step too
			l.Steps[4].Arrive, l.Steps[4].Begin, l.Steps[4].End, l.Done = start+91_000, start+91_000, start+92_000, start+92_000
			both++
		} else { // an older run left these
			l.Steps[4].Arrive, l.Steps[4].Begin, l.Steps[4].End = 1+91_000, 1+91_000, 1+92_000
		}
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := rec.Snapshot().Plans[0].Stats[4].Calls, int64(all); got != want {
		t.Errorf("%d calls of the last step, want %d", got, want)
	}
	if got, want := rec.plans[0].compute[1][4], int64(both)*1000; got != want {
		t.Errorf("lane 1 worked %d ns on the last step, want %d", got, want)
	}
	r := h.Acquire()
	start := int64(1 + all*testWall)
	stampTestRun(r, start)
	r.Lanes[0].Steps[4].Arrive, r.Lanes[0].Steps[4].Begin, r.Lanes[0].Steps[4].End = start-9_000, start-8_000, start-7_000
	if err := errors.Join(h.Release(r), rec.Err()); !errors.Is(err, ErrStamp) || !strings.Contains(err.Error(), `step 4 "pool" was stamped by none`) {
		t.Errorf("a step that only an older run stamped: %v", err)
	}
}

// The lines that the border of a run touches are whole cache lines: memory of these
// sizes is aligned to them.
func TestBordersAreCacheLines(t *testing.T) {
	const line = 64
	if s := unsafe.Sizeof(released{}); s != line {
		t.Errorf("released has %d bytes, want %d", s, line)
	}
	var f planFold
	if end := unsafe.Offsetof(f.queue) + unsafe.Sizeof(f.queue); end > line {
		t.Errorf("what a border of a run looks at in a plan ends at byte %d, want %d at most", end, line)
	}
	var r Run
	if at := [...]uintptr{unsafe.Offsetof(r.Lanes), unsafe.Offsetof(r.Shares), unsafe.Offsetof(r.index)}; at != [...]uintptr{line, 2 * line, 3 * line} {
		t.Errorf("the groups of a run begin at bytes %d", at)
	}
	if s := unsafe.Sizeof(r); s%line != 0 {
		t.Errorf("Run has %d bytes, want a multiple of %d", s, line)
	}
	var l LaneSlots
	if at := unsafe.Offsetof(l.Time); at != line {
		t.Errorf("the second group of a lane begins at byte %d", at)
	}
}

// Slots of lanes begin at cache lines, whatever the number of lanes.
func TestSlotsBeginAtCacheLines(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		p := testPlan()
		p.Lanes = nil
		for i := range n {
			p.Lanes = append(p.Lanes, fmt.Sprintf("worker %d", i))
		}
		r := mustPlan(t, NewRecorder(Options{}), p).Acquire()
		for i := range r.Lanes {
			if at := uintptr(unsafe.Pointer(&r.Lanes[i])) % 64; at != 0 {
				t.Errorf("slots of lane %d of %d begin at byte %d of a cache line", i, n, at)
			}
		}
	}
}

// TestNothingPanics: what is no number of anything is left out with a warning, limits are
// bounded, and nil records nothing.
func TestNothingPanics(t *testing.T) {
	huge := 1 << 62
	rec := NewRecorder(Options{Plans: huge, Events: huge, Runs: huge, Scopes: huge, ScopeEvents: huge, Requests: huge, Counters: huge, Samples: huge})
	mustPlan(t, rec, testPlan())
	rec.Counter("c", "units").Set(1)
	rec.SetMemory("a", -1)
	rec.SetMemory("b", math.MaxInt64)
	rec.SetMemory("c", 7)
	rec.SetFacts(Facts{Cores: -1})
	rec.SetFacts(Facts{Model: "m"})
	rec.SetOverhead(Overhead{With: -5})
	rec.WatchMemory(0)()
	rec.WatchMemory(-time.Second)()
	p := rec.Snapshot()
	if p.Memory["a"] != 0 || p.Memory["b"] != 0 || p.Memory["c"] != 7 || p.Facts.Model != "m" || p.Facts.Cores < 1 || p.Overhead != nil && !p.Overhead.Estimated {
		t.Errorf("memory %v, facts %+v, overhead %v", p.Memory, p.Facts, p.Overhead)
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], `4 values left out, the first because of: memory "a": -1 bytes`) {
		t.Errorf("warnings %q", p.Warnings)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := Read("p", b.Bytes()); err != nil {
		t.Error(err)
	}
	for _, none := range []*Recorder{nil, {}} {
		none.Counter("c", "").Set(1)
		none.SetMemory("a", 1)
		none.SetFacts(Facts{})
		none.SetOverhead(Overhead{})
		none.WatchMemory(time.Second)()
		none.CountMemory("d", 1, nil)
		none.Probed(Probe{}, 1, 0, 0)
		if h, err := none.Plan(testPlan()); err != nil || h.Records() || none.Err() != nil || none.LacksProbe(Probe{}) {
			t.Errorf("%+v, %v", h, err)
		}
		if err := errors.Join(none.SetCeilings("", Ceilings{}), none.DefaultCeilings("", Ceilings{})); err != nil {
			t.Error(err)
		}
		if p := none.Snapshot(); p.Format != Format || len(p.Plans) > 0 {
			t.Errorf("%+v", p)
		}
	}
}

// TestSnapshotWhileThreadsAreWatched is for the race detector: a snapshot reads what the end
// of a run writes.
func TestSnapshotWhileThreadsAreWatched(t *testing.T) {
	rec := NewRecorder(Options{})
	var writer sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				rec.wait.counter.Set(1)
			}
		}
	})
	for range 100 {
		rec.Snapshot()
	}
	close(stop)
	writer.Wait()
	if p := rec.Snapshot(); !slices.ContainsFunc(p.Counters, func(c CounterStats) bool { return c.Name == waitingCounter }) {
		t.Errorf("counters %+v", p.Counters)
	}
}
