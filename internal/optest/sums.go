package optest

import (
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// sums are gradients that are added to another value: to one that ends there, so
// that the sum may lie where it was, and to one that is read once more.
func sums() []Case {
	var cs []Case
	for _, c := range []struct {
		name string
		grad func(b *Bench) *graph.Value
	}{
		{"linear_dx", func(b *Bench) *graph.Value {
			return b.Apply(graph.OpLinearDX, "dx", nil, b.F32(dimT, 75), b.F32(tensor.Fixed(75), 70)).Out[0]
		}},
		{"stored linear_dx", func(b *Bench) *graph.Value {
			return b.Apply(graph.OpLinearDX, "dx", nil, b.F32(dimT, 75), b.Stored(tensor.Q8_0, 75, 64)).Out[0]
		}},
		{"deep linear_dx", func(b *Bench) *graph.Value {
			return b.Apply(graph.OpLinearDX, "dx", nil, b.F32(dimT, 6000), b.Scaled(b.F32(tensor.Fixed(6000), 37), 1.0/64)).Out[0]
		}},
		{"norm_dx", func(b *Bench) *graph.Value {
			a := graph.NormAttr{Kind: graph.LayerNorm, Eps: 1e-5}
			return b.Apply(graph.OpNormDX, "dx", a, b.F32(dimT, 70), b.F32(dimT, 70), b.F32(tensor.Fixed(70))).Out[0]
		}},
		{"embed_grad", func(b *Bench) *graph.Value {
			return b.Apply(graph.OpEmbedGrad, "dtable", graph.EmbedGradAttr{Rows: 11, Scale: 2.5}, b.F32(dimT, 37), b.ids(11)).Out[0]
		}},
	} {
		cs = append(cs, Case{Name: c.name + " added", NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			d := c.grad(b)
			other := func(name string) *graph.Value {
				return b.Builder.Scale(name, b.F32(d.Shape.Outer, d.Shape.RowLen()), -1.7)
			}
			ends, stays := other("ends"), other("stays")
			first := b.Builder.Scale("first", b.Add("in_place", ends, d), 3)
			return []*graph.Value{first, b.Add("beside", stays, c.grad(b)), b.Mul("again", stays, stays)}
		}})
	}
	return cs
}
