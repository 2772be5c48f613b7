package export

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hotpath/profile"
	"hotpath/profile/compare"
)

// fixture is the recording that the tests of package profile make, whose every
// number is known.
func fixture(t testing.TB) *profile.Profile {
	t.Helper()
	p, err := profile.ReadFile("../testdata/fixture.json")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustPlan(t testing.TB, rec *profile.Recorder, p profile.Plan) profile.PlanHandle {
	t.Helper()
	h, err := rec.Plan(p)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// coarsePlan has one lane and one step.
func coarsePlan(id string) profile.Plan {
	return profile.Plan{ID: id, Name: id, Backend: "cpu", Phase: "embed", Lanes: []string{"worker 0"},
		Steps: []profile.Step{{ID: 0, Name: "blk.0/up", Op: "linear", Kernel: "gemm_f32", Class: "f32"}}}
}

// stampWhole is a run that computes from its first moment to its last.
func stampWhole(t *testing.T, h profile.PlanHandle, from, to int64, cost profile.Cost) {
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

// slowerComparison is of a build whose attention takes half as long again.
func slowerComparison(t *testing.T) *compare.Comparison {
	t.Helper()
	record := func(attention int64) *profile.Profile {
		plan := profile.Plan{ID: "p", Name: "p", Backend: "cpu", Phase: "embed", Lanes: []string{"worker 0"}}
		for layer := range 12 {
			for _, op := range []string{"attention", "gelu", "norm"} {
				plan.Steps = append(plan.Steps, profile.Step{ID: len(plan.Steps), Name: fmt.Sprintf("blk.%d/block/%s", layer, op), Op: op, Layer: layer})
			}
		}
		rec := profile.NewRecorder(profile.Options{})
		h := mustPlan(t, rec, plan)
		rng := rand.New(rand.NewPCG(uint64(attention), 1))
		at := int64(1)
		for range 60 {
			r := h.Acquire()
			l := &r.Lanes[0]
			r.Start, l.Wake, r.Tokens = at, at, 64
			for s := range plan.Steps {
				took := int64(100_000 * (1 + 0.01*rng.NormFloat64()))
				if plan.Steps[s].Op == "attention" {
					took = took * attention / 100
				}
				l.Steps[s].Arrive, l.Steps[s].Begin, l.Steps[s].End = at, at, at+took
				r.Costs[s] = profile.Cost{FLOPs: 1e6, Bytes: 1e4}
				at += took
			}
			l.Done, r.End = at, at
			if err := h.Release(r); err != nil {
				t.Fatal(err)
			}
		}
		p := rec.Snapshot()
		p.Scopes = append(p.Scopes, profile.ScopeStats{ID: 0, Parent: -1, Name: "sample", Calls: 60, Total: 60 * 40_000 * attention, Call: profile.Dist{Count: 60, P50: 40_000 * attention}})
		return p
	}
	c, err := compare.Compare([]*profile.Profile{record(100)}, []*profile.Profile{record(150)}, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	return c
}
