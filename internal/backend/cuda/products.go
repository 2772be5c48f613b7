package cuda

import (
	"strings"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
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

// fewRowsF32 is up to how many rows products in f32 read each weight once for all.
const fewRowsF32 = 8

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

func (p *products) cols(i int) int { return p.ns[i].In[1].Shape.Outer.Add }

// bindProducts takes the kernels for the largest number of rows of the plan.
func bindProducts(b *binder, _ *graph.Node) {
	p := productsOf(b)
	x := b.reads(p.x)
	switch {
	case p.rows <= oneRow && !b.plan.Invariant:
		b.one(&p)
	case b.be.inF32(p.k):
		b.inF32(&p)
	case !half.Holds(p.k):
		b.onTensorCores(&p, x)
	case p.rows <= fewRows && !b.plan.Invariant && b.weights(&p) && !b.large(&p):
		if b.wideFits(&p) {
			b.wide(&p)
		} else {
			b.few(&p)
		}
	case b.be.wgmma:
		b.wgmma(&p, b.rounded(p.x, x))
	default:
		b.onTensorCores(&p, x)
	}
}

// rounded is operand v in bf16: as it lies, or rounded into the step's memory, in
// rows of a multiple of 8 values.
func (b *binder) rounded(v *graph.Value, x in) in {
	if x.half {
		return x
	}
	rows, stride := b.most(v), (v.Shape.RowLen()+7)/8*8
	at := b.workspace(2 * int64(rows) * int64(stride))
	b.launch("k_round", b.spread(rows*stride/8), 256, b.sizes, v.Shape.Outer, v.Shape.RowLen(), at, x.at, stride)
	return in{at, true}
}

// weights reports whether all matrices are weights, which no step writes.
func (b *binder) weights(p *products) bool {
	for _, n := range p.ns {
		if n.In[1].Node.Leaf == nil || n.In[1].Node.Leaf.Kind != graph.WeightLeaf {
			return false
		}
	}
	return true
}

// large reports whether a matrix is too large for the kernels of few rows.
func (b *binder) large(p *products) bool {
	for i, n := range p.ns {
		if b.dtype(n.In[1]) == tensor.BF16 && b.be.large(p.cols(i), p.k) {
			return true
		}
	}
	return false
}

// beside reports whether two products of one input may share a step: kernels take
// matrices of one type.
func beside(m, n *graph.Node) bool {
	leaf := func(n *graph.Node) graph.LeafKind { return n.In[1].Node.Leaf.Kind }
	return m.In[1].DType == n.In[1].DType && leaf(m) == leaf(n)
}

// name is the type of the matrices, as kernels are named.
func (b *binder) name(p *products) string { return strings.ToLower(b.dtype(p.ns[0].In[1]).String()) }

// each3 fills an argument for each of three parts.
func each3[T any](n int, f func(i int) T) [mostParts]T {
	var out [mostParts]T
	for i := range n {
		out[i] = f(i)
	}
	return out
}

// columns are the results per row and the number of parts.
func (p *products) columns() ([mostParts]int, int) {
	return each3(len(p.ns), p.cols), len(p.ns)
}

// few is up to 16 rows in f32: 8 columns per block, whose warps share k.
func (b *binder) few(p *products) {
	n, parts := p.columns()
	kernel, tiles := "k_few16_", 0
	for i := range parts {
		tiles += (n[i] + 7) / 8
	}
	if p.glu {
		kernel, tiles = "k_few16_glu_", (n[0]+7)/8
	}
	warps := 1
	for warps < 16 && p.k/(32*warps) >= 3 {
		warps *= 2
	}
	b.launch(kernel+b.name(p), [3]int{tiles, 1, 1}, 32*warps, b.value(p.x),
		each3(parts, func(i int) address { return b.value(p.ns[i].In[1]) }),
		each3(len(p.out), func(i int) address { return b.value(p.out[i]) }),
		each3(parts, func(i int) address { return b.value(p.ns[i].In[2]) }),
		b.sizes, p.x.Shape.Outer, n, parts, p.k, p.glu, p.act)
}

// onTensorCores is a kernel per product, from weights in their storage type.
func (b *binder) onTensorCores(p *products, x in) {
	product := func(i int, y out, act int) {
		n := p.cols(i)
		b.launch("k_tensor_"+strings.ToLower(b.dtype(p.ns[i].In[1]).String()), [3]int{(n + 63) / 64, (p.rows + 127) / 128, 1}, 256,
			b.sizes, p.x.Shape.Outer, n, p.k, y, x, b.value(p.ns[i].In[1]), b.value(p.ns[i].In[2]), act)
	}
	if p.glu {
		b.gated(p, func(i int, to address) { product(i, out{plain: to}, -1) })
		return
	}
	for i, v := range p.out {
		product(i, b.writes(v), p.act)
	}
}

// gated computes a gate and what it gates into the step's memory.
func (b *binder) gated(p *products, product func(i int, to address)) {
	v := p.out[0]
	bytes := 4 * int64(p.rows) * int64(p.cols(0))
	gate, up := b.workspace(bytes), b.workspace(bytes)
	product(0, gate)
	product(1, up)
	b.each("k_glu", v, b.writes(v), gate, up, p.act)
}

// inF32 is plain f32, for few rows from weights in their storage type.
func (b *binder) inF32(p *products) {
	product := func(i int, y address) {
		n, w, x := p.cols(i), p.ns[i].In[1], b.value(p.x)
		if p.rows <= fewRowsF32 && !b.plan.Invariant {
			b.launch("k_few_"+strings.ToLower(b.dtype(w).String()), [3]int{(n + 15) / 16, (p.rows + 7) / 8, 1}, 256,
				b.sizes, p.x.Shape.Outer, n, p.k, y, x, b.value(w), b.value(p.ns[i].In[2]))
			return
		}
		at := b.value(w)
		if b.dtype(w) != tensor.F32 {
			at = b.workspace(4 * int64(n) * int64(p.k))
			b.decode("k_decode", at, w)
		}
		b.gemm(p.x.Shape.Outer, tensor.Fixed(n), tensor.Fixed(p.k), y, x, p.k, 1, at, 1, p.k, b.value(p.ns[i].In[2]))
	}
	if p.glu {
		b.gated(p, product)
		return
	}
	for i, v := range p.out {
		product(i, b.value(v))
		if p.act >= 0 {
			b.each("k_act", v, out{plain: b.value(v)}, b.value(v), p.act)
		}
	}
}

// decode writes a matrix of any type in another.
func (b *binder) decode(kernel string, to address, w *graph.Value) {
	rows, cols := w.Shape.NumRows(b.plan.Max), w.Shape.RowLen()
	b.launch(kernel, b.spread(rows*cols/8), 256, to, b.value(w), b.dtype(w), uint64(rows), cols)
}

// one is a single row, with the norm before it and what makes queries, keys and
// values of it.
func (b *binder) one(p *products) {
	n, parts := p.columns()
	pairs := 0
	for i := range parts {
		pairs += (n[i] + 1) / 2
	}
	if p.glu {
		pairs = n[0]
	}
	// Warps of a pair share k until every unit has 16 warps.
	units, split := b.be.drv.describe().Units, 1
	for split < 8 && pairs*split < 16*units && p.k/split >= 512 {
		split *= 2
	}
	var norm ownNorm
	if len(b.step.Before) > 0 {
		norm = b.ownNorm(p)
	} else {
		norm.x = b.value(p.x)
	}
	ends := each3(parts, func(i int) end { return end{} })
	if p.glu || p.act >= 0 {
		ends[0].y = b.value(p.out[0])
	} else {
		for i := range parts {
			ends[i] = b.endOf(p.ns[i].Out[0])
		}
	}
	var slots address
	kv := tensor.F32
	for i := range parts {
		if ends[i].cache != 0 {
			slots, kv = ends[i].slots, ends[i].kv
		}
	}
	kernel, shared := "k_one_", 0
	if norm.kind > 0 {
		shared = 4 * p.k
	}
	if b.byCodes(p) {
		kernel, shared = "k_codes_", codesShared(b.dtype(p.ns[0].In[1]), p.k)
	}
	b.launch(kernel+b.name(p), [3]int{min((pairs*split+7)/8, 2*units), 1, 1}, 256, norm.x, norm.add, norm.sum, norm.weight, norm.bias,
		each3(parts, func(i int) address { return b.value(p.ns[i].In[1]) }),
		each3(parts, func(i int) address { return ends[i].y }),
		each3(parts, func(i int) address { return b.value(p.ns[i].In[2]) }),
		each3(parts, func(i int) address { return ends[i].cache }),
		slots, each3(parts, func(i int) turn { return ends[i].turn }),
		n, parts, p.k, p.glu, p.act, norm.kind, norm.eps, norm.offset, kv, split, b.weights(p))
	b.launches[len(b.launches)-1].shared = shared
}

// ownNorm is the norm before the products of a single row.
type ownNorm struct {
	x, add, sum, weight, bias address
	kind                      int // 0: none, 1: RMS, 2: layer
	eps, offset               float32
}

func (b *binder) ownNorm(p *products) ownNorm {
	norm := p.x.Node
	a := norm.Attr.(graph.NormAttr)
	o := ownNorm{x: b.value(norm.In[0]), weight: b.value(norm.In[1]), bias: b.value(norm.In[2]), kind: 2, eps: a.Eps, offset: a.Offset}
	if a.Kind == graph.RMSNorm {
		o.kind = 1
	}
	if len(b.step.Before) > 1 { // of a sum
		add := norm.In[0].Node
		o.x, o.add, o.sum = b.value(add.In[0]), b.value(add.In[1]), b.value(norm.In[0])
	}
	return o
}

// end is where the results of a part of a single row go.
type end struct {
	y, cache, slots address
	kv              tensor.DType
	turn            turn
}

// endOf follows v through the steps that were taken in.
func (b *binder) endOf(v *graph.Value) end {
	var e end
	for _, n := range b.step.After {
		switch {
		case n.Op == graph.OpKVWrite && (n.In[2] == v || n.In[3] == v):
			e.cache, e.kv, e.slots = b.value(n.In[0]), n.In[0].DType, b.value(n.In[4])
			if n.In[3] == v {
				e.cache = b.value(n.In[1])
			}
			return e
		case n.Op == graph.OpRope && n.In[0] == v:
			e.turn, v = b.turnOf(n), n.Out[0]
		}
	}
	e.y = b.value(v)
	return e
}

// merges are the steps of a single row that take in their neighbours.
var merges = []plan.Merge{
	{Rows: oneRow, Kind: "linear+linear", Before: isNorm, After: byHeads, Varies: true},
	{Rows: oneRow, Kind: "linear+glu", Before: isNorm, Varies: true},
	{Rows: oneRow, Kind: "linear+act", Before: isNorm, Varies: true},
	{Rows: oneRow, Kind: "linear", Before: isNorm, Varies: true},
}

// isNorm reports whether nodes are the norm of a row, or of a sum of rows, that a
// block holds.
func isNorm(nodes []*graph.Node) bool {
	root := nodes[len(nodes)-1]
	if root.Op != graph.OpNorm {
		return false
	}
	a, width := root.Attr.(graph.NormAttr), root.In[1].Shape.Outer.Add
	return width == root.In[0].Shape.RowLen() && a.Size(width) == width && width%4 == 0 && width <= mostOfABlock
}

// byHeads reports whether nodes rotate heads or bring them into a cache whose
// values are not in blocks.
func byHeads(nodes []*graph.Node) bool {
	for _, n := range nodes {
		switch n.Op {
		case graph.OpRope:
			if n.Attr.(graph.RopeAttr).HeadDim%2 != 0 {
				return false
			}
		case graph.OpKVWrite:
			if n.In[2] == n.In[3] || n.In[0].DType == tensor.Q8_0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}
