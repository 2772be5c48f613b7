package profile

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"hotpath/profile/internal/table"
)

// TreeNode is one level of model, scope, plan, layer, block, node, op and kernel,
// with all levels below it. Times are wall-equivalent: lane time divided by the
// lanes in flight. So the root's time is the time in which any run was in flight.
// Lane time without computation has nodes of its own, in parentheses.
type TreeNode struct {
	Name     string      `json:"name"`
	Kind     string      `json:"kind"` // model, scope, plan, layer, block, node, op, kernel, wait
	Op       string      `json:"op,omitempty"`
	Time     int64       `json:"time_ns"`
	Clock    int64       `json:"clock_ns"` // what rates are by: of steps until their last lanes end, of plans and the model all of Time
	Floor    int64       `json:"floor_ns"` // what the roofline allows; 0 where no ceiling is known
	Lost     int64       `json:"lost_ns"`  // beyond it
	FLOPs    int64       `json:"flops"`
	Bytes    int64       `json:"bytes"`
	Calls    int64       `json:"calls"` // of the steps below, each as often as it ran
	Children []*TreeNode `json:"children,omitempty"`

	index map[string]*TreeNode
}

func (n *TreeNode) child(name, kind string) *TreeNode {
	key := kind + "\x00" + name
	if c := n.index[key]; c != nil {
		return c
	}
	c := &TreeNode{Name: name, Kind: kind}
	if n.index == nil {
		n.index = map[string]*TreeNode{}
	}
	n.index[key] = c
	n.Children = append(n.Children, c)
	return c
}

// Tree arranges the steps of all plans that ran. A fused step is divided among
// its nodes by their shares.
func (p *Profile) Tree() *TreeNode {
	root := &TreeNode{Name: Subject(p), Kind: "model"}
	ran := 0
	for i := range p.Plans {
		if p.Plans[i].Ledger.Runs > 0 {
			ran++
		}
	}
	for i := range p.Plans {
		s := &p.Plans[i]
		if s.Ledger.Runs == 0 {
			continue
		}
		for _, part := range s.inScopes() {
			if part.Ledger.Runs > 0 {
				p.addPart(root, s, &part, ran > 1)
			}
		}
	}
	return root
}

// addPart puts the runs of a plan that began inside of one scope under its node.
func (p *Profile) addPart(root *TreeNode, s *PlanStats, part *ScopePart, named bool) {
	top, path := root, []*TreeNode{root}
	scopes := p.scopePath(part.Scope)
	for _, name := range scopes[max(0, len(scopes)-maxScopes):] {
		top = top.child(name, "scope")
		path = append(path, top)
	}
	if named {
		top = top.child(strings.TrimSpace(cmp.Or(s.Name, s.ID)+" "+s.Phase), "plan")
		path = append(path, top)
	}
	lanes := int64(len(s.Lanes))
	for k := range s.Stats {
		addStep(path, s, part, k, lanes)
	}
	l := &part.Ledger
	for _, w := range []struct {
		name string
		time int64
	}{{"(barrier wait)", l.Barrier}, {"(dispatch)", l.Dispatch}, {"(idle)", l.Idle}, {"(residual)", l.Residual}} {
		if w.time == 0 {
			continue
		}
		for _, n := range append(slices.Clip(path), top.child(w.name, "wait")) {
			n.Time += s.elapsedOf(w.time / lanes)
		}
	}
	for _, n := range path {
		n.Clock = n.Time
	}
}

// maxScopes bounds the depth of the tree, because exporters walk it recursively. A name
// in a file may have more scopes; the scopes beyond the bound are then one node.
const maxScopes = 64

// place returns the path from the model to a node, by the scopes of its name,
// beginning with the layer if there is one. Nodes of gradients and the optimizer
// are named after the nodes that they belong to, as in grad/blk.3/q_proj/dx. They
// are a separate block of that layer.
func place(name string, layer int) []string {
	parts := strings.SplitN(name, "/", maxScopes)
	number := strconv.Itoa(layer)
	for i, part := range parts[:len(parts)-1] {
		if rest, ok := strings.CutSuffix(part, number); ok && layer >= 0 && (rest == "" || rest[len(rest)-1] < '0' || rest[len(rest)-1] > '9') {
			return slices.Concat(parts[i:i+1], parts[:i], parts[i+1:])
		}
	}
	return parts
}

// addStep puts a part of one step under the nodes of a path, which it counts into too.
func addStep(path []*TreeNode, s *PlanStats, part *ScopePart, k int, lanes int64) {
	step, st, v := &s.Steps[k], &s.Stats[k], part.step(k)
	if st.Calls == 0 {
		return
	}
	share := func(n int64) int64 { // of what is known of the whole step only
		if all := table.Sum(st.LaneCompute); all != v.compute && all > 0 {
			return int64(float64(n) * float64(v.compute) / float64(all))
		}
		return n
	}
	nodes := step.Parts()
	time := divide(s.elapsedOf(v.compute/lanes), nodes)
	clock := divide(share(st.Clock), nodes)
	floor, lost := divide(share(st.Floor), nodes), divide(share(st.Lost), nodes)
	flops, bytes := divide(v.flops, nodes), divide(v.bytes, nodes)
	for i, n := range nodes {
		at := slices.Clip(path)
		parts := place(n.Name, step.Layer)
		for j, part := range parts {
			kind := "block"
			switch {
			case j == 0 && step.Layer >= 0 && len(parts) > 1:
				kind = "layer"
			case j == len(parts)-1:
				kind = "node"
			}
			at = append(at, at[len(at)-1].child(cmp.Or(part, "/"), kind))
		}
		leaf := at[len(at)-1].child(n.Op, "op")
		at = append(at, leaf)
		if step.Kernel != "" {
			at = append(at, leaf.child(step.Kernel, "kernel"))
		}
		for _, t := range at {
			t.Time += time[i]
			t.Clock += clock[i]
			t.Floor += floor[i]
			t.Lost += lost[i]
			t.FLOPs += flops[i]
			t.Bytes += bytes[i]
			t.Calls += min(v.calls, st.Calls)
		}
		for _, t := range at[len(path):] {
			if t.Kind != "layer" && t.Kind != "block" { // those have many
				t.Op = n.Op
			}
		}
	}
}
