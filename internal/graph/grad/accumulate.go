package grad

import (
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Accumulate adds the sum of each gradient over several runs, which is State of
// role RoleGrad, and returns pairs of the same parameters with the sums. keep
// is an Input[1]: 0 in the first run of a sum, 1 later.
func Accumulate(b *graph.Builder, pairs []Pair, keep *graph.Value) []Pair {
	sums := make([]Pair, len(pairs))
	for i, p := range pairs {
		end := b.Named(p.Param.Node, "accumulate")
		sum := b.State("sum", graph.RoleGrad, tensor.F32, p.Param.Shape)
		sums[i] = Pair{p.Param, b.Accumulate("add", sum, p.Grad, keep)}
		end()
	}
	return sums
}
