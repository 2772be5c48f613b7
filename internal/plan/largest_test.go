package plan_test

import (
	"testing"

	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// largest is a backend whose plans compute every run as their largest one.
type largest struct{ ruled }

func (l largest) Caps() plan.Caps {
	c := l.ruled.Caps()
	c.Largest = true
	return c
}

// A plan for any number of rows has the rules of its largest run where the backend
// computes all runs so: values may have the formats of that run.
func TestRulesOfTheLargestRun(t *testing.T) {
	few := plan.Rule{Class: "f32", Op: graph.OpLinear, Weights: anyMatrix, To: 4}
	for _, c := range []struct {
		be   func(r ruled) plan.Backend
		want string
	}{{func(r ruled) plan.Backend { return r }, "plain"}, {func(r ruled) plan.Backend { return largest{r} }, "half"}} {
		b := graph.NewBuilder(max9)
		mul := b.Mul("mul", b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), b.Input("y", tensor.F32, tensor.Rows(dimT, 8)))
		g, err := b.Freeze(b.Linear("a", mul, b.Weight("w", graph.RoleUp, tensor.Static(8, 8)), nil))
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Compile("test", g, c.be(ruled{fused{ref.New(), nil}, []plan.Rule{few, inHalf, roundingMul}}), []tensor.Bind{g.Max}, plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := formats(p.Plans[0], mul); got != c.want {
			t.Errorf("the product's operand is %s, expected %s", got, c.want)
		}
	}
}

// A rule may write the formats of several results.
func TestFormsOfSeveralResults(t *testing.T) {
	for results, want := range map[int][2]string{0: {"half", "plain"}, 1: {"half", "plain"}, 2: {"half", "half"}} {
		b := graph.NewBuilder(max9)
		x := func(name string) *graph.Value { return b.Input(name, tensor.F32, tensor.Rows(dimT, 8)) }
		glu := b.Apply(graph.OpGLUGrad, "glu", graph.ActAttr{Kind: graph.SiLU}, x("gate"), x("up"), x("dy"))
		product := func(v *graph.Value, name string) *graph.Value {
			return b.Linear(name, v, b.Weight("w"+name, graph.RoleUp, tensor.Static(8, 8)), nil)
		}
		g, err := b.Freeze(product(glu.Out[0], "a"), product(glu.Out[1], "b"))
		rounding := plan.Rule{Class: "f32", Op: graph.OpGLUGrad, Results: results, Writes: func(*plan.Step) []*plan.Format { return []*plan.Format{half} }}
		p := lowered(t, g, err, nil, inHalf, rounding).Plans[0]
		if got := [2]string{formats(p, glu.Out[0]), formats(p, glu.Out[1])}; got != want {
			t.Errorf("%d results: formats are %v, expected %v", results, got, want)
		}
	}
}
