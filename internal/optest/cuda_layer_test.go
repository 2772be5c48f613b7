//go:build !nogpu

package optest

import (
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// TestCUDALayer holds few rows of a layer of Llama 1B's width to the CPU's in f32: its
// norms are parts of the products around them, those of the layer behind it too. Its
// activations are rounded to bf16 before each product, which the next norm does not average.
func TestCUDALayer(t *testing.T) {
	const dim, ffn, tol = 2048, 4096, 2e-2
	card, host := cardAndHost(t)
	a := graph.AttentionAttr{Heads: 32, KVHeads: 8, HeadDim: 64, Causal: true}
	rope := graph.RopeAttr{HeadDim: 64, RotDim: 64, Base: 1e4, Scale: 1}
	layer := Case{Name: "layer and what reads it", Build: func(b *Bench) []*graph.Value {
		c := b.cache(tensor.F16, a, 70)
		linear := func(name string, x *graph.Value, cols int) *graph.Value {
			return b.Linear(name, x, b.Stored(tensor.BF16, cols, x.Shape.RowLen()), nil)
		}
		norm := func(name string, x *graph.Value, offset float32) *graph.Value {
			return b.RMSNorm(name, x, b.Scaled(b.F32(tensor.Fixed(dim)), 0.02), 1e-5, offset)
		}
		attend := func(name string, h *graph.Value) *graph.Value {
			k0, v0 := b.State(name+"_ks", graph.RoleKV, tensor.F16, c.k.Shape), b.State(name+"_vs", graph.RoleKV, tensor.F16, c.k.Shape)
			q := b.Rope(name+"_q", linear(name+"_q_proj", h, a.Heads*a.HeadDim), b.positions(), nil, rope)
			k := b.Rope(name+"_k", linear(name+"_k_proj", h, a.KVHeads*a.HeadDim), b.positions(), nil, rope)
			ks, vs := b.KVWrite(name+"_write", k0, v0, k, linear(name+"_v_proj", h, a.KVHeads*a.HeadDim), c.slots)
			return b.AttentionKV(name, q, ks, vs, c.starts, c.lens, c.table, graph.AttentionKVAttr{AttentionAttr: a})
		}
		x := b.F32(dimT, dim)
		x = b.Add("sum", x, linear("o_proj", attend("first", norm("norm", x, 0)), dim))
		h := norm("second_norm", x, 1)
		up := b.GLU("glu", linear("gate", h, ffn), linear("up", h, ffn), graph.SiLU)
		x = b.Add("second_sum", linear("down_proj", up, dim), x)
		return []*graph.Value{x, attend("next", norm("next_norm", x, 0))}
	}}
	for _, rows := range []int{2, 5, 8, 12} {
		want, got := run(t, host, layer, rows), run(t, card, layer, rows)
		for i := range want {
			if err := Compare(got[i], want[i], tol); err != nil {
				t.Errorf("%d rows, output %d: %v", rows, i, err)
			}
		}
	}
}
