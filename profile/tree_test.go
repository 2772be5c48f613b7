package profile

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name  string
		layer int
		want  string
	}{
		{"embed", -1, "embed"},
		{"blk.3/attn/q_proj", 3, "blk.3 attn q_proj"},
		{"grad/blk.3/q_proj/dx", 3, "blk.3 grad q_proj dx"},
		{"adamw/blk.13/blk.13.attn_q.weight/update", 13, "blk.13 adamw blk.13.attn_q.weight update"},
		{"grad/blk.13/q_proj/dx", 3, "grad blk.13 q_proj dx"}, // not of that layer
		{"grad/head/dx", -1, "grad head dx"},
		{"passes/3/mul", 3, "3 passes mul"},
		{"layer-1/mul", -1, "layer-1 mul"},
		{"mul3", 3, "mul3"},
		{"", 0, ""},
	} {
		if got := strings.Join(place(c.name, c.layer), " "); got != c.want {
			t.Errorf("%q of layer %d: %q, expected %q", c.name, c.layer, got, c.want)
		}
	}
}

// Gradients and the optimizer are blocks of their layers, and one block for what
// lies outside of them: never layers themselves, and never twice side by side.
func TestTreeOfTraining(t *testing.T) {
	plan := Plan{ID: "train", Model: "mini", Backend: "cpu", Phase: "train", Lanes: []string{"worker 0"}}
	for _, s := range []struct {
		name  string
		layer int
	}{{"blk.0/q_proj", 0}, {"head", -1}, {"grad/head/dx", -1}, {"grad/head/dw", -1}, {"grad/blk.0/q_proj/dx", 0}, {"adamw/blk.0/blk.0.attn_q.weight/update", 0}, {"adamw/token_embd.weight/update", -1}} {
		plan.Steps = append(plan.Steps, Step{ID: len(plan.Steps), Name: s.name, Op: "op", Layer: s.layer})
	}
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, plan)
	r := h.Acquire()
	l := &r.Lanes[0]
	r.Start, r.End, l.Wake, l.Done = 1, 1+100*int64(len(plan.Steps)), 1, 1+100*int64(len(plan.Steps))
	for s := range plan.Steps {
		l.Steps[s].Arrive, l.Steps[s].Begin, l.Steps[s].End = int64(1+100*s), int64(1+100*s), int64(101+100*s)
	}
	if err := h.Release(r); err != nil {
		t.Fatal(err)
	}
	p := rec.Snapshot()
	var got []string
	for _, n := range p.Tree().Children {
		got = append(got, n.Kind+" "+n.Name)
		if n.Kind == "layer" {
			for _, c := range n.Children {
				got = append(got, n.Name+": "+c.Kind+" "+c.Name)
			}
		}
	}
	want := []string{"layer blk.0", "blk.0: node q_proj", "blk.0: block grad", "blk.0: block adamw", "node head", "block grad", "block adamw"}
	if !slices.Equal(got, want) {
		t.Errorf("the tree has\n%q\nexpected\n%q", got, want)
	}
	EachStack(p, func(s *StackSample) {
		if s.Layer == 0 && s.Frames[1] != "blk.0" {
			t.Errorf("a stack of layer 0 is %v", s.Frames)
		}
	})
}

// A name of many scopes made a tree as deep, which ended the process.
func TestTreeIsNotDeep(t *testing.T) {
	p := &Profile{Format: Format, Version: Version, Plans: []PlanStats{{
		Plan:   Plan{ID: "a", Lanes: []string{"l"}, Steps: []Step{{Name: strings.Repeat("a/", 2_000_000) + "b"}}},
		Ledger: Ledger{Runs: 1, Wall: 10, LaneTime: 10, Compute: 10}, Elapsed: 10,
		Stats: []StepStats{{Calls: 1, LaneCompute: []int64{10}, LaneWait: []int64{0}}},
	}}}
	depth := 0
	for n := p.Tree(); len(n.Children) > 0 && depth < 1000; depth++ {
		n = n.Children[0]
	}
	if depth > maxScopes+5 {
		t.Errorf("the tree is %d deep", depth)
	}
	for _, name := range []string{"x.svg", "x.html", "x.pprof", "x.trace.json"} {
		if err := Readers.Export(filepath.Join(t.TempDir(), name), p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
