package optest

import (
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// long are products of long rows in every type that files have: a backend may share
// out a row among threads, and its last part may be short. Rows of weights begin at
// odd addresses where their length allows it.
func long() (cs []Case) {
	add := func(d tensor.DType, name string, rows tensor.Dim) {
		k := max(d.Info().BlockLen, 32)
		cs = append(cs, Case{Name: "long rows of " + name, NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			return one(b.Linear("y", b.F32(rows, 2048+k), b.Stored(d, 301, 2048+k), b.F32(tensor.Fixed(301))))
		}}, Case{Name: "norm, glu and back of " + name, NoGrad: true, Tol: 5e-5, Build: func(b *Bench) []*graph.Value {
			h := rmsNorm(b, "h", b.Add("sum", b.F32(rows, 512+k), b.F32(rows, 512+k)))
			y := b.GLU("y", b.Linear("g", h, b.Stored(d, 768, 512+k), nil), b.Linear("u", h, b.Stored(d, 768, 512+k), nil), graph.SiLU)
			return one(b.Linear("back", y, b.Stored(d, 75, 768), nil))
		}})
	}
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q4_K, tensor.Q6_K} {
		add(d, d.String(), tensor.Of(tensor.S, 1)) // few rows: the reference is slow
	}
	add(tensor.BF16, "BF16, three times as many", tensor.Of(tensor.S, 3))
	return append(cs, Case{Name: "layer of BF16 with long rows", NoGrad: true, Tol: 1e-3, Build: longLayer},
		Case{Name: "large matrices of BF16", NoGrad: true, Tol: 5e-5, Build: large(1)},
		Case{Name: "large matrices of BF16, three times as many rows", NoGrad: true, Tol: 5e-5, Build: large(3)})
}

// large is a gate and what it gates, and the way back, of matrices that have kernels of
// their own. Neither side is a multiple of what these take at a time.
func large(times int) func(b *Bench) []*graph.Value {
	return func(b *Bench) []*graph.Value {
		const wide, long = 2056, 2104
		x, d := b.F32(tensor.Of(tensor.S, times), wide), tensor.BF16
		y := b.GLU("y", b.Linear("g", x, b.Stored(d, long, wide), b.F32(tensor.Fixed(long))), b.Linear("u", x, b.Stored(d, long, wide), nil), graph.SiLU)
		return one(b.Linear("back", y, b.Stored(d, wide, long), b.F32(tensor.Fixed(wide))))
	}
}

// longLayer is what stands between the attentions of a decoder.
func longLayer(b *Bench) []*graph.Value {
	rows, d := tensor.Of(tensor.S, 3), tensor.BF16
	x, h := b.F32(rows, 520), b.F32(rows, 4104)
	sum := b.Add("sum", x, b.Linear("down", h, b.Stored(d, 520, 4104), nil))
	norm := rmsNorm(b, "norm", sum)
	q, k, v := b.Linear("q", norm, b.Stored(d, 128, 520), nil), b.Linear("k", norm, b.Stored(d, 64, 520), b.F32(tensor.Fixed(64))), b.Linear("v", norm, b.Stored(d, 64, 520), nil)
	pos := b.I32(rows, 0, func(i int) int32 { return int32(i * 37) })
	rope := graph.RopeAttr{HeadDim: 64, RotDim: 48, Base: 1e4, Scale: 1}
	return []*graph.Value{b.Rope("q_rope", q, pos, nil, rope), b.Rope("k_rope", k, pos, nil, rope), v, b.Scale("again", sum, 0.5)}
}
