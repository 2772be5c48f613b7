package profile

import (
	"fmt"
	"math"
	"testing"
)

// Two requests share a run: what they took adds up to it, by tokens, and in
// ragged steps by what they attend to.
func TestRequestsShareRuns(t *testing.T) {
	rec := NewRecorder(Options{Requests: 3})
	plan := testPlan()
	plan.Steps[2].Ragged = true
	h := mustPlan(t, rec, plan)
	shares := []Share{{Request: "a", Tokens: 60, Context: 60}, {Request: "b", Tokens: 4, Context: 200}}
	for i := range int64(3) {
		r := h.Acquire()
		if len(r.Shares) != 0 {
			t.Error("a run has the shares of the one before")
		}
		stampTestRun(r, 1000+i*200_000)
		r.Shares = append(r.Shares, shares...)
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	p := rec.Snapshot()
	if p.Requests == nil || len(p.Requests.Parts) != 2 {
		t.Fatalf("requests %+v", p.Requests)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*math.Abs(want)+1e-6 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	var all RequestPart
	for _, part := range p.ByRequest() {
		all.addPart(part)
	}
	var flops, bytes int64
	for _, c := range testCosts {
		flops, bytes = flops+c.FLOPs, bytes+c.Bytes
	}
	near("all FLOPs", all.FLOPs, 3*float64(flops))
	near("all bytes", all.Bytes, 3*float64(bytes))
	near("all time", all.Time, 3*testWall)
	if b := p.Requests.Parts[1]; b.Runs != 3 || b.Tokens != 12 {
		t.Errorf("b has %+v", b)
	}
	// Attention goes by tokens and context: 60 x 60 to 4 x 200.
	parts := p.RequestParts(&p.Runs[0], 2)
	near("b's share of attention", parts[1].FLOPs/float64(testCosts[2].FLOPs), 800.0/4400)
	parts = p.RequestParts(&p.Runs[0], 1)
	near("b's share of a product", parts[1].FLOPs/float64(testCosts[1].FLOPs), 4.0/64)
	parts = p.RequestParts(&p.Runs[0], -1)
	near("a's time of a run", parts[0].Time, p.Requests.Parts[0].Time/3)

	// A plan of one lane runs side by side with itself, as workers with texts of
	// their own do: each run has half of the clock, and requests of such runs and
	// of others add up to it.
	one := Plan{ID: "one", Name: "one", Lanes: []string{"w"}, Steps: []Step{{Name: "only", Op: "linear", Layer: -1}}}
	coarse := mustPlan(t, rec, one)
	for i := range int64(4) {
		r := coarse.Acquire()
		from := 10_000_000 + i/2*500_000
		r.Start, r.End = from, from+400_000
		r.Lanes[0].Wake, r.Lanes[0].Done = from, from+400_000
		r.Lanes[0].Steps[0].Arrive, r.Lanes[0].Steps[0].Begin, r.Lanes[0].Steps[0].End = from, from, from+400_000
		r.Costs[0] = Cost{FLOPs: 10, Bytes: 10}
		r.Shares = append(r.Shares, Share{Request: "c", Tokens: 5, Context: 5})
		if err := coarse.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	p = rec.Snapshot()
	all = RequestPart{}
	for _, part := range p.Requests.Parts {
		all.addPart(part)
	}
	near("c's time", p.Requests.Parts[2].Time, 800_000)
	near("all time on the clock", all.Time, float64(p.Elapsed))

	for i := range 10 { // more than may be told apart
		r := h.Acquire()
		stampTestRun(r, 2_000_000+int64(i)*200_000)
		r.Shares = append(r.Shares, Share{Request: fmt.Sprint(i), Tokens: 1, Context: 1})
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	if parts := rec.Snapshot().Requests.Parts; len(parts) != 4 || parts[3].Request != otherRequests || parts[3].Runs != 10 {
		t.Errorf("parts %+v", parts)
	}
}
