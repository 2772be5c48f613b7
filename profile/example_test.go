package profile_test

import (
	"context"
	"fmt"
	"io"

	"hotpath"
	"hotpath/profile"
	"hotpath/profile/report"
)

// What a model does in a program, with a scope of the program's own.
func Example() {
	ctx := context.Background()
	rec := profile.NewRecorder(profile.Options{})
	ceilings, err := hotpath.MeasureCeilings(ctx, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := rec.SetCeilings("", ceilings); err != nil {
		fmt.Println(err)
		return
	}
	m, err := hotpath.Open("../internal/testmodels/testdata/bert", hotpath.Options{Profile: rec})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	func() {
		ctx, end := profile.Scope(profile.WithRecorder(ctx, rec), "my batch")
		defer end()
		if _, err := m.Embed(ctx, []string{"a stitch in time", "saves nine"}, hotpath.EmbedOptions{}); err != nil {
			fmt.Println(err)
		}
	}()
	p := rec.Snapshot()
	fmt.Println(p.ScopesByName("my batch")[0].Calls, "batch")
	lost := p.Top(1, profile.ByLost)[0]
	fmt.Println("a step that loses time is held against a ceiling:", lost.Floor > 0)
	if err := report.Text(io.Discard, p, report.Options{Top: 5}); err != nil { // os.Stderr, mostly
		fmt.Println(err)
	}
	// Output:
	// 1 batch
	// a step that loses time is held against a ceiling: true
}

// An engine of one's own: a run with one lane and two steps, stamped by hand.
func ExampleRecorder_Plan() {
	rec := profile.NewRecorder(profile.Options{})
	h, err := rec.Plan(profile.Plan{ID: "demo", Backend: "cpu", Phase: "embed", Lanes: []string{"worker 0"},
		Steps: []profile.Step{{ID: 0, Name: "blk.0/attn/q_proj", Op: "linear"}, {ID: 1, Name: "pool", Op: "pool", Layer: -1}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	run := h.Acquire()
	lane := &run.Lanes[0]
	run.Start, lane.Wake, lane.Done, run.End = 1_000, 1_100, 1_900, 2_000
	lane.Steps[0].Arrive, lane.Steps[0].Begin, lane.Steps[0].End = 1_100, 1_100, 1_600
	lane.Steps[1].Arrive, lane.Steps[1].Begin, lane.Steps[1].End = 1_600, 1_650, 1_900
	run.Costs[0] = profile.Cost{FLOPs: 1_000_000, Bytes: 4_096}
	if err := h.Release(run); err != nil {
		fmt.Println(err)
		return
	}
	p := rec.Snapshot()
	l := p.Ledger
	fmt.Printf("%d ns = compute %d + barrier %d + dispatch %d + idle %d + residual %d\n",
		l.LaneTime, l.Compute, l.Barrier, l.Dispatch, l.Idle, l.Residual)
	for _, s := range p.Top(1, profile.ByTime) {
		fmt.Printf("%s: %.0f GFLOP/s\n", s.Step.Name, s.GFLOPS())
	}
	// Output:
	// 1000 ns = compute 750 + barrier 50 + dispatch 200 + idle 0 + residual 0
	// blk.0/attn/q_proj: 2000 GFLOP/s
}

func ExampleScope() {
	rec := profile.NewRecorder(profile.Options{})
	ctx := profile.WithRecorder(context.Background(), rec)
	func() {
		ctx, end := profile.Scope(ctx, "load batch")
		defer end()
		_, endRead := profile.Scope(ctx, "read")
		endRead()
	}()
	for _, s := range rec.Snapshot().Scopes {
		fmt.Println(s.Name, s.Calls, "under", s.Parent)
	}
	// Output:
	// load batch 1 under -1
	// read 1 under 0
}
