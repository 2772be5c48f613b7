package graph

import (
	"fmt"
	"strings"

	"hotpath/internal/tensor"
)

// Builder makes a graph. The first mistake is kept and returned by Freeze, so
// that a model's description reads without error handling.
type Builder struct {
	Stage Stage // of nodes to come
	g     Graph
	scope []string
	layer int
	err   error
	bad   *Value // stands for every value after a mistake

	// Trainable decides which weights become trainable state; nil means none.
	Trainable func(role Role, layer int) bool
	// WeightType gives the file's encoding of a weight.
	WeightType func(key string) (tensor.DType, error)
}

// NewBuilder starts a graph whose runs stay within max.
func NewBuilder(most tensor.Bind) *Builder {
	b := &Builder{layer: -1}
	b.g.Max = most
	n := &Node{Op: leafOp, Name: "invalid", Layer: -1, Leaf: &Leaf{}}
	b.bad = &Value{Node: n, Shape: tensor.Static(1, 1)}
	n.Out = []*Value{b.bad}
	return b
}

// leafOp is the op of leaves: nothing to run.
var leafOp = &OpDef{Name: "leaf"}

// Max is the largest binding of the graph being built.
func (b *Builder) Max() tensor.Bind { return b.g.Max }

// Err is the first mistake so far.
func (b *Builder) Err() error { return b.err }

// Fail records a mistake that a model description found itself.
func (b *Builder) Fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%s: %w", b.path("build"), fmt.Errorf(format, args...))
	}
}

// Scope names what is built inside it; the returned function closes it.
func (b *Builder) Scope(name string) func() {
	b.scope = append(b.scope, name)
	return func() { b.scope = b.scope[:len(b.scope)-1] }
}

// LayerScope is Scope("blk.i") and marks nodes as belonging to layer i.
func (b *Builder) LayerScope(i int) func() {
	outer := b.layer
	b.layer = i
	end := b.Scope(fmt.Sprintf("blk.%d", i))
	return func() { end(); b.layer = outer }
}

func (b *Builder) path(name string) string {
	return strings.Join(append(b.scope[:len(b.scope):len(b.scope)], name), "/")
}

func (b *Builder) leaf(name string, leaf *Leaf, t Type) *Value {
	if b.err != nil {
		return b.bad
	}
	n := &Node{ID: len(b.g.Nodes), Op: leafOp, Name: name, Layer: b.layer, Leaf: leaf}
	return b.outputs(n, []Type{t})[0]
}

func (b *Builder) outputs(n *Node, types []Type) []*Value {
	for i, t := range types {
		v := &Value{ID: len(b.g.Values), Node: n, Index: i, Shape: t.Shape, DType: t.DType,
			NeedsGrad: t.DType != tensor.I32 && needsGrad(n)}
		b.g.Values = append(b.g.Values, v)
		n.Out = append(n.Out, v)
	}
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Out
}

// needsGrad reports whether a trainable leaf is n or upstream of it.
func needsGrad(n *Node) bool {
	if n.Leaf != nil {
		return n.Leaf.Trainable
	}
	for _, v := range n.In {
		if v != nil && v.NeedsGrad {
			return true
		}
	}
	return false
}

// Input declares what the caller fills before each run. Names are unique.
func (b *Builder) Input(name string, d tensor.DType, s tensor.Shape) *Value {
	if b.g.Input(name) != nil {
		b.Fail("input %q declared twice", name)
	}
	v := b.leaf(name, &Leaf{Kind: InputLeaf}, Type{s, d})
	if b.err == nil {
		b.g.Inputs = append(b.g.Inputs, v)
	}
	return v
}

// Weight declares a tensor of the file by its canonical key. Where the
// builder trains that role it is state in F32 instead.
func (b *Builder) Weight(key string, role Role, s tensor.Shape) *Value {
	for _, n := range b.g.Nodes {
		if n.Leaf != nil && n.Leaf.Key == key && n.Leaf.Role != RoleMoment {
			return n.Out[0] // tied weights are one leaf
		}
	}
	leaf := &Leaf{Kind: WeightLeaf, Role: role, Key: key}
	d := tensor.F32
	switch {
	case b.Trainable != nil && b.Trainable(role, b.layer):
		leaf.Kind, leaf.Trainable = StateLeaf, true
	case b.WeightType != nil:
		var err error
		if d, err = b.WeightType(key); err != nil {
			b.Fail("%w", err)
		}
	}
	return b.leaf(b.path(key), leaf, Type{s, d})
}

// Fresh declares a trainable weight that no file has. It starts as zeros; key
// names it in checkpoints.
func (b *Builder) Fresh(key string, role Role, s tensor.Shape) *Value {
	for _, n := range b.g.Nodes {
		if n.Leaf != nil && n.Leaf.Key == key {
			return n.Out[0]
		}
	}
	return b.leaf(b.path(key), &Leaf{Kind: StateLeaf, Role: role, Key: key, Trainable: true, Fresh: true}, Type{s, tensor.F32})
}

// State declares memory that runs write and that starts as zeros.
func (b *Builder) State(name string, role Role, d tensor.DType, s tensor.Shape) *Value {
	return b.leaf(b.path(name), &Leaf{Kind: StateLeaf, Role: role}, Type{s, d})
}

// Apply adds a node. Ops offer typed methods around it.
func (b *Builder) Apply(op *OpDef, name string, attr any, in ...*Value) *Node {
	n := &Node{ID: len(b.g.Nodes), Op: op, In: in, Attr: attr, Name: b.path(name), Layer: b.layer, Stage: b.Stage}
	if b.err == nil {
		types, err := op.Infer(n)
		if err == nil {
			err = takeVersions(n)
		}
		if err == nil {
			b.outputs(n, types)
			return n
		}
		b.err = fmt.Errorf("%s (%s): %w", n.Name, op.Name, err)
	}
	n.Out = []*Value{b.bad, b.bad, b.bad, b.bad}
	return n
}

// takeVersions checks that n reads only current versions of state and that
// what it overwrites is state, and marks the versions that end with n.
func takeVersions(n *Node) error {
	for i, v := range n.In {
		if v != nil && v.Overwritten != nil {
			return fmt.Errorf("operand %d is a version of %s that %s has overwritten", i, v.Root().Node.Name, v.Overwritten.Name)
		}
	}
	for _, j := range n.Op.InPlace {
		v := n.In[j]
		if leaf := v.Root().Node.Leaf; leaf == nil || leaf.Kind != StateLeaf {
			return fmt.Errorf("operand %d (%s) would be overwritten but is not state", j, v)
		}
		if v.Overwritten != nil {
			return fmt.Errorf("operand %d (%s) would be overwritten twice", j, v)
		}
		v.Overwritten = n
	}
	return nil
}

// Named returns a builder's scope as it was at n, for rules that add nodes on
// behalf of n; the returned function restores it.
func (b *Builder) Named(n *Node, prefix string) func() {
	scope, layer := b.scope, b.layer
	b.scope, b.layer = []string{prefix, n.Name}, n.Layer
	return func() { b.scope, b.layer = scope, layer }
}

// Nodes are the nodes so far; gradient rules walk them backwards.
func (b *Builder) Nodes() []*Node { return b.g.Nodes }

// Freeze ends building. Outputs are copied to the host after each run.
func (b *Builder) Freeze(outputs ...*Value) (*Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	for _, v := range outputs {
		if v == nil {
			return nil, fmt.Errorf("graph: an output is missing")
		}
	}
	g := b.g
	g.Outputs = outputs
	return &g, nil
}
