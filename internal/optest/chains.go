package optest

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// maker is how a value [T,64] comes about.
type maker struct {
	name  string
	build func(b *Bench, d tensor.DType) *graph.Value
}

// norms are those that a block of a model begins with.
var norms = []maker{
	{"norm", func(b *Bench, _ tensor.DType) *graph.Value { return rmsNorm(b, "h", b.F32(dimT, 64)) }},
	{"norm of heads", func(b *Bench, _ tensor.DType) *graph.Value {
		return b.RMSNorm("h", b.F32(dimT, 64), b.F32(tensor.Fixed(16)), 1e-5, 0)
	}},
	{"norm of a sum", func(b *Bench, d tensor.DType) *graph.Value {
		return b.LayerNorm("h", b.Add("sum", b.F32(dimT, 64), b.F32(dimT, 64)), b.F32(tensor.Fixed(64)), b.F32(tensor.Fixed(64)), 1e-5)
	}},
	{"norm of a sum with a norm", func(b *Bench, _ tensor.DType) *graph.Value {
		return rmsNorm(b, "h", b.Add("sum", b.F32(dimT, 64), rmsNorm(b, "post", b.F32(dimT, 64))))
	}},
	{"norm in place", func(b *Bench, _ tensor.DType) *graph.Value {
		return rmsNorm(b, "h", b.Scale("half", b.F32(dimT, 64), 0.5))
	}},
}

func rmsNorm(b *Bench, name string, x *graph.Value) *graph.Value {
	return b.RMSNorm(name, x, b.F32(tensor.Fixed(x.Shape.RowLen())), 1e-5, 0)
}

// chains are steps whose results only a product reads, all of sizes that a
// backend may keep rounded between the two: both ends must agree on it.
func chains() []Case {
	makers := []maker{
		{"linear", func(b *Bench, d tensor.DType) *graph.Value {
			return b.Linear("h", b.F32(dimT, 96), b.Stored(d, 64, 96), nil)
		}},
		{"gelu", activated(graph.GELU)},
		{"silu", activated(graph.SiLU)},
		{"relu", activated(graph.ReLU)},
		{"glu", func(b *Bench, d tensor.DType) *graph.Value {
			x := b.F32(dimT, 96)
			return b.GLU("h", b.Linear("g", x, b.Stored(d, 64, 96), nil), b.Linear("u", x, b.Stored(d, 64, 96), nil), graph.SiLU)
		}},
		{"attention", attended(graph.AttentionAttr{Heads: 2, KVHeads: 1, HeadDim: 32, Causal: true})},
		{"capped attention", attended(graph.AttentionAttr{Heads: 2, KVHeads: 2, HeadDim: 32, SoftCap: 1.5})},
		{"attention by distance", func(b *Bench, _ tensor.DType) *graph.Value {
			a := graph.AttentionAttr{Heads: 2, KVHeads: 2, HeadDim: 32}
			return b.AttentionRel("h", b.F32(dimT, 64), b.F32(dimT, 64), b.F32(dimT, 64), b.Starts(), b.F32(tensor.Fixed(2), 7), nil, a)
		}},
		{"cached attention", func(b *Bench, _ tensor.DType) *graph.Value {
			return kv(graph.AttentionAttr{Heads: 2, KVHeads: 1, HeadDim: 32, Causal: true, Window: 40})(b)[0]
		}},
	}
	makers = append(makers, norms...)
	var cs []Case
	for _, m := range makers {
		for _, d := range []tensor.DType{tensor.F32, tensor.Q8_0} {
			cs = append(cs, Case{Name: fmt.Sprintf("%s then linear %s", m.name, d), NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
				return one(b.Linear("y", m.build(b, d), b.Stored(d, 75, 64), nil))
			}})
		}
	}
	for _, m := range norms {
		for _, d := range []tensor.DType{tensor.F32, tensor.Q8_0} {
			cs = append(cs, Case{Name: fmt.Sprintf("%s then linear %s and sum", m.name, d), NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
				h := m.build(b, d)
				y := b.Linear("down", b.Act("act", b.Linear("up", h, b.Stored(d, 96, 64), nil), graph.GELU), b.Stored(d, 64, 96), nil)
				return []*graph.Value{rmsNorm(b, "y", b.Add("add", h, y))}
			}})
		}
	}
	return append(cs, Case{Name: "norm of a sum with a norm, all sums read", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
		s := b.Add("sum", b.F32(dimT, 40), rmsNorm(b, "post", b.F32(dimT, 40)))
		n := rmsNorm(b, "n", s)
		t := b.Add("again", s, rmsNorm(b, "post2", n))
		return []*graph.Value{rmsNorm(b, "y", t), t, s}
	}}, Case{Name: "norm of heads then rope", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
		pos := b.I32(dimT, 0, func(i int) int32 { return int32(i * 5003 % 9000) }) // beyond any table too
		turned := func(name string, head int, pairs bool) *graph.Value {
			n := b.RMSNorm(name, b.F32(dimT, 3*head), b.F32(tensor.Fixed(head)), 1e-5, 0)
			return b.Rope(name+".rope", n, pos, nil, graph.RopeAttr{HeadDim: head, RotDim: head - 8, Base: 1e4, Scale: 1, Interleaved: pairs})
		}
		return []*graph.Value{turned("q", 64, false), turned("k", 24, true)}
	}}, Case{Name: "norm of twice a norm", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
		p := rmsNorm(b, "p", b.F32(dimT, 64))
		return one(rmsNorm(b, "y", b.Add("sum", p, p)))
	}}, Case{Name: "norm of a sum with a norm in chunks", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
		post := b.Apply(graph.OpNorm, "post", graph.NormAttr{Kind: graph.RMSNorm, Eps: 1e-5, Chunk: 16}, b.F32(dimT, 64), b.F32(tensor.Fixed(64)), nil).Out[0]
		return one(rmsNorm(b, "y", b.Add("sum", b.F32(dimT, 64), post)))
	}}, Case{Name: "norm of a sum of norms of which one is read", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
		p := rmsNorm(b, "p", b.F32(dimT, 40))
		return []*graph.Value{rmsNorm(b, "y", b.Add("sum", b.F32(dimT, 40), p)), p}
	}})
}

func activated(kind graph.ActKind) func(b *Bench, d tensor.DType) *graph.Value {
	return func(b *Bench, d tensor.DType) *graph.Value {
		return b.Act("h", b.Linear("x", b.F32(dimT, 96), b.Stored(d, 64, 96), b.F32(tensor.Fixed(64))), kind)
	}
}

func attended(a graph.AttentionAttr) func(b *Bench, d tensor.DType) *graph.Value {
	return func(b *Bench, _ tensor.DType) *graph.Value {
		kv := a.KVHeads * a.HeadDim
		out, _ := b.Attention("h", b.F32(dimT, a.Heads*a.HeadDim), b.F32(dimT, kv), b.F32(dimT, kv), b.Starts(), a)
		return out
	}
}
