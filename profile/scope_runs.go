package profile

import (
	"slices"

	"hotpath/profile/internal/table"
)

// ScopePart is the part of a plan's runs that began inside of one scope. What is
// left of the plan began outside of all.
type ScopePart struct {
	Scope  int    `json:"scope"` // its position in Profile.Scopes
	Ledger Ledger `json:"ledger"`
	// Per step, over all lanes.
	Compute []int64 `json:"compute_ns"`
	Wait    []int64 `json:"wait_ns"`
	FLOPs   []int64 `json:"flops"`
	Bytes   []int64 `json:"bytes"`
}

func newPart(scope, steps int) *ScopePart {
	return &ScopePart{Scope: scope, Compute: make([]int64, steps), Wait: make([]int64, steps), FLOPs: make([]int64, steps), Bytes: make([]int64, steps)}
}

func (s *ScopePart) step(k int) stepValues {
	return stepValues{s.Ledger.Runs, s.Compute[k], s.Wait[k], s.FLOPs[k], s.Bytes[k]}
}

// scopesOfPlan bounds the number of scopes per plan whose runs are recorded
// separately.
const scopesOfPlan = 64

// leaveScope assigns the aggregates since the last change of scope to that scope.
// Consecutive runs mostly belong to one scope and then cost nothing extra. The
// caller holds f.mu.
func (f *planFold) leaveScope() {
	now := f.folded(f.spare)
	if f.scope > 0 {
		s := f.scopes[f.scope-1]
		if s == nil && len(f.scopes) < scopesOfPlan {
			s = newPart(f.scope-1, len(f.plan.Steps))
			if f.scopes == nil {
				f.scopes = map[int]*ScopePart{}
			}
			f.scopes[s.Scope] = s
		}
		if s != nil {
			s.addPart(&now, 1)
			if f.entry.Compute != nil {
				s.addPart(&f.entry, -1)
			}
		}
	}
	f.entry, f.spare = now, f.entry.Compute
}

// folded is all that was folded, in memory of an older one if there is some.
func (f *planFold) folded(memory []int64) ScopePart {
	n := len(f.plan.Steps)
	all := memory[:cap(memory)]
	if len(all) != 4*n {
		all = make([]int64, 4*n)
	}
	clear(all)
	s := ScopePart{Compute: all[:n], Wait: all[n : 2*n], FLOPs: all[2*n : 3*n], Bytes: all[3*n:]}
	for i := range f.lanes {
		s.Ledger.addLedger(f.lanes[i])
		for k := range n {
			s.Compute[k] += f.compute[i][k]
			s.Wait[k] += f.wait[i][k]
		}
	}
	for k := range n {
		s.FLOPs[k], s.Bytes[k] = f.steps[k].flops, f.steps[k].bytes
	}
	s.Ledger.Runs, s.Ledger.Wall = f.runs, f.wall.sum // of all lanes
	return s
}

func (s *ScopePart) addPart(o *ScopePart, sign int64) {
	l, m := &s.Ledger, &o.Ledger
	for _, v := range []struct {
		to   *int64
		from int64
	}{{&l.Runs, m.Runs}, {&l.Wall, m.Wall}, {&l.LaneTime, m.LaneTime}, {&l.Compute, m.Compute}, {&l.Barrier, m.Barrier},
		{&l.Dispatch, m.Dispatch}, {&l.Idle, m.Idle}, {&l.Residual, m.Residual}, {&l.GC, m.GC}} {
		*v.to += sign * v.from
	}
	for k := range s.Compute {
		s.Compute[k] += sign * o.Compute[k]
		s.Wait[k] += sign * o.Wait[k]
		s.FLOPs[k] += sign * o.FLOPs[k]
		s.Bytes[k] += sign * o.Bytes[k]
	}
}

// scopeParts lists the parts of runs that began inside of scopes, by scope. The
// caller holds f.mu.
func (f *planFold) scopeParts() []ScopePart {
	f.leaveScope()
	var out []ScopePart
	for _, s := range f.scopes {
		c := *s
		c.Compute, c.Wait, c.FLOPs, c.Bytes = slices.Clone(s.Compute), slices.Clone(s.Wait), slices.Clone(s.FLOPs), slices.Clone(s.Bytes)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b ScopePart) int { return a.Scope - b.Scope })
	return out
}

// scopePath lists the names of the scopes that enclose a scope and its own name, the
// outermost first. Scope -1 means no scope.
func (p *Profile) scopePath(scope int) []string {
	var path []string
	for ; scope >= 0; scope = p.Scopes[scope].Parent {
		path = append(path, p.Scopes[scope].Name)
	}
	slices.Reverse(path)
	return path
}

// inScopes lists a plan by scope, and last what began outside of all: the values
// add up to the plan's.
func (s *PlanStats) inScopes() []ScopePart {
	rest := s.asPart()
	for i := range s.ByScope {
		rest.addPart(&s.ByScope[i], -1)
	}
	return append(slices.Clip(s.ByScope), rest)
}

// partIn copies the part of a plan that began inside of a scope; -1: outside of all.
func (s *PlanStats) partIn(scope int) ScopePart {
	out := ScopePart{Scope: scope}
	parts := s.inScopes()
	for i := range parts {
		if o := &parts[i]; o.Scope == scope {
			out.Ledger = o.Ledger
			out.Compute, out.Wait, out.FLOPs, out.Bytes = slices.Clone(o.Compute), slices.Clone(o.Wait), slices.Clone(o.FLOPs), slices.Clone(o.Bytes)
		}
	}
	return out
}

// asPart is all of a plan.
func (s *PlanStats) asPart() ScopePart {
	out := newPart(-1, len(s.Steps))
	out.Ledger = s.Ledger
	for k := range s.Stats {
		st := &s.Stats[k]
		out.Compute[k], out.Wait[k], out.FLOPs[k], out.Bytes[k] = table.Sum(st.LaneCompute), table.Sum(st.LaneWait), st.FLOPs, st.Bytes
	}
	return *out
}
