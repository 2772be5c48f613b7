package cpu

import (
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/isa"
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

// TestTables: a table that products read too is packed for them, and lookups take
// its rows out of the panels; one that only lookups read stays in the file, of
// which they touch a few rows.
func TestTables(t *testing.T) {
	for _, tier := range isa.Available() {
		defer isa.Use(tier)()
		for _, tied := range []bool{false, true} {
			b := graph.NewBuilder(tensor.Bind{T: 20, S: 1, R: 1})
			b.WeightType = func(string) (tensor.DType, error) { return tensor.Q8_0, nil }
			table := b.Weight("table", graph.RoleEmbedding, tensor.Static(96, 64))
			y := b.Embed("embed", table, b.Input("ids", tensor.I32, tensor.Rows(tensor.Of(tensor.T, 1))), 0)
			if tied {
				y = b.Linear("head", y, table, nil)
			}
			g, err := b.Freeze(y)
			if err != nil {
				t.Fatal(err)
			}
			be, err := New(Options{Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer be.Close()
			prog, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			q := request{precision: Auto}
			w := panelsOf(plan.Matrix{DType: tensor.Q8_0, N: 96, K: 64})
			want := tied && q.streams(Auto.Class(graph.RoleEmbedding, tensor.Q8_0), w)
			if got := prog.Packing(table) == codePanels[tensor.Q8_0]; got != want {
				t.Errorf("%v, tied %v: packed as %v, expected panels %v", tier, tied, prog.Packing(table), want)
			}
		}
	}
}
