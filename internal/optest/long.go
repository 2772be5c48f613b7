package optest

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// long are products of long rows in every type that files have: a backend may share
// out a row among threads, and its last part may be short. Rows of weights begin at
// odd addresses where their length allows it.
func long() (cs []Case) {
	rows := tensor.Of(tensor.S, 1) // few: the reference is slow
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q4_K, tensor.Q6_K} {
		k := max(d.Info().BlockLen, 32)
		cs = append(cs, Case{Name: "long rows of " + d.String(), NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			return one(b.Linear("y", b.F32(rows, 2048+k), b.Stored(d, 301, 2048+k), b.F32(tensor.Fixed(301))))
		}}, Case{Name: fmt.Sprintf("norm, glu and back of %s", d), NoGrad: true, Tol: 5e-5, Build: func(b *Bench) []*graph.Value {
			h := rmsNorm(b, "h", b.Add("sum", b.F32(rows, 512+k), b.F32(rows, 512+k)))
			y := b.GLU("y", b.Linear("g", h, b.Stored(d, 768, 512+k), nil), b.Linear("u", h, b.Stored(d, 768, 512+k), nil), graph.SiLU)
			return one(b.Linear("back", y, b.Stored(d, 75, 768), nil))
		}})
	}
	return cs
}
