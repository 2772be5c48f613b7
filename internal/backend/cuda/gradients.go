package cuda

import (
	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Gradients. On a card with warpgroups they are bf16 between products, whose operands
// would be rounded anyway; those of the residual stream, of norms' weights, of biases
// and of matrices are f32.

const (
	normDXAdd = "norm_dx+add"   // the gradient of a norm's operand, and what else flows into it
	sumOfDX   = "linear_dx+add" // the gradient of an operand that two or three products read
)

// gradientPatterns are the fusions of gradients, larger ones first.
func (b *Backend) gradientPatterns() []plan.Pattern {
	dx, sum := &plan.Pattern{Root: graph.OpLinearDX}, func(x, y *plan.Pattern) plan.Pattern {
		return plan.Pattern{Kind: sumOfDX, Root: graph.OpAdd, Inputs: []*plan.Pattern{x, y}, Match: func(nodes []*graph.Node) bool {
			for _, n := range nodes {
				if n.Op == graph.OpLinearDX && !b.turns(n.In[1].DType, n.In[1].Shape.RowLen()) {
					return false
				}
			}
			return true
		}}
	}
	two := sum(dx, dx)
	return []plan.Pattern{
		sum(&plan.Pattern{Root: graph.OpAdd, Inputs: two.Inputs}, dx),
		two,
		{Kind: normDXAdd, Root: graph.OpAdd, Inputs: []*plan.Pattern{nil, {Root: graph.OpNormDX}}},
		{Kind: normDXAdd, Root: graph.OpAdd, Inputs: []*plan.Pattern{{Root: graph.OpNormDX}}},
	}
}

// trained reports whether a matrix is one that an optimizer changes, and writes in
// bf16 beside f32.
func (b *Backend) trained(m plan.Matrix) bool {
	return m.Leaf != nil && m.Leaf.Kind == graph.StateLeaf && m.DType == tensor.F32 && half.Holds(m.K) && !b.inF32(m.K)
}

// turns reports whether warpgroups compute dy w with a matrix of a type and rows of k
// values.
func (b *Backend) turns(t tensor.DType, k int) bool {
	return b.wgmma && !b.inF32(k) && (half.Holds(k) || t == tensor.F32)
}

// gradientRules say which gradients are bf16.
func (b *Backend) gradientRules() []plan.Rule {
	reads, rounds := []*plan.Format{half, nil}, func(*plan.Step) []*plan.Format { return []*plan.Format{half} }
	var rules []plan.Rule
	if b.wgmma {
		rows, results := []*plan.Format{half, padded, nil}, func(*plan.Step) []*plan.Format { return []*plan.Format{half, padded} }
		dx := plan.Rule{Class: "bf16", Op: graph.OpLinearDX, Reads: rows, Writes: rounds, Together: true}
		for _, r := range []plan.Rule{
			{Packing: half, Weights: func(m plan.Matrix) bool {
				return m.Weight() && (m.DType == tensor.F32 || m.DType == tensor.F16) && half.Holds(m.K) && !b.inF32(m.K)
			}},
			{Packing: half, Weights: b.trained},
			{Weights: func(m plan.Matrix) bool { return b.turns(m.DType, m.K) }},
		} {
			dx.Packing, dx.Weights = r.Packing, r.Weights
			rules = append(rules, dx)
		}
		rules = append(rules,
			plan.Rule{Class: "bf16", Op: graph.OpLinearDW, Reads: rows, Operands: 2, When: func(_ *plan.Step, n *graph.Node) bool { return !b.inF32(n.In[1].Shape.RowLen()) }},
			plan.Rule{Class: "f32", Op: graph.OpCrossEntropy, Reads: rows, When: func(s *plan.Step, n *graph.Node) bool { return len(s.Out) > 1 }},
			plan.Rule{Class: "f32", Op: graph.OpCrossEntropyGrad, Reads: rows, Writes: results},
			plan.Rule{Class: "f32", Op: graph.OpAdamW, Together: true, Writes: rounds},
			plan.Rule{Class: "f32", Op: graph.OpSGD, Together: true, Writes: rounds},
		)
	}
	return append(rules,
		plan.Rule{Class: "f32", Op: graph.OpLinearDX},
		plan.Rule{Class: "bf16", Op: graph.OpAttentionGrad, Writes: rounds, Results: 3,
			When: func(_ *plan.Step, n *graph.Node) bool { return b.flashesBack(n) && ofState(n) }},
		plan.Rule{Class: "bf16", Op: graph.OpAttentionGrad, Reads: reads, Operands: 6, Writes: rounds, Results: 3,
			When: func(_ *plan.Step, n *graph.Node) bool { return b.flashesBack(n) }},
		plan.Rule{Class: "f32", Op: graph.OpNormDX, Reads: reads, Writes: rounds, Together: true},
		plan.Rule{Class: "f32", Op: graph.OpNormDW, Reads: reads},
		plan.Rule{Class: "f32", Op: graph.OpColSum, Reads: reads},
		plan.Rule{Class: "f32", Op: graph.OpActGrad, Reads: reads, Operands: 2, Writes: rounds, Together: true},
	)
}

// bindNormDX is the gradient of a norm's operand, plus what else flows into it.
func bindNormDX(b *binder, n *graph.Node) {
	result, add := n.Out[0], address(0)
	if n.Op == graph.OpAdd {
		i := 0
		if n.In[1].Node.Op == graph.OpNormDX && n.In[1].Node == b.Step.Nodes[0] {
			i = 1
		}
		n, add = n.In[i].Node, b.Value(n.In[1-i])
	}
	a, x := n.Attr.(graph.NormAttr), n.In[1]
	width := n.In[2].Shape.Len(tensor.Bind{})
	size := a.Size(width)
	chunks := b.Most(x) * x.Shape.RowLen() / size
	kernel, grid, block := "k_norm_dx", b.spread(32*chunks), 256
	if size%4 == 0 && width%4 == 0 && size <= mostOfAWarp {
		kernel, grid, block = "k_norm_dx_4", [3]int{(chunks + 3) / 4, 1, 1}, 128
		if size > mostOfAWarp/2 {
			kernel = "k_norm_dx_8"
		}
	}
	b.launch(kernel, grid, block, b.sizes, x.Shape.Outer, x.Shape.RowLen(), b.writes(result), b.reads(n.In[0]), b.Value(x), b.Value(n.In[2]), add,
		width, size, a.Kind == graph.RMSNorm, a.Eps, a.Offset)
}

func bindNormDW(b *binder, n *graph.Node) {
	a, x := n.Attr.(graph.NormDWAttr), n.In[1]
	size, rows := a.Size(a.Width), b.Most(x)*x.Shape.RowLen()/a.Width
	var at address
	count, dy := 0, b.reads(n.In[0])
	slices := func() address { return b.Workspace(8 * int64(count) * int64(a.Width)) }
	if kernel := normDWKernel(size); kernel != "" && size == a.Width {
		count = max(1, min(4*b.be.drv.describe().Units, rows/16))
		at = slices()
		b.launch(kernel, [3]int{1, count, 1}, 128, b.sizes, x.Shape.Outer, x.Shape.RowLen(), at, dy, b.Value(x), size, a.Kind == graph.RMSNorm, a.Eps)
	} else {
		chunks := b.Most(x) * x.Shape.RowLen() / size
		stats := b.Workspace(8 * int64(chunks))
		b.warps("k_norm_stats", chunks, x.Shape.Outer, x.Shape.RowLen(), stats, b.Value(x), size, a.Kind == graph.RMSNorm, a.Eps)
		count = b.slices(rows, (a.Width+31)/32)
		at = slices()
		b.launch("k_norm_dw", [3]int{(a.Width + 31) / 32, count, 1}, 256, b.sizes, x.Shape.Outer, x.Shape.RowLen(), at, dy, b.Value(x), stats, a.Width, size)
	}
	for i, v := range n.Out {
		if to := b.Value(v); to != 0 {
			b.addSlices(to, at+address(4*i*a.Width), count, 2*a.Width, a.Width)
		}
	}
}

// normDWKernel is the kernel whose warps hold rows of so many values; "": none.
func normDWKernel(size int) string {
	switch {
	case size%4 != 0:
		return ""
	case size <= 512:
		return "k_norm_dw_4"
	case size <= 768:
		return "k_norm_dw_6"
	case size <= mostOfAWarp:
		return "k_norm_dw_8"
	}
	return ""
}

func bindColSum(b *binder, n *graph.Node) {
	x := n.In[0]
	cols := x.Shape.RowLen()
	kernel, wide := "k_col_sum", (cols+31)/32
	if cols%8 == 0 {
		kernel, wide = "k_col_sum_8", (cols+255)/256
	}
	count := b.slices(b.Most(x), wide)
	at := b.Workspace(4 * int64(count) * int64(cols))
	b.launch(kernel, [3]int{wide, count, 1}, 256, b.sizes, x.Shape.Outer, cols, at, b.reads(x))
	b.addSlices(b.Value(n.Out[0]), at, count, cols, cols)
}

// slices is into how many slices rows are cut for their sum: enough to fill the card
// with blocks, of which a slice has wide, and of at least 64 rows each.
func (b *binder) slices(rows, wide int) int {
	return max(1, min(8*b.be.drv.describe().Units/wide, rows/64))
}

func (b *binder) addSlices(to, slices address, count, stride, width int) {
	b.launch("k_add_slices", [3]int{(width + 31) / 32, 1, 1}, 256, to, slices, count, stride, width)
}

func bindCrossEntropy(b *binder, n *graph.Node) {
	x := n.In[0]
	logits, cols := b.reads(x), x.Shape.RowLen()
	b.launch("k_cross_entropy", [3]int{b.Most(x), 1, 1}, 256, b.sizes, x.Shape.Outer, cols, logits.stride(cols), b.Value(n.Out[0]), b.Value(n.Out[1]), logits, b.Value(n.In[1]), b.Value(n.In[2]))
}

func bindCrossEntropyGrad(b *binder, n *graph.Node) {
	x, to := n.In[0], b.writes(n.Out[0])
	logits, cols := b.reads(x), x.Shape.RowLen()
	b.launch("k_cross_entropy_grad", [3]int{b.Most(x), 1, 1}, 256, b.sizes, x.Shape.Outer, cols, logits.stride(cols), to, in{half: to.half != 0}.stride(cols), logits,
		b.Value(n.In[1]), b.Value(n.In[2]), b.Value(n.In[3]), b.Value(n.In[4]))
}

// bindLinearDX is dx[T,k] = dy[T,n] w[n,k], or the sum of two or three of them.
func bindLinearDX(b *binder, root *graph.Node) {
	var nodes []*graph.Node
	for _, n := range b.Step.Nodes {
		if n.Op == graph.OpLinearDX {
			nodes = append(nodes, n)
		}
	}
	n := nodes[0]
	dy, w := n.In[0], n.In[1]
	rows, k := w.Shape.Outer.Add, w.Shape.RowLen()
	if b.be.turns(b.DType(w), k) {
		b.backwardDX(nodes, b.writes(root.Out[0]))
		return
	}
	at := b.Value(w)
	if b.DType(w) != tensor.F32 {
		at = b.Workspace(4 * int64(rows) * int64(k))
		b.decode("k_decode", at, w)
	}
	b.gemm(dy.Shape.Outer, tensor.Fixed(k), tensor.Fixed(rows), b.Value(n.Out[0]), b.Value(dy), rows, 1, at, k, 1, 0)
}

// backwardDX is the sum of dy w over nodes.
func (b *binder) backwardDX(nodes []*graph.Node, to out) {
	rows, k := b.Most(nodes[0].In[0]), nodes[0].In[1].Shape.RowLen()
	deep := each3(len(nodes), func(i int) int { return nodes[i].In[1].Shape.Outer.Add })
	t := chooseGradient(rows, k, deep[0]+deep[1]+deep[2], b.be.drv.describe().Units)
	dy := each3(len(nodes), func(i int) tensorMap {
		v := nodes[i].In[0]
		return b.tensorMap(b.rounded(v, b.reads(v)).at, rows, deep[i], t.rows)
	})
	w := each3(len(nodes), func(i int) tensorMap { return b.tensorMap(b.matrix(nodes[i].In[1]), deep[i], k, 64) })
	b.tiled("k_dx", t, 1, t.tilesOf(rows, []int{k}, false), product{
		a: dy[0], b: w, more: [2]tensorMap{dy[1], dy[2]}, y: [device.MostParts]address{to.plain}, h: [device.MostParts]address{to.half},
		rows: nodes[0].In[0].Shape.Outer, n: [device.MostParts]int{k}, parts: 1, act: -1, deep: deep, chunks: 1,
	})
}

// matrix is w in bf16, in rows of a multiple of 8 values.
func (b *binder) matrix(w *graph.Value) address {
	switch {
	case b.Step.ReadAs(w) == half:
		return b.Form(w, half)
	case b.DType(w) == tensor.BF16:
		return b.Value(w)
	case !half.Holds(w.Shape.RowLen()):
		return b.rounded(w, in{at: b.Value(w)}).at
	}
	at := b.Workspace(2 * int64(w.Shape.Outer.Add) * int64(w.Shape.RowLen()))
	b.decode("k_decode_bf16", at, w)
	return at
}

// bindLinearDW is dw[n,k] = dy[T,n]^T x[T,k].
func bindLinearDW(b *binder, n *graph.Node) {
	dy, x := n.In[0], n.In[1]
	rows, k, deep := dy.Shape.RowLen(), x.Shape.RowLen(), b.Most(x)
	if !b.be.wgmma || b.be.inF32(k) {
		b.gemm(tensor.Fixed(rows), tensor.Fixed(k), dy.Shape.Outer, b.Value(n.Out[0]), b.Value(dy), 1, rows, b.Value(x), k, 1, 0)
		return
	}
	t, chunks := chooseChunks(rows, k, deep, b.be.drv.describe().Units)
	to := b.Value(n.Out[0])
	if chunks > 1 {
		to = b.Workspace(4 * int64(chunks) * int64(rows) * int64(k))
	}
	left, right := b.rounded(dy, b.reads(dy)), b.rounded(x, b.reads(x))
	b.tiled("k_dw", t, 1, chunks*t.tilesOf(rows, []int{k}, false), product{
		a: b.tensorMap(left.at, deep, rows, 64), b: [device.MostParts]tensorMap{b.tensorMap(right.at, deep, k, 64)}, y: [device.MostParts]address{to},
		rows: tensor.Fixed(rows), k: dy.Shape.Outer, n: [device.MostParts]int{k}, parts: 1, act: -1, chunks: chunks,
	})
	if chunks > 1 {
		b.launch("k_add_chunks", b.spread(rows*k/4), 256, b.Value(n.Out[0]), to, chunks, uint64(rows*k))
	}
}
