package optest

import (
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// blocks are the first halves of decoder blocks, from the residual sum to
// attention over a cache: a backend may compute a single row of it in few steps.
func blocks() []Case {
	half := func(kv, d tensor.DType, a graph.AttentionAttr, build func(b *Bench, x *graph.Value) (h, sum *graph.Value), heads func(b *Bench, name string, x *graph.Value) *graph.Value) func(b *Bench) []*graph.Value {
		return func(b *Bench) []*graph.Value {
			c := b.cache(kv, a, 2) // so that one token's scores matter too
			h, sum := build(b, b.F32(dimT, 128))
			wide, narrow := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
			q := heads(b, "q", b.Linear("q_proj", h, b.Stored(d, wide, 128), nil))
			k := heads(b, "k", b.Linear("k_proj", h, b.Stored(d, narrow, 128), b.F32(tensor.Fixed(narrow))))
			values := tensor.Q8_0
			if d == tensor.BF16 { // all of a type: a backend may compute them in one step
				values = d
			}
			v := b.Linear("v_proj", h, b.Stored(values, narrow, 128), nil)
			ks, vs := b.KVWrite("write", c.k, c.v, k, v, c.slots)
			y := b.AttentionKV("y", q, ks, vs, c.starts, c.lens, c.table, graph.AttentionKVAttr{AttentionAttr: a})
			return []*graph.Value{y, q, b.Scale("again", sum, 0.5)}
		}
	}
	// Small weights keep scores small, so that rounded products stay close.
	small := func(b *Bench, n int) *graph.Value { return b.Scaled(b.F32(tensor.Fixed(n)), 0.02) }
	summed := func(b *Bench, x *graph.Value) (h, sum *graph.Value) {
		sum = b.Add("sum", x, b.F32(dimT, 128))
		return b.RMSNorm("h", sum, small(b, 128), 1e-5, 0), sum
	}
	twice := func(b *Bench, x *graph.Value) (h, sum *graph.Value) {
		sum = b.Add("sum", x, rmsNorm(b, "post", b.F32(dimT, 128)))
		return b.LayerNorm("h", sum, small(b, 128), small(b, 128), 1e-5), sum
	}
	turned := func(rope graph.RopeAttr) func(b *Bench, name string, x *graph.Value) *graph.Value {
		return func(b *Bench, name string, x *graph.Value) *graph.Value {
			return b.Rope(name+"_rope", x, b.positions(), nil, rope)
		}
	}
	normed := func(rope graph.RopeAttr, width func(row int) int) func(b *Bench, name string, x *graph.Value) *graph.Value {
		return func(b *Bench, name string, x *graph.Value) *graph.Value {
			w := b.F32(tensor.Fixed(width(x.Shape.RowLen())))
			n := b.Apply(graph.OpNorm, name+"_norm", graph.NormAttr{Kind: graph.RMSNorm, Eps: 1e-5, Chunk: min(rope.HeadDim, w.Shape.Outer.Add)}, x, w, nil).Out[0]
			return b.Rope(name+"_rope", n, b.positions(), nil, rope)
		}
	}
	normedLast := func(b *Bench, name string, x *graph.Value) *graph.Value {
		r := b.Rope(name+"_rope", x, b.positions(), nil, graph.RopeAttr{HeadDim: 24, RotDim: 24, Base: 1e4, Scale: 1})
		return b.RMSNorm(name+"_norm", r, b.F32(tensor.Fixed(24)), 1e-5, 0)
	}
	plain := func(_ *Bench, _ string, x *graph.Value) *graph.Value { return x }
	group := graph.AttentionAttr{Heads: 6, KVHeads: 2, HeadDim: 32, Causal: true}
	wide := graph.AttentionAttr{Heads: 3, KVHeads: 1, HeadDim: 64, Causal: true}
	odd := graph.AttentionAttr{Heads: 3, KVHeads: 3, HeadDim: 24, Causal: true}
	rope := graph.RopeAttr{HeadDim: 32, RotDim: 32, Base: 1e4, Scale: 1, Interleaved: true}
	oddRope := graph.RopeAttr{HeadDim: 24, RotDim: 16, Base: 1e4, Scale: 1}
	wideRope := graph.RopeAttr{HeadDim: 64, RotDim: 64, Base: 1e4, Scale: 1}
	return []Case{
		{Name: "block f16 of bf16, heads of 64", NoGrad: true, Tol: 1e-3, Build: half(tensor.F16, tensor.BF16, wide, summed, turned(wideRope))},
		{Name: "block f16 of bf16", NoGrad: true, Tol: 1e-3, Build: half(tensor.F16, tensor.BF16, group, summed, turned(rope))},
		{Name: "block f32 of bf16, odd heads", NoGrad: true, Tol: 1e-3, Build: half(tensor.F32, tensor.BF16, odd, summed, turned(oddRope))},
		{Name: "block f16, heads of 64", NoGrad: true, Tol: 1e-3, Build: half(tensor.F16, tensor.Q8_0, wide, summed, turned(wideRope))},
		{Name: "block f16", NoGrad: true, Tol: 1e-3, Build: half(tensor.F16, tensor.Q4_1, group, summed, turned(rope))},
		{Name: "block q8_0", NoGrad: true, Tol: 1e-2, Build: half(tensor.Q8_0, tensor.Q4_0, group, twice, turned(rope))},
		{Name: "block f32, odd heads", NoGrad: true, Tol: 1e-4, Build: half(tensor.F32, tensor.F32, odd, summed, turned(oddRope))},
		{Name: "block, norm of each head", NoGrad: true, Tol: 1e-3, Build: half(tensor.F32, tensor.Q8_0, odd, summed, normed(oddRope, func(int) int { return 24 }))},
		{Name: "block, a norm for each head", NoGrad: true, Tol: 1e-3, Build: half(tensor.F16, tensor.Q8_0, group, summed, normed(rope, func(row int) int { return row }))},
		{Name: "block, norm of each head after the rope", NoGrad: true, Tol: 1e-3, Build: half(tensor.F32, tensor.Q8_0, odd, summed, normedLast)},
		{Name: "block without rope", NoGrad: true, Tol: 1e-3, Build: half(tensor.F16, tensor.Q4_1, group, twice, plain)},
	}
}
