package optest

import (
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// objectives are the cases of ops that losses are made of.
func objectives() []Case {
	dimS := tensor.Of(tensor.S, 1)
	info := func(symmetric bool) func(b *Bench) []*graph.Value {
		return func(b *Bench) []*graph.Value {
			// Anchors and documents take turns; the last document of three is a
			// negative, and the first two of six have one text.
			partner := b.I32(dimT, 0, func(i int) int32 {
				switch {
				case i%2 == 0 && i+1 < b.Bind.T:
					return int32(i + 1)
				case i%2 == 1 && symmetric:
					return int32(i - 1)
				}
				return -1
			})
			same := b.I32(dimT, 0, func(i int) int32 {
				switch {
				case i%2 == 0:
					return -1
				case i == 3:
					return 1
				}
				return int32(i)
			})
			nll, lse := b.InfoNCE("y", b.Scaled(b.F32(dimT, 37), 0.2), partner, same, 1.5)
			return []*graph.Value{nll, lse}
		}
	}
	return []Case{
		{Name: "infonce", Tol: 2e-5, Build: info(false)},
		{Name: "infonce, symmetric", Tol: 2e-5, Build: info(true)},
		{Name: "columns", Build: func(b *Bench) []*graph.Value { return one(b.Columns("y", b.F32(dimT, 37), 13)) }},
		{Name: "row dot", Build: func(b *Bench) []*graph.Value { return one(b.RowDot("y", b.F32(dimT, 37), b.F32(dimT, 37))) }},
		{Name: "distill", Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			return one(b.Distill("y", b.F32(dimR, 53), b.constant(dimR, 53), 2))
		}},
		{Name: "sequence sum", Build: func(b *Bench) []*graph.Value { return one(b.SequenceSum("y", b.F32(dimT), b.Starts())) }},
		{Name: "preference", Build: func(b *Bench) []*graph.Value {
			return one(b.Preference("y", b.F32(dimS), b.constant(dimS), 0.7))
		}},
	}
}

// constant is an operand of random numbers that no gradient flows to.
func (b *Bench) constant(outer tensor.Dim, inner ...int) *graph.Value {
	v := b.Input("constant", tensor.F32, tensor.Rows(outer, inner...))
	b.floats[v] = b.random(v.Shape.Len(b.Bind))
	return v
}
