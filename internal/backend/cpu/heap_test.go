package cpu

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"hotpath/internal/tensor"
	"hotpath/profile"
)

// allocating is a kernel that allocates, as none should.
type allocating struct {
	kernel
	objects int
}

var allocated [4][]byte // where the objects go, one place a worker

func (a *allocating) runShare(w *worker, b tensor.Bind, i, n int) {
	for range a.objects {
		allocated[w.lane] = make([]byte, 1000)
	}
	a.kernel.runShare(w, b, i, n)
}

// A recording that counts the heap names the step that allocates, how often and
// how much, with several workers in a step and several runs at the same time;
// one that does not leaves the kernels as they are.
func TestHeapByStep(t *testing.T) {
	const steps, guilty, objects, runs, sessions = 4, 2, 50, 3, 3
	rec := profile.NewRecorder(profile.Options{Heap: true})
	var handles [sessions]profile.PlanHandle
	var execs [sessions]*exec
	shares := 0
	for s := range sessions {
		// Each its own workers: backends take turns with theirs.
		be, err := New(Options{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { be.Close() })
		e := boundScales(t, be, steps, tensor.Bind{T: 4096, S: 1, R: 1})
		if len(e.bound) != steps {
			t.Fatalf("%d steps, expected %d", len(e.bound), steps)
		}
		e.bound[guilty] = &allocating{e.bound[guilty], objects}
		e.kernels = e.dressed(nil)
		n := min(2, e.bound[guilty].width(e.plan.Max, 2*sharesEach))
		shares = e.bound[guilty].width(e.plan.Max, 2*sharesEach)
		if n < 2 {
			t.Fatal("the step is one worker's")
		}
		p := profile.Plan{ID: "scales", Backend: "cpu"}
		for i := range steps {
			p.Steps = append(p.Steps, profile.Step{ID: i, Name: fmt.Sprintf("y%d", i)})
		}
		e.Describe(&p)
		if handles[s], err = rec.Plan(p); err != nil {
			t.Fatal(err)
		}
		execs[s] = e
	}
	var wg sync.WaitGroup
	for s, e := range execs {
		wg.Go(func() {
			for range runs {
				r := handles[s].Acquire()
				r.Start = profile.Now()
				if err := e.Enqueue(context.Background(), e.plan.Max, r); err != nil {
					t.Error(err)
				}
				r.End = profile.Now()
				if err := handles[s].Release(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := int64(sessions * runs * shares * objects)
	for k, st := range rec.Snapshot().Plans[0].Stats {
		switch {
		case st.Heap == nil:
			t.Fatalf("step %d: nothing was counted", k)
		// The runtime allocates a little now and then.
		case k == guilty && (st.Heap.Objects < want || st.Heap.Objects > want+20 || st.Heap.Bytes < 1024*want):
			t.Errorf("step %d allocated %+v, expected %d objects of 1024 bytes", k, *st.Heap, want)
		case k != guilty && st.Heap.Objects > 20:
			t.Errorf("step %d allocated %+v, expected nothing", k, *st.Heap)
		}
	}
	e := execs[0]
	if err := e.Enqueue(context.Background(), e.plan.Max, nil); err != nil {
		t.Fatal(err)
	}
	if _, ok := e.kernels[0].(*meteredKernel); ok {
		t.Error("kernels count where nobody asks")
	}
}
