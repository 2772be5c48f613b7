package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hotpath/profile"
)

// shareRuns lets the first three of the fixture's embed runs serve two requests,
// "a" with three tokens of four.
func shareRuns(p *profile.Profile) {
	for i := range p.Runs[:3] {
		p.Runs[i].Shares = []profile.Share{{Request: "a", Tokens: 3, Context: 3}, {Request: "b", Tokens: 1, Context: 1}}
	}
}

// A run of several requests is divided by their shares, and all of it is given
// away: nothing of these plans' kept runs is without a request but the run that
// had none.
func TestStacksOfSharedRuns(t *testing.T) {
	p := fixture(t)
	shareRuns(p)
	plan := &p.Plans[0]
	time, calls, flops := map[string]int64{}, map[string]int64{}, map[string]int64{}
	profile.EachStack(p, func(s *profile.StackSample) {
		if s.Op != "" && s.Phase == plan.Phase {
			time[s.Request] += s.Time
			flops[s.Request] += s.Flops
			if s.Frames[len(s.Frames)-1] == "pool_f32" {
				calls[s.Request] += s.Calls
			}
		}
	})
	steps := plan.Ledger.Compute + plan.Ledger.Barrier
	if time["req-1"] != steps/4 || time["a"]+time["b"] != 3*steps/4 || time[""] != 0 {
		t.Errorf("times %v of %d, expected a quarter for req-1 and the rest for a and b", time, steps)
	}
	if a := float64(time["a"]) / float64(time["a"]+time["b"]); a < 0.74 || a > 0.95 { // 3 of 4 tokens, 9 of 10 in attention
		t.Errorf("a has %.3f of the time", a)
	}
	if flops["a"]+flops["b"]+flops["req-1"] != 4*30_208_000 || flops[""] != 0 {
		t.Errorf("FLOPs %v", flops)
	}
	if calls["a"]+calls["b"] != 3 || calls["req-1"] != 1 || calls["a"] == 0 || calls["b"] == 0 {
		t.Errorf("calls of one step %v", calls)
	}
}

// Arrows lead from run to run of a request, and what lies outside of steps says
// of which run and why.
func TestTraceLinksRunsOfRequests(t *testing.T) {
	p := fixture(t)
	shareRuns(p)
	var b bytes.Buffer
	if err := writeTrace(&b, p); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []struct {
			Ph, Cat, ID, BP string
			Tid             int
			Ts              float64
			Args            map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	flows := map[string]string{}
	lane := 0
	for _, e := range doc.TraceEvents {
		switch {
		case e.Cat == "run" && lane == 0:
			lane = e.Tid
		case e.Cat == "run" && e.Tid == lane && e.Ts < 1500 && e.Args["request"] != "a, b":
			t.Errorf("a run at %v is of %v", e.Ts, e.Args["request"])
		case e.Cat == "dispatch" && (e.Args["plan"] == nil || e.Args["run"] == nil || e.Args["why"] == nil):
			t.Errorf("dispatch with %v", e.Args)
		case e.Cat == "scope" && e.Args["calls in all"] == nil:
			t.Errorf("a scope with %v", e.Args)
		case strings.Contains("stf", e.Ph):
			if e.Tid != lane {
				t.Errorf("a flow on thread %d, expected %d", e.Tid, lane)
			}
			flows[fmt.Sprint(e.Args["request"])] += fmt.Sprintf("%s%s@%v ", e.Ph, e.BP, e.Ts)
		}
	}
	// req-1 has one run and nothing to link.
	want := "s@1000 t@1200 fe@1400 "
	if len(flows) != 2 || flows["a"] != want || flows["b"] != want {
		t.Errorf("flows %v, expected %q for a and b", flows, want)
	}
}
