package optest

import (
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// layers are attention blocks of decoders with all that lies between two residual sums,
// and what reads the second one.
func layers() []Case {
	type how struct {
		kv, d, out tensor.DType // of the cache, the weights, and those of the output
		a          graph.AttentionAttr
		rope       graph.RopeAttr // HeadDim 0: none
		bias       bool
		layer      bool // norms, not RMS
		swapped    bool // the output is the first operand of the sum
		zeros      int  // keys before the first token
	}
	const dim = 96
	layer := func(c how) func(b *Bench) []*graph.Value {
		return func(b *Bench) []*graph.Value {
			kv := b.cache(c.kv, c.a, c.zeros)
			small := func() *graph.Value { return b.Scaled(b.F32(tensor.Fixed(dim)), 0.02) }
			norm := func(name string, x *graph.Value) *graph.Value {
				if c.layer {
					return b.LayerNorm(name, x, small(), small(), 1e-5)
				}
				return b.RMSNorm(name, x, small(), 1e-5, 0)
			}
			linear := func(name string, d tensor.DType, x *graph.Value, cols int) *graph.Value {
				var bias *graph.Value
				if c.bias {
					bias = b.F32(tensor.Fixed(cols))
				}
				return b.Linear(name, x, b.Stored(d, cols, x.Shape.RowLen()), bias)
			}
			turned := func(name string, x *graph.Value) *graph.Value {
				if c.rope.HeadDim == 0 {
					return x
				}
				return b.Rope(name, x, b.positions(), nil, c.rope)
			}
			wide, narrow := c.a.Heads*c.a.HeadDim, c.a.KVHeads*c.a.HeadDim
			sum := b.Add("sum", b.F32(dimT, dim), b.F32(dimT, dim))
			h := norm("h", sum)
			q := turned("q_rope", linear("q_proj", c.d, h, wide))
			k := turned("k_rope", linear("k_proj", c.d, h, narrow))
			v := linear("v_proj", c.d, h, narrow)
			ks, vs := b.KVWrite("write", kv.k, kv.v, k, v, kv.slots)
			y := linear("o_proj", c.out, b.AttentionKV("y", q, ks, vs, kv.starts, kv.lens, kv.table, graph.AttentionKVAttr{AttentionAttr: c.a}), dim)
			left, right := sum, y
			if c.swapped {
				left, right = y, sum
			}
			second := b.Add("second", left, right)
			next := norm("next", second)
			glu := b.GLU("glu", linear("gate", c.d, next, 64), linear("up", c.d, next, 64), graph.SiLU)
			cached := b.AttentionKV("cached", b.F32(dimT, wide), ks, vs, kv.starts, kv.lens, kv.table, graph.AttentionKVAttr{AttentionAttr: c.a})
			return []*graph.Value{glu, b.Scale("again", second, 0.5), cached}
		}
	}
	group := graph.AttentionAttr{Heads: 6, KVHeads: 2, HeadDim: 32, Causal: true}
	wide := graph.AttentionAttr{Heads: 3, KVHeads: 1, HeadDim: 64, Causal: true, Window: 70}
	odd := graph.AttentionAttr{Heads: 3, KVHeads: 3, HeadDim: 24, Causal: true}
	large := graph.AttentionAttr{Heads: 2, KVHeads: 1, HeadDim: 128, Causal: true}
	return []Case{
		{Name: "layer f16", NoGrad: true, Tol: 1e-3, Build: layer(how{kv: tensor.F16, d: tensor.Q4_1, out: tensor.Q4_1, a: group, rope: graph.RopeAttr{HeadDim: 32, RotDim: 32, Base: 1e4, Scale: 1}, zeros: 300})},
		{Name: "layer f16, heads of 64", NoGrad: true, Tol: 1e-3, Build: layer(how{kv: tensor.F16, d: tensor.Q4_1, out: tensor.Q8_0, a: wide, rope: graph.RopeAttr{HeadDim: 64, RotDim: 64, Base: 1e4, Scale: 1, Interleaved: true}, bias: true, zeros: 90})},
		{Name: "layer f32, odd heads", NoGrad: true, Tol: 1e-4, Build: layer(how{kv: tensor.F32, d: tensor.F32, out: tensor.F32, a: odd, rope: graph.RopeAttr{HeadDim: 24, RotDim: 16, Base: 1e4, Scale: 1}, layer: true, bias: true, swapped: true, zeros: 5})},
		{Name: "layer without rope", NoGrad: true, Tol: 1e-4, Build: layer(how{kv: tensor.F32, d: tensor.F32, out: tensor.F32, a: large, zeros: 5})},
	}
}
