package optest

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// largeHeads are attention whose log-sum-exp nobody reads, most of it with heads of
// more than 128 values, and queries and keys that are normed and rotated right before.
func largeHeads() []Case {
	var cs []Case
	for _, a := range []graph.AttentionAttr{
		{Heads: 3, KVHeads: 1, HeadDim: 256},
		{Heads: 3, KVHeads: 1, HeadDim: 256, Window: 9},
		{Heads: 4, KVHeads: 2, HeadDim: 192, Causal: true, SoftCap: 1.5},
		{Heads: 2, KVHeads: 2, HeadDim: 250, Causal: true, Window: 40},
		{Heads: 5, KVHeads: 1, HeadDim: 136, Causal: true, Alibi: true},
		{Heads: 3, KVHeads: 1, HeadDim: 50}, // rows at no multiple of 16 bytes
	} {
		cs = append(cs, Case{Name: fmt.Sprintf("attention alone %+v", a), NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			return one(attended(a)(b, tensor.F32))
		}})
	}
	a := graph.AttentionAttr{Heads: 3, KVHeads: 1, HeadDim: 256, Causal: true}
	for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.Q8_0} {
		cs = append(cs, Case{Name: "kv, heads of 256, " + d.String(), NoGrad: true, Tol: 2e-5, Build: kvOf(d, a)})
	}
	for _, c := range []struct {
		name         string
		head, rot    int
		norm, layer  bool
		pairs, apart bool // neighbours rotate together, keys have frequencies of their own
	}{
		{name: "norm and rope of 256", head: 256, rot: 256, norm: true},
		{name: "norm and rope of 128", head: 128, rot: 128, norm: true},
		{name: "layer norm and rope of 64", head: 64, rot: 64, norm: true, layer: true},
		{name: "rope of 64", head: 64, rot: 64},
		{name: "norm and rope of 24", head: 24, rot: 24, norm: true},
		{name: "norm and rope of a part", head: 64, rot: 32, norm: true},
		{name: "rope of pairs", head: 64, rot: 64, pairs: true},
		{name: "norm and two ropes", head: 64, rot: 64, norm: true, apart: true},
	} {
		cs = append(cs, Case{Name: c.name + " then attention", NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			pos := b.I32(dimT, 0, func(i int) int32 { return int32(i * 5003 % 9000) })
			turned := func(name string, heads int, base float64) *graph.Value {
				x := b.F32(dimT, heads*c.head)
				if c.layer {
					x = b.LayerNorm(name+"_norm", x, b.F32(tensor.Fixed(c.head)), b.F32(tensor.Fixed(c.head)), 1e-5)
				} else if c.norm {
					x = b.RMSNorm(name+"_norm", x, b.F32(tensor.Fixed(c.head)), 1e-5, 0)
				}
				return b.Rope(name, x, pos, nil, graph.RopeAttr{HeadDim: c.head, RotDim: c.rot, Base: base, Interleaved: c.pairs})
			}
			base := 1e4
			if c.apart {
				base = 500
			}
			q, k := turned("q", 3, 1e4), turned("k", 1, base)
			out, _ := b.Attention("y", q, k, b.F32(dimT, c.head), b.Starts(), graph.AttentionAttr{Heads: 3, KVHeads: 1, HeadDim: c.head, Window: 30})
			return one(out)
		}})
	}
	return cs
}
