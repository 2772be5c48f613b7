package profile

import (
	"cmp"
	"slices"

	"hotpath/profile/internal/table"
)

// Subject is what the recording is of: the model, or else a plan.
func Subject(p *Profile) string {
	for i := range p.Plans {
		return cmp.Or(p.Facts.Model, p.Plans[i].modelName())
	}
	return cmp.Or(p.Facts.Model, "hotpath")
}

// OnFewerLanes reports whether a plan had fewer lanes in flight than lanes, so
// that only a part of the ceilings applied to it.
func (p *Profile) OnFewerLanes(lanes int) bool {
	for i := range p.Plans {
		if s := &p.Plans[i]; s.Ledger.Runs > 0 && s.HostLanes == 0 && s.LanesAtOnce() < float64(lanes)-0.05 {
			return true
		}
	}
	return false
}

// DataScope is the scope in which training puts a batch together, and oldDataScope
// what it was called.
const (
	DataScope    = "data"
	OldDataScope = "batch"
)

// EachScope visits the scopes as a tree, the longest first; depth is cut off at
// 20.
func (p *Profile) EachScope(visit func(s *ScopeStats, depth int)) {
	children := make(map[int][]int, len(p.Scopes))
	for i, s := range p.Scopes {
		children[s.Parent] = append(children[s.Parent], i)
	}
	type place struct{ id, depth int }
	var todo []place
	push := func(parent, depth int) {
		ids := children[parent]
		slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(p.Scopes[a].Total, p.Scopes[b].Total) })
		for _, id := range ids {
			todo = append(todo, place{id, depth})
		}
	}
	for push(-1, 0); len(todo) > 0; {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		visit(&p.Scopes[v.id], min(v.depth, 20))
		push(v.id, v.depth+1)
	}
}

// HeapRows lists the steps that allocated, the largest first, and all other steps as
// one row.
func (s *PlanStats) HeapRows(top int, row func(name string, h HeapCount, note string)) {
	var steps []StepResult
	none := 0
	for k := range s.Stats {
		switch h := s.Stats[k].Heap; {
		case h == nil:
		case h.Objects == 0:
			none++
		default:
			steps = append(steps, StepResult{s, &s.Steps[k], &s.Stats[k]})
		}
	}
	slices.SortStableFunc(steps, func(a, b StepResult) int { return cmp.Compare(b.Heap.Bytes, a.Heap.Bytes) })
	var rest HeapCount
	listed := steps
	if top > 0 && len(steps) > top {
		listed = steps[:top]
	}
	for _, r := range listed {
		row("  step "+r.Step.Name, *r.Heap, "in "+table.Count(int(r.Calls), "call"))
	}
	for _, r := range steps[len(listed):] {
		rest.addCount(*r.Heap)
	}
	if n := len(steps) - len(listed); n > 0 {
		row("  "+table.Count(n, "step")+" more", rest, "")
	}
	if none > 0 {
		row("  "+table.Count(none, "step"), HeapCount{}, "allocated nothing")
	}
}
