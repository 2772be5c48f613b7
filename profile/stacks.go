package profile

import (
	"slices"

	"hotpath/profile/internal/table"
)

// StackSample is one stack of a profile and what was spent at its leaf.
type StackSample struct {
	Frames []string // root first
	Phase  string
	Device string
	Op     string // empty outside of steps
	Layer  int    // -1 outside of layers
	// Request is set if kept runs show whose work it was.
	Request string

	Calls, Time, Bytes, Flops int64
}

// EachStack visits a profile as stacks, for exporters to formats that consist of
// stacks. A stack is the model, the scopes of the step's name, the op and the
// kernel. A fused step is divided among its nodes. The same stack may come more
// than once, and the visitor may keep it.
//
// The time is lane time, and the times of all stacks add up to the ledger's. Time
// outside of kernels has leaves in parentheses: (barrier wait), (dispatch),
// (idle) and (residual).
//
// A residual is negative if a lane's stamps overlap its dispatch or idle time. A
// format without negative values must omit it; its total is then larger than the
// lane time.
func EachStack(p *Profile, visit func(*StackSample)) {
	requests := requestRuns(p)
	for i := range p.Plans {
		plan := &p.Plans[i]
		for _, part := range plan.inScopes() {
			eachOfScope(p, plan, &part, requests[i], visit)
		}
	}
	for i := range p.Rounds {
		r := &p.Rounds[i]
		l := r.Outside()
		for _, e := range []struct {
			name string
			time int64
		}{{"(dispatch)", l.Dispatch}, {"(idle)", l.Idle}} {
			if e.time != 0 {
				visit(&StackSample{Frames: []string{Subject(p), "(outside runs)", e.name}, Phase: r.Phase, Layer: -1, Calls: r.Rounds, Time: e.time})
			}
		}
	}
}

// eachOfScope visits the part of a plan that began inside of one scope: its stacks
// begin with the scopes.
func eachOfScope(p *Profile, plan *PlanStats, part *ScopePart, requests []*requestShare, visit func(*StackSample)) {
	scopes := p.scopePath(part.Scope)
	within := func(s *StackSample) {
		s.Frames = append(slices.Clip(scopes), s.Frames...)
		visit(s)
	}
	for j := range plan.Stats {
		rest := part.step(j)
		for _, r := range requests {
			if r.scope == part.Scope {
				stepStacks(plan, j, r.request, r.steps[j], within)
				rest.addValues(r.steps[j], -1)
			}
		}
		stepStacks(plan, j, "", rest, within)
	}
	l := &part.Ledger
	after := l.Barrier - table.Sum(part.Wait) // of lanes that had no step left
	for _, e := range []struct {
		name string
		time int64
	}{{"(barrier wait)", after}, {"(dispatch)", l.Dispatch}, {"(idle)", l.Idle}, {"(residual)", l.Residual}} {
		if e.time != 0 {
			within(&StackSample{Frames: []string{plan.modelName(), e.name}, Phase: plan.Phase, Device: plan.DeviceName(), Layer: -1, Calls: l.Runs, Time: e.time})
		}
	}
}

// stepStacks visits the stacks of one step, with the values v.
func stepStacks(plan *PlanStats, step int, request string, v stepValues, visit func(*StackSample)) {
	if v == (stepValues{}) {
		return
	}
	s := &plan.Steps[step]
	nodes := s.Parts()
	compute, flops, bytes := divide(v.compute, nodes), divide(v.flops, nodes), divide(v.bytes, nodes)
	for i, n := range nodes {
		visit(&StackSample{Frames: StackOf(plan, s, n), Phase: plan.Phase, Device: plan.DeviceName(), Op: n.Op, Layer: s.Layer, Request: request,
			Calls: v.calls, Time: compute[i], Bytes: bytes[i], Flops: flops[i]})
	}
	if v.wait != 0 {
		frames := append(path(plan, s, Node{Name: s.Name, Op: s.Op}), "(barrier wait)")
		visit(&StackSample{Frames: frames, Phase: plan.Phase, Device: plan.DeviceName(), Op: s.Op, Layer: s.Layer, Request: request, Calls: v.calls, Time: v.wait})
	}
}

// path is the frames from the model down to the op.
func path(plan *PlanStats, s *Step, n Node) []string {
	frames := []string{plan.modelName()}
	for _, part := range append(place(n.Name, s.Layer), n.Op) {
		if part != "" && part != frames[len(frames)-1] {
			frames = append(frames, part)
		}
	}
	return frames
}

func StackOf(plan *PlanStats, s *Step, n Node) []string {
	frames := path(plan, s, n)
	if s.Kernel != "" && s.Kernel != frames[len(frames)-1] {
		frames = append(frames, s.Kernel)
	}
	return frames
}

// stepValues are the values of one sample of a step.
type stepValues struct{ calls, compute, wait, flops, bytes int64 }

func (v *stepValues) addValues(o stepValues, sign int64) {
	v.calls += sign * o.calls
	v.compute += sign * o.compute
	v.wait += sign * o.wait
	v.flops += sign * o.flops
	v.bytes += sign * o.bytes
}

// requestShare is the part of a plan's steps that kept runs of one request
// have; the rest of the aggregate has no request label.
type requestShare struct {
	request string
	scope   int          // -1: none
	steps   []stepValues // [step]
}

// requestRuns sums the kept runs by plan and request, in order of appearance. A
// run of several requests is divided among them by their shares.
func requestRuns(p *Profile) [][]*requestShare {
	out := make([][]*requestShare, len(p.Plans))
	type key struct {
		request string
		scope   int
	}
	index := make([]map[key]*requestShare, len(p.Plans))
	share := func(i int, request string) *requestShare {
		r := &p.Runs[i]
		if index[r.Plan] == nil {
			index[r.Plan] = map[key]*requestShare{}
		}
		at := key{request, p.partOf(i)}
		s := index[r.Plan][at]
		if s == nil {
			s = &requestShare{request, at.scope, make([]stepValues, len(r.FLOPs))}
			index[r.Plan][at] = s
			out[r.Plan] = append(out[r.Plan], s)
		}
		return s
	}
	for i := range p.Runs {
		r := &p.Runs[i]
		of := r.Requests()
		if len(of) == 0 {
			continue
		}
		parts := make([]*requestShare, len(of))
		var nodes [numCostBy][]Node
		for by, w := range allWeights(of) {
			nodes[by] = asNodes(w)
		}
		for k, s := range of {
			parts[k] = share(i, s.Request)
		}
		for s := range r.FLOPs {
			var compute, wait int64
			for j := range r.Lanes {
				l := &r.Lanes[j]
				compute += l.End[s] - l.Begin[s]
				wait += l.Begin[s] - l.Arrive[s]
			}
			by := nodes[p.Plans[r.Plan].Steps[s].costBy()]
			computes, waits, flops, bytes := divide(compute, by), divide(wait, by), divide(r.FLOPs[s], by), divide(r.Bytes[s], by)
			for k, part := range parts {
				part.steps[s].addValues(stepValues{compute: computes[k], wait: waits[k], flops: flops[k], bytes: bytes[k]}, 1)
			}
			parts[uint64(r.Index)%uint64(len(parts))].steps[s].calls++ // a call is whole: requests take turns
		}
	}
	return out
}

// partOf is the scope that kept run i is counted in; -1: none.
func (p *Profile) partOf(i int) int {
	if len(p.RunScopes) == 0 {
		return -1
	}
	for _, s := range p.Plans[p.Runs[i].Plan].ByScope {
		if s.Scope == p.RunScopes[i]-1 {
			return s.Scope
		}
	}
	return -1
}

// Requests is whose run it was.
func (r *RawRun) Requests() []Share {
	if r.Request != "" {
		return []Share{{Request: r.Request, Tokens: 1}}
	}
	return r.Shares
}

// asNodes has shares in the form that can be divided by.
func asNodes(shares []float64) []Node {
	out := make([]Node, len(shares))
	for i, s := range shares {
		out[i].Share = s
	}
	return out
}
