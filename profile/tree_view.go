package profile

import (
	"fmt"
	"strings"
)

// FlameView is how the frames of a flame graph are arranged.
type FlameView string

// The views of a flame graph.
const (
	FlameLayers FlameView = "layers" // each layer by itself
	FlameMerged FlameView = "merged" // all layers as one
	FlameOps    FlameView = "ops"    // by op and kernel, wherever they are
)

// FlameViews lists the views.
var FlameViews = []FlameView{FlameLayers, FlameMerged, FlameOps}

// ParseFlameView reads the name of a view; the empty name is FlameLayers.
func ParseFlameView(name string) (FlameView, error) {
	var known []string
	for _, v := range FlameViews {
		if name == string(v) || name == "" {
			return v, nil
		}
		known = append(known, string(v))
	}
	return "", fmt.Errorf("profile: no flame graph by %q, expected one of %s", name, strings.Join(known, ", "))
}

// TreeBy is the tree in another arrangement. Sums are those of [Profile.Tree].
func (p *Profile) TreeBy(view FlameView) *TreeNode {
	root := p.Tree()
	switch view {
	case FlameMerged:
		return mergedLayers(root)
	case FlameOps:
		return byOp(root)
	}
	return root
}

// take adds the numbers of another node.
func (n *TreeNode) take(o *TreeNode) {
	n.Time += o.Time
	n.Clock += o.Clock
	n.Floor += o.Floor
	n.Lost += o.Lost
	n.FLOPs += o.FLOPs
	n.Bytes += o.Bytes
	n.Calls += o.Calls
	if n.Op == "" {
		n.Op = o.Op
	}
}

// mergedLayers merges all layers into one node, and equal nodes of the layers into one
// node below it.
func mergedLayers(n *TreeNode) *TreeNode {
	out := &TreeNode{Name: n.Name, Kind: n.Kind}
	out.take(n)
	layers := 0
	for _, c := range n.Children {
		if c.Kind == "layer" {
			layers++
		}
	}
	var merge func(to, from *TreeNode)
	merge = func(to, from *TreeNode) {
		for _, c := range from.Children {
			name, kind := c.Name, c.Kind
			if kind == "layer" && layers > 1 {
				name = fmt.Sprintf("%d layers", layers)
			}
			next := to.child(name, kind)
			next.take(c)
			merge(next, c)
		}
	}
	if n.Kind == "plan" || layers > 0 {
		merge(out, n)
		return out
	}
	for _, c := range n.Children {
		out.Children = append(out.Children, mergedLayers(c))
	}
	return out
}

// byOp has all steps of an op in one node, with its kernels below.
func byOp(root *TreeNode) *TreeNode {
	out := &TreeNode{Name: root.Name, Kind: root.Kind}
	out.take(root)
	out.Op = ""
	var walk func(n *TreeNode)
	walk = func(n *TreeNode) {
		switch n.Kind {
		case "op":
			op := out.child(n.Name, "op")
			op.take(n)
			for _, k := range n.Children {
				op.child(k.Name, k.Kind).take(k)
			}
			return
		case "wait":
			out.child(n.Name, "wait").take(n)
			return
		}
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(root)
	return out
}
