package plan

import (
	"slices"
	"strings"

	"hotpath/internal/graph"
)

// Pattern is a small tree of ops, or several siblings of one op, that a backend
// runs as one step. Models never ask for fusion; the planner matches the patterns
// that the backend publishes.
type Pattern struct {
	Kind string
	Root *graph.OpDef
	// Inputs[i], if not nil, must match the node that computes operand i.
	Inputs []*Pattern
	// Keep allows this inner node's value to be read by others too; it is then
	// an output of the fused step.
	Keep bool
	// InPlace, on the outermost pattern, allows the step to write its result over
	// an operand from outside: the operand of the first node that can work in
	// place on its own.
	InPlace bool
	// Match, on the outermost pattern, sees the matched nodes in topological
	// order and may refuse (attributes, encodings).
	Match func(nodes []*graph.Node) bool
	// Siblings, if set, replaces all fields above except Kind and Root. Nodes of
	// one layer that read the same first operand, and otherwise only leaves, become
	// one step if Siblings allows each pair of them.
	Siblings func(a, b *graph.Node) bool
}

// uses lists, per value, the live nodes that read it.
func uses(g *graph.Graph, live []bool) [][]*graph.Node {
	us := make([][]*graph.Node, len(g.Values))
	for _, n := range g.Nodes {
		if !live[n.ID] {
			continue
		}
		for _, v := range n.In {
			if v != nil && !slices.Contains(us[v.ID], n) {
				us[v.ID] = append(us[v.ID], n)
			}
		}
	}
	return us
}

// fuse groups live nodes into steps, in topological order of their last node,
// of siblings of the first. Patterns are tried in the backend's order, so it lists
// the larger first. Nodes of the host are steps of their own.
func fuse(g *graph.Graph, live, host []bool, patterns []Pattern) []Step {
	us := uses(g, live)
	asGradientsRead(g, us)
	taken := slices.Clone(host)
	type group struct {
		kind    string
		inPlace bool
		nodes   []*graph.Node
	}
	groups := map[int]group{} // by the ID of the node in whose place they run
	for i := range patterns {
		p := &patterns[i]
		for _, n := range g.Nodes {
			if !live[n.ID] || taken[n.ID] || n.Leaf != nil {
				continue
			}
			var nodes []*graph.Node
			if p.Siblings != nil {
				nodes = siblings(p, n, us, taken)
			} else {
				nodes, _ = match(p, n, n, g, us, taken)
			}
			if len(nodes) < 2 {
				continue
			}
			slices.SortFunc(nodes, func(a, b *graph.Node) int { return a.ID - b.ID })
			if p.Match != nil && !p.Match(nodes) {
				continue
			}
			for _, m := range nodes {
				taken[m.ID] = true
			}
			groups[n.ID] = group{p.Kind, p.InPlace, nodes}
		}
	}
	var steps []Step
	for _, n := range g.Nodes {
		if !live[n.ID] || n.Leaf != nil {
			continue
		}
		nodes, kind, inPlace := []*graph.Node{n}, n.Op.Name, true
		if g, ok := groups[n.ID]; ok {
			nodes, kind, inPlace = g.nodes, g.kind, g.inPlace
		} else if taken[n.ID] && !host[n.ID] {
			continue
		}
		s := Step{Index: len(steps), Name: stepName(nodes), Kind: kind, Nodes: nodes, Host: host[n.ID], inPlace: inPlace}
		operands(g, &s, us)
		steps = append(steps, s)
	}
	return steps
}

// asGradientsRead adds, to the readers of a value that is computed once more, the
// gradients that read the second one. So both are fused alike, by the same kernels,
// and have the same bits.
func asGradientsRead(g *graph.Graph, us [][]*graph.Node) {
	for _, n := range g.Nodes {
		if n.Again == nil {
			continue
		}
		for i, v := range n.Out {
			for _, u := range us[n.Again.Out[i].ID] {
				if u.Stage == graph.StageBackward {
					us[v.ID] = append(us[v.ID], u)
				}
			}
		}
	}
}

// match collects the nodes of a pattern rooted at n. Nodes outside may read an
// inner value only if the pattern keeps it and they come after the whole step.
func match(p *Pattern, n, root *graph.Node, g *graph.Graph, us [][]*graph.Node, taken []bool) ([]*graph.Node, bool) {
	if n.Op != p.Root || taken[n.ID] {
		return nil, false
	}
	nodes := []*graph.Node{n}
	for i, in := range p.Inputs {
		if in == nil {
			continue
		}
		if i >= len(n.In) || n.In[i] == nil || n.In[i].Node.Leaf != nil {
			return nil, false
		}
		v := n.In[i]
		if slices.Contains(n.In[i+1:], v) || slices.Contains(n.In[:i], v) {
			return nil, false // an operand beside this one would have no memory
		}
		outside := isOutput(g, v)
		for _, u := range us[v.ID] {
			if u == n {
				continue
			}
			outside = true
			if u.ID < root.ID {
				return nil, false
			}
		}
		if outside && !in.Keep {
			return nil, false
		}
		inner, ok := match(in, v.Node, root, g, us, taken)
		if !ok {
			return nil, false
		}
		for _, m := range inner {
			if slices.Contains(nodes, m) {
				return nil, false
			}
		}
		nodes = append(nodes, inner...)
	}
	return nodes, true
}

// siblings collects n and later nodes that can run in the same step. They depend
// on nothing that is computed after n's operand, so they can run in n's place.
func siblings(p *Pattern, n *graph.Node, us [][]*graph.Node, taken []bool) []*graph.Node {
	can := func(m *graph.Node) bool {
		if m.Op != p.Root || taken[m.ID] || m.Layer != n.Layer || m.In[0] != n.In[0] || !slices.Equal(m.After, n.After) {
			return false
		}
		for _, v := range m.In[1:] {
			if v != nil && v.Node.Leaf == nil {
				return false
			}
		}
		return true
	}
	if !can(n) {
		return nil
	}
	nodes := []*graph.Node{n}
	for _, m := range us[n.In[0].ID] {
		if m.ID > n.ID && can(m) && p.Siblings(n, m) {
			nodes = append(nodes, m)
		}
	}
	return nodes
}

// stepName is the display name of a step: the name of its last node, or the names
// of all nodes if the last does not depend on the others.
func stepName(nodes []*graph.Node) string {
	root := nodes[len(nodes)-1]
	name := root.Name
	for _, n := range slices.Backward(nodes[:len(nodes)-1]) {
		if n.Op != root.Op || n.In[0] != root.In[0] {
			return root.Name
		}
		scope := n.Name[:strings.LastIndexByte(n.Name, '/')+1]
		name = n.Name + "+" + strings.TrimPrefix(name, scope)
	}
	return name
}

// operands fills In and Out of a step from its nodes.
func operands(g *graph.Graph, s *Step, us [][]*graph.Node) {
	for _, n := range s.Nodes {
		for _, v := range n.In {
			if v != nil && !slices.Contains(s.Nodes, v.Node) && !slices.Contains(s.In, v) {
				s.In = append(s.In, v)
			}
		}
		for _, v := range n.Out {
			read := isOutput(g, v) || n == s.Root() && v.Index == 0
			if _, inPlace := n.Op.InPlace[v.Index]; inPlace {
				read = true
			}
			for _, u := range us[v.ID] {
				read = read || !slices.Contains(s.Nodes, u)
			}
			if read {
				s.Out = append(s.Out, v)
			}
		}
	}
}
