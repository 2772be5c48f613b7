package opencl

import (
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// mostParts is the number of products with one left operand that a kernel takes.
const mostParts = 3

// products is a step of products: linear, linear+act, linear+glu, linear+linear.
type products struct {
	x    *graph.Value
	ns   []*graph.Node // linear ops
	out  []*graph.Value
	act  int // -1: none
	glu  bool
	k    int
	rows int // at most
}

// productsOf is the step at hand.
func productsOf(b *binder) products {
	core := b.step.Core()
	p := products{act: -1}
	switch root := core[len(core)-1]; root.Op {
	case graph.OpGLU:
		p.ns, p.out = []*graph.Node{root.In[0].Node, root.In[1].Node}, []*graph.Value{root.Out[0]}
		p.act, p.glu = int(root.Attr.(graph.ActAttr).Kind), true
	case graph.OpAct:
		p.ns, p.out, p.act = core[:1], []*graph.Value{root.Out[0]}, int(root.Attr.(graph.ActAttr).Kind)
	default:
		p.ns = core
		for _, n := range core {
			p.out = append(p.out, n.Out[0])
		}
	}
	p.x = p.ns[0].In[0]
	p.k, p.rows = p.x.Shape.RowLen(), b.most(p.x)
	return p
}

func (p *products) cols(i int) int {
	if i >= len(p.ns) {
		return 0
	}
	return p.ns[i].In[1].Shape.Outer.Add
}

// beside reports whether two products of one input may share a step: kernels take
// matrices of one type.
func beside(m, n *graph.Node) bool {
	leaf := func(n *graph.Node) graph.LeafKind { return n.In[1].Node.Leaf.Kind }
	return m.In[1].DType == n.In[1].DType && leaf(m) == leaf(n)
}

// bindProducts takes the kernels for the largest number of rows of the plan.
func bindProducts(b *binder, _ *graph.Node) {
	p := productsOf(b)
	if p.rows <= oneRow && !b.plan.Invariant && rowRoom(b.be.about, p.k) > 0 {
		b.one(&p)
		return
	}
	if !p.glu {
		for i, v := range p.out {
			b.product(&p, i, b.value(v), p.act)
		}
		return
	}
	v := p.out[0]
	bytes := 4 * int64(p.rows) * int64(p.cols(0))
	gate, up := b.workspace(bytes), b.workspace(bytes)
	b.product(&p, 0, gate, -1)
	b.product(&p, 1, up, -1)
	b.each("k_glu", v, b.value(v), gate, up, p.act)
}

// fewLanes are the work items per row of the weights where rows are few.
const fewLanes = 32

// product is one of the products, of few rows or of many.
func (b *binder) product(p *products, i int, y address, act int) {
	w, bias, cols := p.ns[i].In[1], b.value(p.ns[i].In[2]), p.cols(i)
	t, x := b.dtype(w), b.value(p.x)
	if p.rows <= fewRows && !b.plan.Invariant {
		b.launchOf(typed(t, "common", "act", "few"), "k_few", [2]extent{groups(cols), {p.x.Shape.Outer, 1, fewRows, 0}}, fewLanes,
			b.sizes, p.x.Shape.Outer, cols, p.k, y, x, b.value(w), bias, act)
		return
	}
	if b.at == 0 {
		return
	}
	chosen, err := b.be.tuner.choose(Shape{p.rows, cols, p.k, t}, b.be.about, func(s Shape) ([]Timing, error) { return b.be.measure(s, b.value(w)) })
	if err != nil {
		b.fail(err)
		return
	}
	b.many(chosen, t, p.x.Shape.Outer, cols, p.k, b.sizes, y, x, b.value(w), bias, act)
}

// tiled are the groups of a product of rows x cols results.
func (t tile) tiled(rows tensor.Dim, cols int) [2]extent {
	return [2]extent{{tensor.Fixed(cols), 1, t.N, 0}, {rows, 1, t.M, 0}}
}

// many is a product in tiles.
func (b *binder) many(t tile, of tensor.DType, rows tensor.Dim, cols, k int, sizes, y, x, w, bias address, act int) {
	b.launchOf(t.code(of, false), "k_many", t.tiled(rows, cols), t.items(), sizes, rows, cols, k, y, x, w, bias, act)
}

func bindLinearDX(b *binder, n *graph.Node) {
	dy, w := n.In[0], n.In[1]
	rows, k, t := w.Shape.Outer.Add, w.Shape.RowLen(), usual(b.be.about, b.most(dy))
	b.launchOf(t.code(b.dtype(w), true), "k_gemm", t.tiled(dy.Shape.Outer, k), t.items(), b.sizes, dy.Shape.Outer, tensor.Fixed(rows), k, b.value(n.Out[0]), b.value(dy), uint64(rows), uint64(1), b.value(w))
}

func bindLinearDW(b *binder, n *graph.Node) {
	dy, x := n.In[0], n.In[1]
	rows, k := dy.Shape.RowLen(), x.Shape.RowLen()
	t := usual(b.be.about, rows)
	b.launchOf(t.code(tensor.F32, true), "k_gemm", t.tiled(tensor.Fixed(rows), k), t.items(), b.sizes, tensor.Fixed(rows), dy.Shape.Outer, k, b.value(n.Out[0]), b.value(dy), uint64(1), uint64(rows), b.value(x))
}
