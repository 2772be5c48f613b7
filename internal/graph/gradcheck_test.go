package graph_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// bench is a graph of one op over random operands.
type bench struct {
	*graph.Builder
	e   *eval
	rng *rand.Rand
}

func newBench(t *testing.T, bind tensor.Bind) *bench {
	b := &bench{graph.NewBuilder(bind), newEval(t, bind), rand.New(rand.NewPCG(1, 2))}
	b.Trainable = func(graph.Role, int) bool { return true }
	return b
}

// param is a trainable leaf of random numbers.
func (b *bench) param(outer tensor.Dim, inner ...int) *graph.Value {
	s := tensor.Rows(outer, inner...)
	v := b.Weight(fmt.Sprint("p", len(b.Nodes())), graph.RoleOther, s)
	b.e.setF32(v, random(b.rng, s.Len(b.e.bind)))
	return v
}

func (b *bench) ints(outer tensor.Dim, data ...int32) *graph.Value {
	v := b.Input(fmt.Sprint("i", len(b.Nodes())), tensor.I32, tensor.Rows(outer))
	b.e.setI32(v, data)
	return v
}

var (
	dimT  = tensor.Of(tensor.T, 1)
	dimR  = tensor.Of(tensor.R, 1)
	dimS  = tensor.Of(tensor.S, 1)
	dimS1 = tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}
	fixed = tensor.Fixed
	// gradBind binds T, S and R for the cases below.
	gradBind = tensor.Bind{T: 7, S: 3, R: 4}
)

// gradCases has at least one row for every op with a gradient rule; each
// builds the op and returns its differentiable output.
var gradCases = []struct {
	name  string
	build func(b *bench) *graph.Value
}{
	{"add", func(b *bench) *graph.Value { return b.Add("y", b.param(dimT, 3), b.param(dimT, 3)) }},
	{"add row", func(b *bench) *graph.Value { return b.AddRow("y", b.param(dimT, 3), b.param(fixed(3))) }},
	{"mul", func(b *bench) *graph.Value { return b.Mul("y", b.param(dimT, 3), b.param(dimT, 3)) }},
	{"scale", func(b *bench) *graph.Value { return b.Builder.Scale("y", b.param(dimT, 3), -1.7) }},
	{"linear", func(b *bench) *graph.Value {
		return b.Linear("y", b.param(dimT, 5), b.param(fixed(3), 5), b.param(fixed(3)))
	}},
	{"embed", func(b *bench) *graph.Value {
		return b.Embed("y", b.param(fixed(5), 3), b.ints(dimT, 4, 0, 4, 2, 4, 1, 0), 2.5)
	}},
	{"layer norm", func(b *bench) *graph.Value {
		return b.LayerNorm("y", b.param(dimT, 5), b.param(fixed(5)), b.param(fixed(5)), 1e-5)
	}},
	{"rms norm of heads", func(b *bench) *graph.Value {
		return b.RMSNorm("y", b.param(dimT, 6), b.param(fixed(3)), 1e-5, 1)
	}},
	{"rope", func(b *bench) *graph.Value {
		attr := graph.RopeAttr{HeadDim: 6, RotDim: 4, Base: 100, Scale: 2}
		return b.Rope("y", b.param(dimT, 12), b.ints(dimT, 0, 1, 2, 9, 4, 5, 6), nil, attr)
	}},
	{"rope interleaved", func(b *bench) *graph.Value {
		attr := graph.RopeAttr{HeadDim: 4, Base: 100, Interleaved: true}
		return b.Rope("y", b.param(dimT, 4), b.ints(dimT, 0, 1, 2, 9, 4, 5, 6), nil, attr)
	}},
	{"attention", func(b *bench) *graph.Value { return attentionCase(b, graph.AttentionAttr{Causal: true}) }},
	{"attention window", func(b *bench) *graph.Value { return attentionCase(b, graph.AttentionAttr{Window: 2}) }},
	{"attention soft cap", func(b *bench) *graph.Value {
		return attentionCase(b, graph.AttentionAttr{SoftCap: 1.5, Causal: true, Window: 3})
	}},
	{"act", func(b *bench) *graph.Value { return b.Act("y", b.param(dimT, 3), graph.GELU) }},
	{"glu", func(b *bench) *graph.Value {
		return b.GLU("y", b.param(dimT, 3), b.param(dimT, 3), graph.GELUTanh)
	}},
	{"gather", func(b *bench) *graph.Value { return b.Gather("y", b.param(dimT, 3), b.ints(dimR, 6, 1, 1, 3)) }},
	{"pool mean", func(b *bench) *graph.Value {
		return b.Pool("y", b.param(dimT, 3), b.ints(dimS1, 0, 4, 5, 7), graph.PoolMean)
	}},
	{"pool last, one empty", func(b *bench) *graph.Value {
		return b.Pool("y", b.param(dimT, 3), b.ints(dimS1, 0, 4, 4, 7), graph.PoolLast)
	}},
	{"l2norm", func(b *bench) *graph.Value { return b.L2Norm("y", b.param(dimT, 4)) }},
	{"cross entropy", func(b *bench) *graph.Value {
		nll, _ := b.CrossEntropy("y", b.param(dimR, 6), b.ints(dimR, 5, -1, 0, 2))
		return nll
	}},
	{"mean", func(b *bench) *graph.Value { return b.Mean("y", b.param(dimR), b.ints(dimR, 5, -1, 0, 2)) }},
	{"mean of all", func(b *bench) *graph.Value { return b.Mean("y", b.param(dimR), nil) }},
}

func attentionCase(b *bench, a graph.AttentionAttr) *graph.Value {
	a.Heads, a.KVHeads, a.HeadDim = 4, 2, 3
	y, _ := b.Attention("y", b.param(dimT, 12), b.param(dimT, 6), b.param(dimT, 6), b.ints(dimS1, 0, 4, 5, 7), a)
	return y
}

// TestGradients compares each gradient rule with finite differences of the
// reference: four points, so that a step wide enough for float32 is exact.
func TestGradients(t *testing.T) {
	covered := map[string]bool{}
	for _, c := range gradCases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, gradBind)
			y := c.build(b)
			if err := b.Err(); err != nil {
				t.Fatal(err)
			}
			covered[y.Node.Op.Name] = true
			forward := slices.Clone(b.Nodes())
			dOut := make([]*graph.Value, len(y.Node.Out))
			dOut[0] = b.param(y.Shape.Outer, y.Shape.Inner[:y.Shape.Rank()-1]...)
			grads := y.Node.Op.Grad(b.Builder, y.Node, dOut)
			if err := b.Err(); err != nil {
				t.Fatal(err)
			}
			b.e.run(b.Nodes(), append(slices.Clone(grads), y)...)
			dy := b.e.f32(dOut[0])
			for i, x := range y.Node.In {
				if x == nil || !x.NeedsGrad {
					continue
				}
				got := slices.Clone(b.e.f32(grads[i]))
				checkDifferences(t, b.e, forward, x, y, dy, got, fmt.Sprint("operand ", i))
			}
		})
	}
	for _, op := range graph.Ops() {
		if op.Grad != nil && !covered[op.Name] {
			t.Errorf("op %s has a gradient rule but no case here", op.Name)
		}
	}
}

func checkDifferences(t *testing.T, e *eval, forward []*graph.Node, x, y *graph.Value, dy, got []float32, what string) {
	t.Helper()
	objective := func() float64 {
		e.run(forward, y)
		var sum float64
		for i, v := range e.f32(y) {
			sum += float64(v) * float64(dy[i])
		}
		return sum
	}
	const h = 0.02
	data, scale, want := e.f32(x), 0.0, make([]float64, len(got))
	for i, at := range data {
		f := func(d float32) float64 {
			data[i] = at + d
			return objective()
		}
		want[i] = (8*(f(h)-f(-h)) - (f(2*h) - f(-2*h))) / (12 * h)
		data[i] = at
		scale = max(scale, math.Abs(want[i]))
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) <= 1e-3*scale) {
			t.Errorf("%s: gradient %d is %g, differences give %g", what, i, got[i], want[i])
			return
		}
	}
}
