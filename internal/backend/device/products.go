package device

import (
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// MostParts is the number of products with one left operand that a kernel takes.
const MostParts = 3

// OneRow is a step of a single row, which takes in its neighbours.
const OneRow = 1

// LastAct is the last activation with a case in the kernels, which would compute a
// later one as this.
const LastAct = graph.Sigmoid

// Products is a step of products: linear, linear+act, linear+glu, linear+linear.
type Products struct {
	X     *graph.Value
	Nodes []*graph.Node // linear ops
	Out   []*graph.Value
	Act   int // -1: none
	Gated bool
	K     int
	Rows  int // at most
}

// Products is the step at hand.
func (b *Binder) Products() *Products {
	core := b.Step.Core()
	p := &Products{Act: -1}
	switch root := core[len(core)-1]; root.Op {
	case graph.OpGLU:
		p.Nodes, p.Out = []*graph.Node{root.In[0].Node, root.In[1].Node}, []*graph.Value{root.Out[0]}
		p.Act, p.Gated = int(root.Attr.(graph.ActAttr).Kind), true
	case graph.OpAct:
		p.Nodes, p.Out, p.Act = core[:1], []*graph.Value{root.Out[0]}, int(root.Attr.(graph.ActAttr).Kind)
	default:
		p.Nodes = core
		for _, n := range core {
			p.Out = append(p.Out, n.Out[0])
		}
	}
	p.X = p.Nodes[0].In[0]
	p.K, p.Rows = p.X.Shape.RowLen(), b.Most(p.X)
	return p
}

// Cols is the results per row of a product; 0 where there is none.
func (p *Products) Cols(i int) int {
	if i >= len(p.Nodes) {
		return 0
	}
	return p.Nodes[i].In[1].Shape.Outer.Add
}

// Pairs is the number of pairs of results per row: a gate and what it gates, or
// neighbours.
func (p *Products) Pairs() (pairs int) {
	if p.Gated {
		return p.Cols(0)
	}
	for i := range p.Nodes {
		pairs += (p.Cols(i) + 1) / 2
	}
	return pairs
}

// RowNorm is the norm before the products of few rows.
type RowNorm struct {
	X, Add, Sum, Weight, Bias Address
	Kind                      int // 0: none, 1: RMS, 2: layer
	Eps, Offset               float32
}

// RowNorm finds the norm that the products took in, or only the row itself.
func (b *Binder) RowNorm(p *Products) RowNorm {
	if len(b.Step.Before) == 0 {
		return RowNorm{X: b.Value(p.X)}
	}
	norm := p.X.Node
	a := norm.Attr.(graph.NormAttr)
	o := RowNorm{X: b.Value(norm.In[0]), Weight: b.Value(norm.In[1]), Bias: b.Value(norm.In[2]), Kind: 2, Eps: a.Eps, Offset: a.Offset}
	if a.Kind == graph.RMSNorm {
		o.Kind = 1
	}
	if len(b.Step.Before) > 1 { // of a sum
		add := norm.In[0].Node
		o.X, o.Add, o.Sum = b.Value(add.In[0]), b.Value(add.In[1]), b.Value(norm.In[0])
	}
	return o
}

// RowEnd is where the results of a part of few rows go.
type RowEnd struct {
	Y, Cache, Slots Address
	KV              tensor.DType
	Rope            *graph.Node // nil: no rotation
}

// RowEnds are those of every part of the products. slots and kv are of the caches,
// if there are any.
func (b *Binder) RowEnds(p *Products) (ends [MostParts]RowEnd, slots Address, kv tensor.DType) {
	kv = tensor.F32
	if p.Gated || p.Act >= 0 {
		ends[0].Y = b.Value(p.Out[0])
		return ends, 0, kv
	}
	for i, n := range p.Nodes {
		if ends[i] = b.rowEnd(n.Out[0]); ends[i].Cache != 0 {
			slots, kv = ends[i].Slots, ends[i].KV
		}
	}
	return ends, slots, kv
}

// rowEnd follows v through the steps that were taken in.
func (b *Binder) rowEnd(v *graph.Value) RowEnd {
	var e RowEnd
	for _, n := range b.Step.After {
		switch {
		case n.Op == graph.OpKVWrite && (n.In[2] == v || n.In[3] == v):
			e.Cache, e.KV, e.Slots = b.Value(n.In[0]), n.In[0].DType, b.Value(n.In[4])
			if n.In[3] == v {
				e.Cache = b.Value(n.In[1])
			}
			return e
		case n.Op == graph.OpRope && n.In[0] == v:
			e.Rope, v = n, n.Out[0]
		}
	}
	e.Y = b.Value(v)
	return e
}

// Merges are the steps of a single row that take in their neighbours: so a layer of
// a decoder is five kernels. normed reports whether a kernel holds a row of so many
// values that it norms, multiplied one that it multiplies before heads rotate.
func Merges(normed, multiplied func(width int) bool) []plan.Merge {
	norm := func(nodes []*graph.Node) bool { return isNorm(nodes, normed) }
	heads := func(nodes []*graph.Node) bool { return ByHeads(nodes, multiplied) }
	return []plan.Merge{
		{Rows: OneRow, Kind: "linear+linear", Before: norm, After: heads, Varies: true},
		{Rows: OneRow, Kind: "linear+glu", Before: norm, Varies: true},
		{Rows: OneRow, Kind: "linear+act", Before: norm, Varies: true},
		{Rows: OneRow, Kind: "linear", Before: norm, Varies: true},
	}
}

// isNorm reports whether nodes are the norm of a row, or of a sum of rows, that a
// kernel holds.
func isNorm(nodes []*graph.Node, held func(width int) bool) bool {
	root := nodes[len(nodes)-1]
	if root.Op != graph.OpNorm || len(nodes) > 2 {
		return false
	}
	a, width := root.Attr.(graph.NormAttr), root.In[1].Shape.Outer.Add
	return width == root.In[0].Shape.RowLen() && a.Size(width) == width && width%4 == 0 && held(width)
}

// ByHeads reports whether nodes rotate heads or bring them into a cache whose values
// are not in blocks, and come from products of rows that a kernel holds (nil: any).
func ByHeads(nodes []*graph.Node, held func(width int) bool) bool {
	from := func(v *graph.Value) bool {
		n := v.Node
		if n.Op == graph.OpRope {
			n = n.In[0].Node
		}
		return held == nil || n.Op == graph.OpLinear && held(n.In[1].Shape.RowLen())
	}
	for _, n := range nodes {
		switch n.Op {
		case graph.OpRope:
			if n.Attr.(graph.RopeAttr).HeadDim%2 != 0 || !from(n.Out[0]) {
				return false
			}
		case graph.OpKVWrite:
			if n.In[2] == n.In[3] || n.In[0].DType == tensor.Q8_0 || !from(n.In[2]) || !from(n.In[3]) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// Patterns are the fusions of every device, larger ones first.
var Patterns = []plan.Pattern{
	{Kind: "linear+glu", Root: graph.OpGLU, Inputs: []*plan.Pattern{{Root: graph.OpLinear}, {Root: graph.OpLinear}},
		Match: func(nodes []*graph.Node) bool { return nodes[0].In[0] == nodes[1].In[0] && beside(nodes[0], nodes[1]) }},
	{Kind: "linear+act", Root: graph.OpAct, Inputs: []*plan.Pattern{{Root: graph.OpLinear}}},
	{Kind: "add+norm", Root: graph.OpNorm, Inputs: []*plan.Pattern{{Root: graph.OpAdd, Keep: true}},
		Match: func(nodes []*graph.Node) bool {
			norm := nodes[1]
			return norm.In[1].Shape.Outer.Add == norm.In[0].Shape.RowLen()
		}},
	{Kind: "linear+linear", Root: graph.OpLinear, Siblings: beside, Match: func(nodes []*graph.Node) bool { return len(nodes) <= MostParts }},
}

// beside reports whether two products of one input may share a step: kernels take
// matrices of one type.
func beside(m, n *graph.Node) bool {
	leaf := func(n *graph.Node) graph.LeafKind { return n.In[1].Node.Leaf.Kind }
	return m.In[1].DType == n.In[1].DType && leaf(m) == leaf(n)
}
