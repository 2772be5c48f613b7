package plan

import (
	"slices"

	"hotpath/internal/graph"
)

// Merge describes which neighbours a step of one kind absorbs if it computes few
// rows. Each neighbour would cost a barrier of its own for almost no work.
type Merge struct {
	Rows int    // the most that such a step has
	Kind string // of the step that takes others in
	// Core reports whether a step of these nodes takes others in; nil: all do. packing
	// is the resident format of a weight.
	Core func(nodes []*graph.Node, packing func(weight *graph.Value) *Format) bool
	// Before reports whether each worker may compute these nodes for itself.
	// Their result is the first operand of the products; nil: no step precedes.
	Before func(nodes []*graph.Node) bool
	// After reports whether a share of columns can continue with these nodes,
	// which read the product's results; nil: no step follows.
	After func(nodes []*graph.Node) bool
	// Varies reports that the merged step gives other bits than its parts.
	// Invariant programs do not use it.
	Varies bool
}

// merge moves neighbours into the steps for which the backend has a Merge.
func (p *Plan) merge(merges []Merge, t *table) {
	us := uses(p.Graph, alive(p.Graph))
	packing := func(weight *graph.Value) *Format { return t.packings[weight.ID] }
	for _, m := range merges {
		if m.Varies && p.Invariant {
			continue
		}
		for i := 0; i < len(p.Steps); i++ {
			s := &p.Steps[i]
			if s.Kind != m.Kind || s.merged() || m.Core != nil && !m.Core(s.Nodes, packing) || s.Root().Out[0].Shape.Outer.Size(p.Max) > m.Rows {
				continue
			}
			core := s.Nodes
			var gone []int
			if j := p.maker(i, us); j >= 0 && m.Before != nil && m.Before(p.Steps[j].Nodes) && p.ownFormat(s, &p.Steps[j], t) {
				s.Before = p.Steps[j].Nodes
				s.Nodes = slices.Concat(s.Before, s.Nodes)
				gone = append(gone, j)
			}
			for j := i + 1; m.After != nil && j < len(p.Steps); j++ {
				if a := &p.Steps[j]; m.After(a.Nodes) && p.follows(i, j, us) {
					s.After = append(s.After, a.Nodes...)
					s.Nodes = append(slices.Clip(s.Nodes), a.Nodes...)
					gone = append(gone, j)
				}
			}
			if len(gone) == 0 {
				s.Nodes, s.Before, s.After, s.Own = core, nil, nil, nil
				continue
			}
			slices.SortFunc(s.Nodes, func(a, b *graph.Node) int { return a.ID - b.ID })
			s.core, s.inPlace, s.In, s.Out = core, false, nil, nil
			operands(p.Graph, s, us)
			at := 0
			p.Steps = slices.DeleteFunc(p.Steps, func(Step) bool { at++; return slices.Contains(gone, at-1) })
			i -= min(1, len(s.Before))
			for k := range p.Steps {
				p.Steps[k].Index = k
			}
		}
	}
}

// maker returns the step that computes the first operand of the products of step
// i, if only step i reads it; otherwise -1. The maker's other results are read
// only after step i.
func (p *Plan) maker(i int, us [][]*graph.Node) int {
	s := &p.Steps[i]
	x := s.Nodes[0].In[0]
	inside := func(n *graph.Node) bool { return slices.Contains(s.Nodes, n) }
	if isOutput(p.Graph, x) || slices.ContainsFunc(us[x.ID], func(n *graph.Node) bool { return !inside(n) }) {
		return -1
	}
	j := slices.IndexFunc(p.Steps[:i], func(b Step) bool { return b.Root().Out[0] == x && !b.merged() })
	if j < 0 {
		return -1
	}
	for k := j + 1; k < i; k++ {
		for _, v := range p.Steps[k].In {
			if slices.Contains(p.Steps[j].Out, v) {
				return -1
			}
		}
	}
	return j
}

// follows reports whether step j can run inside the earlier step i. Step j may
// read results of step i that no other step reads, leaves, and values that are
// made before step i. No step in between may touch the state that j writes.
func (p *Plan) follows(i, j int, us [][]*graph.Node) bool {
	a, before := &p.Steps[j], p.Steps[i].Before
	if !slices.ContainsFunc(a.In, func(v *graph.Value) bool { return slices.Contains(p.Steps[i].Nodes, v.Node) }) {
		return false // most steps: the rest takes longer to find out
	}
	for _, v := range a.In {
		made := slices.IndexFunc(p.Steps, func(o Step) bool { return slices.Contains(o.Nodes, v.Node) })
		switch {
		case made == i:
			for _, u := range us[v.ID] {
				if !slices.Contains(a.Nodes, u) || isOutput(p.Graph, v) {
					return false
				}
			}
		case v.Node.Leaf == nil && made > i || slices.Contains(before, v.Node):
			return false
		}
	}
	for _, o := range a.Out {
		for k := i + 1; k < j; k++ {
			for _, v := range slices.Concat(p.Steps[k].In, p.Steps[k].Out) {
				if buffer(v) == buffer(o) {
					return false
				}
			}
		}
	}
	return !slices.ContainsFunc(a.Nodes, func(n *graph.Node) bool { return len(n.After) > 0 })
}

// ownFormat finds the format in which the products of s read the result of step
// b, and reports whether b can write it.
func (p *Plan) ownFormat(s, b *Step, t *table) bool {
	x := b.Root().Out[0]
	writes := []*Format{nil}
	for _, n := range b.Nodes {
		cs, err := p.choices(b, n, t)
		if err != nil {
			return false
		}
		for _, c := range cs {
			if n == b.Root() && c.Rule.Writes != nil {
				writes = append(writes, c.Rule.Writes(b)...)
			}
		}
	}
	first := true
	for _, n := range s.Nodes {
		cs, err := p.choices(s, n, t)
		if err != nil {
			return false
		}
		if n.In[0] != x {
			continue
		}
		best := operandFormats(n, 0, cs, x)
		if len(best) == 0 || !slices.Contains(writes, best[0]) || !first && s.Own != best[0] {
			return false
		}
		s.Own, first = best[0], false
	}
	return true
}

// merged reports whether the step has absorbed others.
func (s *Step) merged() bool { return s.core != nil }

// Core is the nodes of the step that are of its kind: all but Before and After.
func (s *Step) Core() []*graph.Node {
	if s.merged() {
		return s.core
	}
	return s.Nodes
}
