package cuda

import (
	"fmt"
	"slices"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// ops binds each op. An op without a row is refused by name.
var ops = map[string]func(*binder, *graph.Node){
	"add": func(b *binder, n *graph.Node) {
		b.each("k_add", n.Out[0], b.writes(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"mul": func(b *binder, n *graph.Node) {
		b.each("k_mul", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"add_row": func(b *binder, n *graph.Node) {
		b.each("k_add_row", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"mul_rows": func(b *binder, n *graph.Node) {
		b.each("k_mul_rows", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"gather": func(b *binder, n *graph.Node) {
		b.each("k_gather", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"scale": func(b *binder, n *graph.Node) {
		b.each("k_scale", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), n.Attr.(graph.ScaleAttr).C)
	},
	"shift": func(b *binder, n *graph.Node) {
		b.each("k_shift", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), n.Attr.(graph.ShiftAttr).C)
	},
	"sgd": func(b *binder, n *graph.Node) {
		a := n.Attr.(graph.SGDAttr)
		b.each("k_sgd", n.In[0], b.Value(n.In[0]), b.Form(n.In[0], half), b.Value(n.In[1]), b.Value(n.In[2]), b.Value(n.In[3]), b.Value(n.In[4]), a.Decay, a.Nesterov)
	},
	"accumulate": func(b *binder, n *graph.Node) {
		b.each("k_accumulate", n.In[0], b.Value(n.In[0]), b.Value(n.In[1]), b.Value(n.In[2]))
	},
	"dropout": func(b *binder, n *graph.Node) {
		b.each("k_dropout", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), int(n.Attr.(graph.DropoutAttr).Salt))
	},
	"fill": func(b *binder, n *graph.Node) {
		b.each("k_fill", n.Out[0], b.Value(n.Out[0]), n.Attr.(graph.FillAttr).C)
	},
	"act": func(b *binder, n *graph.Node) {
		b.each("k_act", n.Out[0], b.writes(n.Out[0]), b.reads(n.In[0]), int(n.Attr.(graph.ActAttr).Kind))
	},
	"act_grad": func(b *binder, n *graph.Node) {
		b.each("k_act_grad", n.Out[0], b.writes(n.Out[0]), b.reads(n.In[0]), b.reads(n.In[1]), int(n.Attr.(graph.ActAttr).Kind))
	},
	"glu": func(b *binder, n *graph.Node) {
		b.each("k_glu", n.Out[0], b.writes(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), int(n.Attr.(graph.ActAttr).Kind))
	},
	"glu_grad": func(b *binder, n *graph.Node) {
		b.each("k_glu_grad", n.In[0], b.Value(n.Out[0]), b.Value(n.Out[1]), b.Value(n.In[0]), b.Value(n.In[1]), b.Value(n.In[2]), int(n.Attr.(graph.ActAttr).Kind))
	},
	"embed": func(b *binder, n *graph.Node) {
		b.each("k_embed", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.DType(n.In[0]), b.Value(n.In[1]), n.Attr.(graph.EmbedAttr).Scale)
	},
	"embed_bag": func(b *binder, n *graph.Node) {
		y := n.Out[0]
		b.launch("k_embed_bag", [3]int{b.Most(y), 1, 1}, 256, b.sizes, y.Shape.Outer, y.Shape.RowLen(), b.Value(y), b.Value(n.In[0]), b.DType(n.In[0]), b.Value(n.In[1]), b.Value(n.In[2]))
	},
	"positions": func(b *binder, n *graph.Node) {
		seqs := device.Sequences(n.In[1])
		b.launch("k_positions", [3]int{(seqs.Size(b.Plan.Max) + 63) / 64, 1, 1}, 64, b.sizes, seqs, b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), int(n.Attr.(graph.PositionsAttr).Pad))
	},
	"rope":               bindRope,
	"norm":               bindNorm,
	"add+norm":           bindAddNorm,
	normAddNorm:          bindNormAddNorm,
	"norm_dx":            bindNormDX,
	normDXAdd:            bindNormDX,
	"norm_dw":            bindNormDW,
	"col_sum":            bindColSum,
	"pool":               bindPool,
	"pool_grad":          bindPoolGrad,
	"l2norm":             bindL2Norm,
	"l2norm_grad":        bindL2NormGrad,
	"cross_entropy":      bindCrossEntropy,
	"cross_entropy_grad": bindCrossEntropyGrad,
	"mean":               bindMean,
	"mean_grad":          bindMeanGrad,
	"sum_squares":        bindSumSquares,
	"global_norm":        bindGlobalNorm,
	"adamw":              bindAdamW,
	"linear":             bindProducts,
	"linear+act":         bindProducts,
	"linear+glu":         bindProducts,
	"linear+linear":      bindProducts,
	"rope+kv_write":      bindRopeKV,
	"linear_dx":          bindLinearDX,
	sumOfDX:              bindLinearDX,
	"linear_dw":          bindLinearDW,
	"grouped_linear":     bindGrouped,
	"route":              bindRoute,
	"combine": func(b *binder, n *graph.Node) {
		b.each("k_combine", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), b.Value(n.In[2]), n.In[1].Shape.RowLen())
	},
	"attention":          bindAttention,
	"attention_rel":      bindAttention,
	headsAttention:       bindHeadsAttention,
	"attention_kv":       bindAttentionKV,
	"attention_grad":     bindAttentionGrad,
	"attention_rel_grad": bindAttentionGrad,
	"sample":             bindSample,
	"resume": func(b *binder, n *graph.Node) {
		b.each("k_resume", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"keep": func(b *binder, n *graph.Node) {
		b.each("k_keep", n.In[1], b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"embed_grad":     bindEmbedGrad,
	"embed_bag_grad": bindEmbedBagGrad,
	"scatter_rows":   bindScatterRows,
	"columns":        bindColumns,
	"columns_grad":   bindColumns,
	"row_dot":        bindRowDot,
	"row_dot_grad": func(b *binder, n *graph.Node) {
		b.each("k_mul_rows", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"buckets":           bindBuckets,
	"buckets_grad":      bindBucketsGrad,
	"sequence_sum":      bindSequenceSum,
	"sequence_sum_grad": bindSequenceSumGrad,
	"preference":        bindPreference,
	"preference_grad":   bindPreferenceGrad,
	"distill":           bindDistill,
	"distill_grad":      bindDistillGrad,
	"infonce":           bindInfoNCE,
	"infonce_grad":      bindInfoNCEGrad,
	"kv_write": func(b *binder, n *graph.Node) {
		k := n.In[2]
		b.warps("k_kv_write", b.Most(k)*((k.Shape.RowLen()+31)/32), k.Shape.Outer, k.Shape.RowLen(), b.Value(n.In[0]), b.Value(n.In[1]), n.In[0].DType, b.Value(k), b.Value(n.In[3]), b.Value(n.In[4]))
	},
}

func bindRope(b *binder, n *graph.Node) {
	x, a := n.In[0], n.Attr.(graph.RopeAttr)
	grid := b.spread(b.Most(x) * a.RotDim / 2)
	grid[1] = min(x.Shape.RowLen()/a.HeadDim, max(1, 2048/grid[0]))
	b.launch("k_rope", grid, 256, b.sizes, x.Shape.Outer, x.Shape.RowLen(), b.writes(n.Out[0]), b.Value(x), b.turnOf(n))
}

// bindRopeKV rotates keys on their way into the cache.
func bindRopeKV(b *binder, n *graph.Node) {
	rope := n.In[2].Node
	k := rope.In[0]
	b.launch("k_rope_kv", b.spread(b.Most(k)*k.Shape.RowLen()/2), 256, b.sizes, k.Shape.Outer, k.Shape.RowLen(), b.Value(n.In[0]), b.Value(n.In[1]), n.In[0].DType,
		b.Value(k), b.Value(n.In[3]), b.Value(n.In[4]), b.turnOf(rope))
}

// turnOf is the rotation of a node; nil rotates nothing.
func (b *binder) turnOf(n *graph.Node) turn {
	if n == nil {
		return turn{}
	}
	a := n.Attr.(graph.RopeAttr)
	return turn{b.workspaceFreqs(n, a), b.Value(n.In[1]), b.Value(n.In[3]), a}
}

// workspaceFreqs are the radians per position of each pair, for short texts and
// for long ones. Divisors that a file has are read on the host.
func (b *binder) workspaceFreqs(n *graph.Node, a graph.RopeAttr) address {
	half := a.RotDim / 2
	var factors []float32
	if f := n.In[2]; f != nil {
		factors = b.ReadF32(f)
	}
	plain := a
	plain.Stretch = 0
	table := make([]float64, 2*half)
	for i := range half {
		table[i] = plain.Frequency(i, factors, 0)
		table[half+i] = plain.Frequency(i, factors, a.Context+1)
	}
	return b.constants(table)
}

// patterns are the fusions, larger ones first.
var patterns = slices.Insert(slices.Clone(device.Patterns), 2, append(headPatterns,
	plan.Pattern{Kind: "rope+kv_write", Root: graph.OpKVWrite, Inputs: []*plan.Pattern{nil, nil, {Root: graph.OpRope}},
		Match: func(nodes []*graph.Node) bool { return device.ByHeads(nodes, nil) }},
	plan.Pattern{Kind: normAddNorm, Root: graph.OpNorm, Inputs: []*plan.Pattern{{Root: graph.OpAdd, Keep: true, Inputs: []*plan.Pattern{nil, {Root: graph.OpNorm}}}}, Match: heldRows})...)

// normAddNorm is the norm of a sum of x and a norm: both norms of whole rows, which
// kernels hold in registers.
const normAddNorm = "norm+add+norm"

func heldRows(nodes []*graph.Node) bool {
	for _, n := range nodes {
		if n.Op != graph.OpNorm {
			continue
		}
		a, width := n.Attr.(graph.NormAttr), n.In[1].Shape.Len(tensor.Bind{})
		if width != n.In[0].Shape.RowLen() || a.Size(width) != width || width%4 != 0 || width > mostOfABlock {
			return false
		}
	}
	return true
}

// Longest chunks that a warp, a block with 4 values per thread and a block of 256 threads
// hold in registers.
const (
	mostOfAWarp  = 32 * 32
	mostOfARow   = 4 * 512
	mostOfABlock = 32 * 256
)

func bindNorm(b *binder, n *graph.Node) { b.norm(n, b.reads(n.In[0]), in{}, 0, nil) }

func bindAddNorm(b *binder, n *graph.Node) {
	add := n.In[0].Node
	b.norm(n, b.reads(add.In[0]), b.reads(add.In[1]), b.Value(n.In[0]), nil)
}

func bindNormAddNorm(b *binder, n *graph.Node) {
	add := n.In[0].Node
	first := add.In[1].Node
	b.norm(n, b.reads(first.In[0]), b.reads(add.In[0]), b.Value(n.In[0]), first)
}

// norm is the norm n of x, or of x + add, which is written to sum unless that is 0.
// before is a norm of x itself, or nil; only rows that kernels hold have one.
func (b *binder) norm(n *graph.Node, x, add in, sum address, before *graph.Node) {
	a, v := n.Attr.(graph.NormAttr), n.In[0]
	width := n.In[1].Shape.Len(tensor.Bind{})
	size := a.Size(width)
	chunks := b.Most(v) * v.Shape.RowLen() / size
	kernel, grid, block := "k_norm", b.spread(32*chunks), 256
	switch {
	case size%4 != 0 || size > mostOfABlock || width%4 != 0:
	case size <= mostOfAWarp && (chunks > 1024 || b.Plan.Invariant) || size <= 256:
		kernel, grid, block = "k_norm_warp", [3]int{(chunks + 3) / 4, 1, 1}, 128
		if size > mostOfAWarp/2 {
			kernel = "k_norm_warp_long"
		}
	case size <= mostOfARow && chunks <= b.be.drv.describe().Units && !b.Plan.Invariant:
		kernel, grid, block = "k_norm_row", [3]int{chunks, 1, 1}, (size/4+31)/32*32
	default:
		kernel, grid = "k_norm_block", [3]int{chunks, 1, 1}
	}
	operands := []any{b.sizes, v.Shape.Outer, v.Shape.RowLen(), b.writes(n.Out[0]), x, add, sum, b.Value(n.In[1]), b.Value(n.In[2]),
		width, size, a.Kind == graph.RMSNorm, a.Eps, a.Offset}
	if kernel == "k_norm_row" {
		operands = append(operands, normGiven(n) && (before == nil || normGiven(before)))
	}
	if kernel != "k_norm" {
		operands = append(operands, b.normOf(before))
	}
	b.launch(kernel, grid, block, operands...)
}

// given reports whether a value is there before a run's kernels: no step writes it. A
// value that is not there at all is given.
func given(v *graph.Value) bool {
	return v == nil || v.Node.Leaf != nil && v.Node.Leaf.Kind != graph.StateLeaf
}

// normGiven reports whether no step writes the weight and the bias of a norm.
func normGiven(n *graph.Node) bool { return given(n.In[1]) && given(n.In[2]) }

func bindPool(b *binder, n *graph.Node) {
	kind, x, y := n.Attr.(graph.PoolAttr).Kind, n.In[0], n.Out[0]
	for i := range kind.Len() {
		b.launch("k_pool", [3]int{b.Most(y), 1, 1}, min(1024, (x.Shape.RowLen()+31)/32*32), b.sizes, y.Shape.Outer, x.Shape.RowLen(), b.Value(y), b.Value(x), b.Value(n.In[1]), int(kind.At(i)), y.Shape.RowLen(), i*x.Shape.RowLen())
	}
}

func bindL2Norm(b *binder, n *graph.Node) {
	x := n.In[0]
	b.warps("k_l2norm", b.Most(x), x.Shape.Outer, x.Shape.RowLen(), b.Value(n.Out[0]), b.Value(x))
}

func bindL2NormGrad(b *binder, n *graph.Node) {
	x := n.In[1]
	b.warps("k_l2norm_grad", b.Most(x), x.Shape.Outer, x.Shape.RowLen(), b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(x))
}

func bindMean(b *binder, n *graph.Node) {
	b.launch("k_mean", [3]int{1, 1, 1}, 256, b.sizes, n.In[0].Shape.Outer, b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
}

func bindMeanGrad(b *binder, n *graph.Node) {
	b.launch("k_mean_grad", [3]int{1, 1, 1}, 256, b.sizes, n.Out[0].Shape.Outer, b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
}

// sumBlock is how many elements one block of k_sum_squares adds.
const sumBlock = 8192

func bindSumSquares(b *binder, n *graph.Node) {
	x := n.In[0]
	parts, at := (b.Most(x)*x.Shape.RowLen()+sumBlock-1)/sumBlock, b.Value(n.Out[0])
	if parts > 1 {
		at = b.Workspace(4 * int64(parts))
	}
	b.launch("k_sum_squares", [3]int{parts, 1, 1}, 256, b.sizes, x.Shape.Outer, x.Shape.RowLen(), at, b.Value(x))
	if parts == 1 {
		return
	}
	b.launch("k_sum_parts", [3]int{1, 1, 1}, 256, b.Value(n.Out[0]), at, parts)
}

func bindGlobalNorm(b *binder, n *graph.Node) {
	at := make([]uint64, len(n.In))
	for i, v := range n.In {
		at[i] = uint64(b.Value(v))
	}
	b.launch("k_global_norm", [3]int{1, 1, 1}, 256, b.Value(n.Out[0]), b.addresses(at), len(n.In))
}

func bindAdamW(b *binder, n *graph.Node) {
	b.each("k_adamw", n.In[0], b.Value(n.In[0]), b.Form(n.In[0], half), b.Value(n.In[1]), b.Value(n.In[2]), b.Value(n.In[3]), b.Value(n.In[4]), b.Value(n.In[5]), n.Attr.(graph.AdamWAttr).Decay)
}

// gemm is c[m,n] = a(m,k) b(k,n) in f32, with strides.
func (b *binder) gemm(m, n, k tensor.Dim, c, x address, sam, sak int, w address, sbk, sbn int, bias address) {
	b.launch("k_gemm_f32", [3]int{(n.Size(b.Plan.Max) + 63) / 64, (m.Size(b.Plan.Max) + 63) / 64, 1}, 256,
		b.sizes, m, n, k, c, x, uint64(sam), uint64(sak), w, uint64(sbk), uint64(sbn), bias)
}

func bindGrouped(b *binder, n *graph.Node) {
	x, w, y := n.In[0], n.In[1], n.Out[0]
	b.warps("k_grouped", b.Most(x)*y.Shape.RowLen(), x.Shape.Outer, y.Shape.RowLen(), w.Shape.RowLen(), b.Value(y), b.Value(x), b.Value(w), b.DType(w), b.Value(n.In[2]), n.In[2].Shape.Outer.Add-1)
}

func bindRoute(b *binder, n *graph.Node) {
	a, x := n.Attr.(graph.RouteAttr), n.In[0]
	experts := x.Shape.RowLen()
	weights, slots, rows, offsets := b.Value(n.Out[0]), b.Value(n.Out[2]), b.Value(n.Out[1]), b.Value(n.Out[3])
	most := b.Most(x)
	// What nobody reads is still computed with.
	if weights == 0 {
		weights = b.Workspace(int64(4 * most * a.Used))
	}
	if slots == 0 || rows == 0 || offsets == 0 {
		b.Fail(fmt.Errorf("%w: %s: an expert's rows that nobody reads", ErrDevice, n.Name))
		return
	}
	b.launch("k_route", [3]int{(most + 63) / 64, 1, 1}, 64, b.sizes, x.Shape.Outer, experts, weights, slots, b.Value(x), a.Used, a.Normalize)
	b.launch("k_sort_choices", [3]int{1, 1, 1}, 1, b.sizes, x.Shape.Outer, experts, rows, slots, offsets, a.Used)
}
