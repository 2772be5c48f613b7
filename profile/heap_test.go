package profile

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"
)

var kept [][]byte

// Allocations are counted to the object where asked for, in scopes and in runs.
func TestHeapIsCounted(t *testing.T) {
	rec := NewRecorder(Options{Heap: true})
	ctx := WithRecorder(context.Background(), rec)
	allocate := func(n int) {
		for range n {
			kept = append(kept, make([]byte, 1000))
		}
	}
	kept = make([][]byte, 0, 100)
	outer, end := Scope(ctx, "outer")
	allocate(10)
	_, endInner := Scope(outer, "inner")
	allocate(20)
	endInner()
	end()

	h := mustPlan(t, rec, testPlan())
	for range 3 {
		r := h.Acquire()
		allocate(7)
		stampTestRun(r, Now())
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	runtime.KeepAlive(kept)
	p := rec.Snapshot()
	// Objects of 1000 bytes lie in slots of 1024. The runtime allocates a little
	// beside them, the scopes themselves among it.
	within := func(what string, got *HeapCount, objects int64) {
		t.Helper()
		if got == nil || got.Objects < objects || got.Objects > objects+20 || got.Bytes < objects*1024 || got.Bytes > objects*1024+16<<10 {
			t.Errorf("%s allocated %+v, want %d objects of 1024 bytes", what, got, objects)
		}
	}
	within("inner", p.Scopes[1].Heap, 20)
	within("outer", p.Scopes[0].Heap, 30)
	within("the plan", p.Plans[0].Heap, 21)

	none := NewRecorder(Options{})
	_, end = Scope(WithRecorder(context.Background(), none), "x")
	end()
	if none.Snapshot().Scopes[0].Heap != nil {
		t.Error("nobody asked for the heap")
	}
}

// The reports name the steps that allocated.
func TestHeapRows(t *testing.T) {
	rec := NewRecorder(Options{Heap: true})
	h := mustPlan(t, rec, testPlan())
	r := h.Acquire()
	if !r.CountsHeap() {
		t.Fatal("a run of a recorder that counts does not")
	}
	for step, n := range []int{0, 0, 40, 3, 0} {
		r.EnterStep(step)
		r.EnterStep(step) // another lane
		for range n {
			kept = append(kept[:0], make([]byte, 1000))
		}
		r.LeaveStep()
		r.LeaveStep()
	}
	stampTestRun(r, Now())
	if err := h.Release(r); err != nil {
		t.Fatal(err)
	}
	p := rec.Snapshot()
	if top := p.Top(2, ByHeap); top[0].Step.Name != "blk.0/attn/attend" || top[0].Heap.Objects < 40 || top[1].Step.Name != "blk.1/ffn/up" || top[1].Heap.Objects < 3 || top[1].Heap.Objects > 39 {
		t.Errorf("the most by %s (%+v) and %s (%+v)", top[0].Step.Name, top[0].Heap, top[1].Step.Name, top[1].Heap)
	}
	var b strings.Builder
	if err := Readers.Text(&b, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  step blk.0/attn/attend", "  step blk.1/ffn/up", "allocated nothing"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	none := mustPlan(t, NewRecorder(Options{}), testPlan()).Acquire()
	if none.CountsHeap() || (*Run)(nil).CountsHeap() {
		t.Error("nobody asked for the heap")
	}
}

// Looking at the memory allocates nothing, so nobody else is blamed for it.
func TestResident(t *testing.T) {
	r := openResident()
	defer r.close()
	if runtime.GOOS == "linux" && r.bytes() < 1<<20 {
		t.Errorf("%d bytes are resident", r.bytes())
	}
	if n := testing.AllocsPerRun(100, func() { r.bytes() }); n != 0 {
		t.Errorf("looking allocates %v objects", n)
	}
}

func TestWatchMemory(t *testing.T) {
	rec := NewRecorder(Options{})
	stop := rec.WatchMemory(time.Millisecond)
	time.Sleep(20 * time.Millisecond)
	runtime.GC()
	stop()
	stop() // once is enough
	p := rec.Snapshot()
	if len(p.Counters) == 0 || p.Counters[0].Name != "go heap" || p.Counters[0].Samples < 2 || p.Counters[0].Peak <= 0 {
		t.Errorf("counters %+v", p.Counters)
	}
	if p.Go.Cycles < 1 || p.Go.Pause <= 0 || p.Go.LongPause <= 0 || p.Go.LongPause > p.Go.Pause {
		t.Errorf("a collection is missing: %+v", p.Go)
	}
}

// At the peak every byte has an owner.
func TestPeakOwners(t *testing.T) {
	p := testPlan()
	step, total, owners := p.Peak()
	var sum int64
	for _, b := range owners {
		sum += b.Bytes
	}
	if step != 3 || total != 4096+40<<10+60<<10+10<<10+40<<10 || sum != total {
		t.Errorf("the peak of %d bytes at step %d has owners of %d", total, step, sum)
	}
	sum = 0
	for _, o := range p.PeakOwners() {
		sum += o.Bytes
	}
	if sum != total {
		t.Errorf("folded owners hold %d of %d bytes", sum, total)
	}
	p.Buffers[0].Last = 5
	if err := p.check(); err == nil {
		t.Error("a buffer beyond the last step is allowed")
	}
}
