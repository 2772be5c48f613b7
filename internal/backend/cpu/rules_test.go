package cpu

import (
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// TestRulesTakeAnyMatrix: products with weights, state, inputs and results of
// other steps compile in every precision.
func TestRulesTakeAnyMatrix(t *testing.T) {
	for _, p := range []Precision{Auto, F32, BF16, I16G32, I8G32} {
		for _, invariant := range []bool{false, true} {
			b := graph.NewBuilder(tensor.Bind{T: 64, S: 1, R: 1})
			matrix := b.Input("matrix", tensor.F32, tensor.Static(64, 64))
			x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), 64))
			for _, w := range []*graph.Value{b.Weight("w", graph.RoleUp, tensor.Static(64, 64)), b.State("s", graph.RoleUp, tensor.F32, tensor.Static(64, 64)),
				matrix, b.Add("sum", matrix, matrix)} {
				x = b.Linear("y", x, w, nil)
			}
			g, err := b.Freeze(x)
			if err != nil {
				t.Fatal(err)
			}
			be, err := New(Options{Workers: 1, Precision: p})
			if err != nil {
				t.Fatal(err)
			}
			defer be.Close()
			if _, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{Invariant: invariant}); err != nil {
				t.Errorf("%s, invariant %v: %v", p, invariant, err)
			}
		}
	}
}

// TestKernelLabels: a step of several products names every kernel that it runs.
func TestKernelLabels(t *testing.T) {
	p := func(label named) *product {
		return &product{ways: []rowsWay{{1, &f32Way{named: "few"}}, {9, &f32Way{named: label}}}}
	}
	for want, ps := range map[string][]*product{
		"a x2":    {p("a"), p("a")},
		"a, b":    {p("a"), p("b")},
		"a, b x2": {p("a"), p("b"), p("b")},
	} {
		if got := kernelLabel(ps...); got != want {
			t.Errorf("the label is %q, expected %q", got, want)
		}
	}
}
