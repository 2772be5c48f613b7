package optest

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// siblings are products of one input, which a backend may run as one step: of
// weights in every storage type beside others, of trained ones, of an input
// that a backend may keep rounded, and before products that may read them so.
func siblings() []Case {
	cs := []Case{
		{Name: "siblings, trained", Build: func(b *Bench) []*graph.Value {
			x := b.F32(dimT, 70)
			return []*graph.Value{
				b.Linear("q", x, b.F32(tensor.Fixed(130), 70), b.F32(tensor.Fixed(130))),
				b.Linear("k", x, b.F32(tensor.Fixed(1), 70), nil),
				b.Linear("v", x, b.F32(tensor.Fixed(33), 70), b.F32(tensor.Fixed(33))),
			}
		}},
		{Name: "siblings, one of them trained", NoGrad: true, Build: func(b *Bench) []*graph.Value {
			x := b.F32(dimT, 96)
			low := b.Linear("low", x, b.F32(tensor.Fixed(8), 96), nil)
			q := b.Linear("q", x, b.Stored(tensor.Q8_0, 75, 96), nil)
			q = b.Add("sum", q, b.Linear("high", low, b.F32(tensor.Fixed(75), 8), nil))
			return []*graph.Value{q, b.Linear("k", x, b.Stored(tensor.Q8_0, 40, 96), nil)}
		}},
		{Name: "siblings far apart", NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			x := b.RMSNorm("x", b.F32(dimT, 96), b.F32(tensor.Fixed(96)), 1e-5, 0)
			q := b.Act("act", b.Scale("half", b.Linear("q", x, b.Stored(tensor.F32, 64, 96), nil), 0.5), graph.SiLU)
			k := b.Linear("k", x, b.Stored(tensor.F32, 64, 96), b.F32(tensor.Fixed(64)))
			g := b.GLU("g", b.Linear("gate", x, b.Stored(tensor.F32, 64, 96), nil), b.Linear("up", x, b.Stored(tensor.F32, 64, 96), nil), graph.SiLU)
			return []*graph.Value{b.Mul("qk", q, k), b.Add("y", g, b.Linear("v", x, b.Stored(tensor.F32, 64, 96), nil))}
		}},
	}
	types := tensor.Codecs()
	for i := 0; i < len(types); i += 3 {
		d, e, f := types[i], types[(i+1)%len(types)], types[(i+2)%len(types)]
		k := max(96, d.Info().BlockLen, e.Info().BlockLen, f.Info().BlockLen)
		cs = append(cs, Case{Name: fmt.Sprintf("siblings of %s, %s and %s", d, e, f), NoGrad: true, Build: func(b *Bench) []*graph.Value {
			x := b.F32(dimT, k)
			return []*graph.Value{
				b.Linear("q", x, b.Stored(d, 75, k), b.F32(tensor.Fixed(75))),
				b.Linear("k", x, b.Stored(e, 33, k), nil),
				b.Linear("v", x, b.Stored(f, 48, k), b.F32(tensor.Fixed(48))),
			}
		}})
	}
	for _, d := range []tensor.DType{tensor.F32, tensor.Q8_0} {
		cs = append(cs,
			Case{Name: fmt.Sprintf("gelu then siblings %s", d), NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
				x := activated(graph.GELU)(b, d)
				return []*graph.Value{b.Linear("q", x, b.Stored(d, 75, 64), nil), b.Linear("k", x, b.Stored(d, 64, 64), b.F32(tensor.Fixed(64)))}
			}},
			Case{Name: fmt.Sprintf("siblings then linear %s", d), NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
				x := b.F32(dimT, 96)
				q, k := b.Linear("q", x, b.Stored(d, 64, 96), nil), b.Linear("k", x, b.Stored(d, 64, 96), nil)
				return []*graph.Value{b.Linear("y", k, b.Stored(d, 75, 64), nil), b.Linear("z", q, b.Stored(d, 40, 64), nil)}
			}})
	}
	return cs
}
