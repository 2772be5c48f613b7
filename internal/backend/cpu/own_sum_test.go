package cpu

import (
	"testing"

	"hotpath/internal/graph"
)

// TestWorkersKeepTheirSums: a norm that a worker computes for itself begins with the sum that
// it has kept only if that is what is added to and of the same run, and the worker whose sum
// goes to other steps keeps none: the next norm in place would add twice.
func TestWorkersKeepTheirSums(t *testing.T) {
	const n = 4
	x, shared := make([]float32, n), make([]float32, n)
	a, b, c := new(graph.Value), new(graph.Value), new(graph.Value)
	first, second := &ownNorm{from: a, to: b}, &ownNorm{from: b, to: c}
	for _, k := range []*ownNorm{first, second} {
		k.x.full, k.sum.full = x, shared
		k.task.X, k.task.Sum = x, shared
	}
	r := &ownRows{sum: make([]float32, n)}
	check := func(what string, k *ownNorm, run uint64, writes bool, from, to []float32) {
		t.Helper()
		one := k.normed
		k.keep(&one, r, run, n, writes)
		if &one.x.full[0] != &from[0] || &one.task.X[0] != &from[0] {
			t.Errorf("%s: another row is added to", what)
		}
		if &one.sum.full[0] != &to[0] || &one.task.Sum[0] != &to[0] {
			t.Errorf("%s: the sum goes elsewhere", what)
		}
	}
	check("the first norm", first, 1, false, x, r.sum)
	check("the second norm", second, 1, false, r.sum, r.sum)
	check("the second norm again", second, 1, false, x, r.sum)
	check("the first norm of another run", first, 2, false, x, r.sum)
	check("the second norm after a run without the first", second, 3, false, x, r.sum)
	check("the first norm, for others", first, 4, true, x, shared)
	check("the second norm behind that", second, 4, false, x, r.sum)
	check("the first norm again", first, 5, false, x, r.sum)
	check("the second norm, for others", second, 5, true, r.sum, shared)
	check("the second norm, for others again", second, 5, true, x, shared)
}
