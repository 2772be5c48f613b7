package opencl

import (
	"fmt"
	"math"
	"math/big"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// ops binds each op. An op without a row is refused by name.
var ops = map[string]func(*binder, *graph.Node){
	"add":      elements("k_add"),
	"mul":      elements("k_mul"),
	"add_row":  elements("k_add_row"),
	"mul_rows": elements("k_mul_rows"),
	"gather":   elements("k_gather"),
	"scale":    elements("k_scale", func(n *graph.Node) any { return n.Attr.(graph.ScaleAttr).C }),
	"shift":    elements("k_shift", func(n *graph.Node) any { return n.Attr.(graph.ShiftAttr).C }),
	"fill":     elements("k_fill", func(n *graph.Node) any { return n.Attr.(graph.FillAttr).C }),
	"act":      elements("k_act", activation),
	"act_grad": elements("k_act_grad", activation),
	"glu":      elements("k_glu", activation),
	"glu_grad": func(b *binder, n *graph.Node) {
		b.each("k_glu_grad", n.In[0], b.Value(n.Out[0]), b.Value(n.Out[1]), b.Value(n.In[0]), b.Value(n.In[1]), b.Value(n.In[2]), activation(n))
	},
	"sgd": func(b *binder, n *graph.Node) {
		a := n.Attr.(graph.SGDAttr)
		b.each("k_sgd", n.In[0], append(b.values(n.In), a.Decay, a.Nesterov)...)
	},
	"adamw": func(b *binder, n *graph.Node) {
		b.each("k_adamw", n.In[0], append(b.values(n.In), n.Attr.(graph.AdamWAttr).Decay)...)
	},
	"embed": func(b *binder, n *graph.Node) {
		b.each("k_embed", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.DType(n.In[0]), b.Value(n.In[1]), n.Attr.(graph.EmbedAttr).Scale)
	},
	"embed_bag": func(b *binder, n *graph.Node) {
		y := n.Out[0]
		b.perRow("k_embed_bag", y, y.Shape.RowLen(), b.Value(y), b.Value(n.In[0]), b.DType(n.In[0]), b.Value(n.In[1]), b.Value(n.In[2]))
	},
	"embed_grad": func(b *binder, n *graph.Node) {
		a, dy := n.Attr.(graph.EmbedGradAttr), n.In[0]
		b.launch("k_embed_grad", [2]extent{groups(a.Rows), groups(1)}, 64, b.sizes, dy.Shape.Outer, dy.Shape.RowLen(), b.Value(n.Out[0]), b.Value(dy), b.Value(n.In[1]), a.Scale)
	},
	"scatter_rows": func(b *binder, n *graph.Node) {
		b.each("k_scatter_rows", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), n.In[0].Shape.Outer)
	},
	"positions": func(b *binder, n *graph.Node) {
		seqs := device.Sequences(n.In[1])
		b.launch("k_positions", [2]extent{{seqs, 1, 64, 0}, groups(1)}, 64, b.sizes, seqs, b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), int(n.Attr.(graph.PositionsAttr).Pad))
	},
	"rope":               bindRope,
	"norm":               bindNorm,
	"add+norm":           bindAddNorm,
	"linear":             bindProducts,
	"linear+act":         bindProducts,
	"linear+glu":         bindProducts,
	"linear+linear":      bindProducts,
	"norm_dx":            bindNormDX,
	"norm_dw":            bindNormDW,
	"col_sum":            bindColSum,
	"pool":               bindPool,
	"pool_grad":          bindPoolGrad,
	"l2norm":             rows("k_l2norm"),
	"l2norm_grad":        rows("k_l2norm_grad"),
	"cross_entropy":      bindCrossEntropy,
	"cross_entropy_grad": rows("k_cross_entropy_grad"),
	"mean": func(b *binder, n *graph.Node) {
		b.launch("k_mean", one, itemsOf, b.sizes, n.In[0].Shape.Outer, b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"mean_grad": func(b *binder, n *graph.Node) {
		b.launch("k_mean_grad", one, itemsOf, b.sizes, n.Out[0].Shape.Outer, b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"sum_squares":    bindSumSquares,
	"global_norm":    bindGlobalNorm,
	"linear_dx":      bindLinearDX,
	"linear_dw":      bindLinearDW,
	"grouped_linear": bindGrouped,
	"route":          bindRoute,
	"sample":         bindSample,
	"resume":         elements("k_resume"),
	"keep": func(b *binder, n *graph.Node) {
		b.each("k_keep", n.In[1], b.Value(n.In[0]), b.Value(n.In[1]))
	},
	"combine": func(b *binder, n *graph.Node) {
		b.each("k_combine", n.Out[0], append(b.values(append([]*graph.Value{n.Out[0]}, n.In...)), n.In[1].Shape.RowLen())...)
	},
	"attention":          bindAttention,
	"attention_rel":      bindAttention,
	"attention_kv":       bindAttentionKV,
	"attention_grad":     bindAttentionGrad,
	"attention_rel_grad": bindAttentionGrad,
	"kv_write": func(b *binder, n *graph.Node) {
		k := n.In[2]
		b.launch("k_kv_write", b.spread(k.Shape.Outer, 2*(k.Shape.RowLen()+31)/32), itemsOf, b.sizes, k.Shape.Outer, k.Shape.RowLen(), b.Value(n.In[0]), b.Value(n.In[1]), n.In[0].DType, b.Value(k), b.Value(n.In[3]), b.Value(n.In[4]))
	},
}

// Supports reports whether there are kernels for a node. Others run on the host,
// attention with dropout of its weights too.
func (*Backend) Supports(n *graph.Node) bool {
	head := 0
	switch a := n.Attr.(type) {
	case graph.AttentionAttr:
		head = a.HeadDim
	case graph.AttentionKVAttr:
		head = a.HeadDim
	case graph.ActAttr:
		if a.Kind > device.LastAct {
			return false
		}
	}
	return ops[n.Op.Name] != nil && head <= maxHead && !n.DropsWeights()
}

// one is a single group.
var one = [2]extent{groups(1), groups(1)}

func activation(n *graph.Node) any { return int(n.Attr.(graph.ActAttr).Kind) }

// values are where some values lie.
func (b *binder) values(of []*graph.Value) []any {
	var out []any
	for _, v := range of {
		out = append(out, b.Value(v))
	}
	return out
}

// elements binds an op whose kernel takes output, inputs and attributes, and
// computes each element.
func elements(kernel string, attrs ...func(*graph.Node) any) func(*binder, *graph.Node) {
	return func(b *binder, n *graph.Node) {
		arguments := b.values(append([]*graph.Value{n.Out[0]}, n.In...))
		for _, a := range attrs {
			arguments = append(arguments, a(n))
		}
		b.each(kernel, n.Out[0], arguments...)
	}
}

// rows binds an op whose kernel takes output and inputs, a group per row.
func rows(kernel string) func(*binder, *graph.Node) {
	return func(b *binder, n *graph.Node) {
		y := n.Out[0]
		b.perRow(kernel, y, y.Shape.RowLen(), b.values(append([]*graph.Value{y}, n.In...))...)
	}
}

func bindRope(b *binder, n *graph.Node) {
	a, x, y := n.Attr.(graph.RopeAttr), n.In[0], n.Out[0]
	b.launch("k_rope", b.spread(x.Shape.Outer, a.RotDim/2), itemsOf, b.sizes, x.Shape.Outer, x.Shape.RowLen(), b.Value(y), b.Value(x), b.Value(n.In[1]), b.Value(n.In[3]), b.turns(n), a)
}

// turns are the turns per position of each pair, for short texts and for long
// ones, as fractions of 64 bits.
func (b *binder) turns(rope *graph.Node) address {
	if b.At == 0 {
		return 0
	}
	var table []uint64
	for _, f := range b.Frequencies(rope) {
		table = append(table, turnsOf(f))
	}
	return b.Constant(device.Bytes(table))
}

// turnsOf is a frequency in radians as a fraction of a turn of 64 bits.
func turnsOf(radians float64) uint64 {
	turns := radians / (2 * math.Pi)
	turns -= math.Floor(turns)
	v, _ := new(big.Float).SetMantExp(big.NewFloat(turns), 64).Uint64()
	return v
}

// norm launches a norm of x, or of x + add, whose sum is written.
func (b *binder) norm(n *graph.Node, x, sum, add address) {
	a, width := n.Attr.(graph.NormAttr), n.In[1].Shape.Len(tensor.Bind{})
	b.perRow("k_norm", n.In[0], a.Size(width), b.Value(n.Out[0]), x, b.Value(n.In[1]), b.Value(n.In[2]), width, a.Size(width), a.Kind == graph.RMSNorm, a.Eps, a.Offset, sum, add)
}

func bindNorm(b *binder, n *graph.Node) { b.norm(n, b.Value(n.In[0]), 0, 0) }

func bindAddNorm(b *binder, norm *graph.Node) {
	add, x := norm.In[0].Node, norm.In[0]
	sum := b.Value(x)
	if sum == 0 { // nobody else reads it
		sum = b.Workspace(4 * int64(b.Most(x)) * int64(x.Shape.RowLen()))
	}
	b.norm(norm, b.Value(add.In[0]), sum, b.Value(add.In[1]))
}

func bindNormDX(b *binder, n *graph.Node) {
	a, x, width := n.Attr.(graph.NormAttr), n.In[1], n.In[2].Shape.Len(tensor.Bind{})
	b.perRow("k_norm_dx", x, a.Size(width), b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(x), b.Value(n.In[2]), width, a.Size(width), a.Kind == graph.RMSNorm, a.Eps, a.Offset)
}

func bindNormDW(b *binder, n *graph.Node) {
	a, x := n.Attr.(graph.NormDWAttr), n.In[1]
	size := a.Size(a.Width)
	stats := b.Workspace(8 * int64(b.Most(x)*x.Shape.RowLen()/size))
	b.perRow("k_norm_stats", x, size, stats, b.Value(x), size, a.Kind == graph.RMSNorm, a.Eps)
	b.launch("k_norm_dw", columns(a.Width), 64, b.sizes, x.Shape.Outer, x.Shape.RowLen(), b.Value(n.Out[0]), b.Value(n.Out[1]), b.Value(n.In[0]), b.Value(x), stats, a.Width, size)
}

// columns has a work item per column, in groups of 64.
func columns(n int) [2]extent { return [2]extent{{tensor.Fixed(n), 1, 64, 0}, groups(1)} }

func bindColSum(b *binder, n *graph.Node) {
	x := n.In[0]
	b.launch("k_col_sum", columns(x.Shape.RowLen()), 64, b.sizes, x.Shape.Outer, x.Shape.RowLen(), b.Value(n.Out[0]), b.Value(x))
}

func bindPool(b *binder, n *graph.Node) {
	kind, x, y := n.Attr.(graph.PoolAttr).Kind, n.In[0], n.Out[0]
	for i := range kind.Len() {
		b.launch("k_pool", [2]extent{{y.Shape.Outer, 1, 1, 0}, groups(1)}, 64, b.sizes, y.Shape.Outer, x.Shape.RowLen(), b.Value(y), b.Value(x), b.Value(n.In[1]), int(kind.At(i)), y.Shape.RowLen(), i*x.Shape.RowLen())
	}
}

func bindPoolGrad(b *binder, n *graph.Node) {
	dx, dy, kind := n.Out[0], n.In[0], n.Attr.(graph.PoolAttr).Kind
	for i := range kind.Len() {
		b.perRow("k_pool_grad", dx, dx.Shape.RowLen(), b.Value(dx), b.Value(dy), b.Value(n.In[1]), b.Value(n.In[2]), dy.Shape.Outer, int(kind.At(i)), dy.Shape.RowLen(), i*dx.Shape.RowLen(), i > 0)
	}
}

func bindCrossEntropy(b *binder, n *graph.Node) {
	x := n.In[0]
	b.perRow("k_cross_entropy", x, x.Shape.RowLen(), b.Value(n.Out[0]), b.Value(n.Out[1]), b.Value(x), b.Value(n.In[1]), b.Value(n.In[2]))
}

// sumOf is how many elements one group of k_sum_squares adds.
const sumOf = 65536

func bindSumSquares(b *binder, n *graph.Node) {
	x := n.In[0]
	parts := (b.Most(x)*x.Shape.RowLen() + sumOf - 1) / sumOf
	at := b.Workspace(4 * int64(parts))
	b.launch("k_sum_squares", [2]extent{groups(parts), groups(1)}, itemsOf, b.sizes, x.Shape.Outer, x.Shape.RowLen(), at, b.Value(x))
	b.launch("k_sum_parts", one, itemsOf, b.Value(n.Out[0]), at, parts, false)
}

func bindGlobalNorm(b *binder, n *graph.Node) {
	at := b.Workspace(4 * int64(len(n.In)))
	for i, v := range n.In {
		b.launch("k_put", one, 1, at, i, b.Value(v))
	}
	b.launch("k_sum_parts", one, itemsOf, b.Value(n.Out[0]), at, len(n.In), true)
}

func bindGrouped(b *binder, n *graph.Node) {
	x, w, y := n.In[0], n.In[1], n.Out[0]
	b.launch("k_grouped", [2]extent{groups(y.Shape.RowLen()), {x.Shape.Outer, 1, 1, 0}}, fewLanes, b.sizes, x.Shape.Outer, y.Shape.RowLen(), w.Shape.RowLen(), b.Value(y), b.Value(x), b.Value(w), b.DType(w), b.Value(n.In[2]), n.In[2].Shape.Outer.Add-1)
}

func bindRoute(b *binder, n *graph.Node) {
	a, x := n.Attr.(graph.RouteAttr), n.In[0]
	experts := x.Shape.RowLen()
	weights, slots, rows, offsets := b.Value(n.Out[0]), b.Value(n.Out[2]), b.Value(n.Out[1]), b.Value(n.Out[3])
	if weights == 0 { // what nobody reads is still computed with
		weights = b.Workspace(int64(4 * b.Most(x) * a.Used))
	}
	if slots == 0 || rows == 0 || offsets == 0 {
		b.Fail(fmt.Errorf("%w: %s: an expert's rows that nobody reads", ErrDevice, n.Name))
		return
	}
	b.launch("k_route", [2]extent{{x.Shape.Outer, 1, 64, 0}, groups(1)}, 64, b.sizes, x.Shape.Outer, experts, weights, slots, b.Value(x), a.Used, a.Normalize)
	b.launch("k_sort_choices", one, 1, b.sizes, x.Shape.Outer, experts, rows, slots, offsets, a.Used)
}
