package graph_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// eval runs reference implementations with a buffer for each value: the
// plainest executor there is, independent of the planner. State lives on
// between runs.
type eval struct {
	t     *testing.T
	bind  tensor.Bind
	bufs  map[*graph.Value]graph.Tensor
	reads map[*graph.Value]bool // values that somebody wants
}

func newEval(t *testing.T, bind tensor.Bind) *eval {
	return &eval{t, bind, map[*graph.Value]graph.Tensor{}, map[*graph.Value]bool{}}
}

func (e *eval) alloc(v *graph.Value) graph.Tensor {
	x := graph.Tensor{DType: v.DType, Rows: v.Shape.NumRows(e.bind), Cols: v.Shape.RowLen()}
	switch v.DType {
	case tensor.F32:
		x.F32 = make([]float32, x.Len())
		for i := range x.F32 {
			x.F32[i] = float32(math.NaN()) // an op that forgets an element shows
		}
	case tensor.I32:
		x.I32 = make([]int32, x.Len())
	default:
		x.Raw = make([]byte, x.Bytes())
	}
	return x
}

func (e *eval) setF32(v *graph.Value, data []float32) {
	e.t.Helper()
	x := e.alloc(v)
	if copy(x.F32, data) != x.Len() || len(data) != x.Len() {
		e.t.Fatalf("%s: %d elements given, %d expected", v, len(data), x.Len())
	}
	e.bufs[v] = x
}

func (e *eval) setI32(v *graph.Value, data []int32) {
	e.t.Helper()
	x := e.alloc(v)
	if copy(x.I32, data) != x.Len() || len(data) != x.Len() {
		e.t.Fatalf("%s: %d elements given, %d expected", v, len(data), x.Len())
	}
	e.bufs[v] = x
}

func (e *eval) f32(v *graph.Value) []float32 { return e.bufs[v].F32 }

// run executes all nodes; outputs that neither a node nor want reads are
// absent, as they would be under the planner.
func (e *eval) run(nodes []*graph.Node, want ...*graph.Value) {
	e.t.Helper()
	for _, v := range want {
		e.reads[v] = true
	}
	for _, n := range nodes {
		for _, v := range n.In {
			e.reads[v] = true
		}
	}
	for _, n := range nodes {
		if n.Leaf == nil {
			n.Op.Ref(e.call(n))
		} else if _, ok := e.bufs[n.Out[0]]; !ok {
			x := e.alloc(n.Out[0])
			clear(x.F32)
			e.bufs[n.Out[0]] = x
		}
	}
}

// call binds a node whose inputs have been computed.
func (e *eval) call(n *graph.Node) *graph.Call {
	c := &graph.Call{Node: n, Bind: e.bind}
	for _, v := range n.In {
		x, ok := e.bufs[v]
		if v != nil && !ok {
			e.t.Fatalf("%s reads %s before it is there", n.Name, v)
		}
		c.In = append(c.In, x)
	}
	for i, v := range n.Out {
		var x graph.Tensor
		if j, ok := n.Op.InPlace[i]; ok {
			x = c.In[j]
		} else if e.reads[v] {
			x = e.alloc(v)
		}
		c.Out = append(c.Out, x)
		e.bufs[v] = x
	}
	if n.Op.Scratch != nil {
		c.Scratch = make([]float32, n.Op.Scratch(n, e.bind))
		for i := range c.Scratch {
			c.Scratch[i] = float32(math.NaN())
		}
	}
	return c
}

// near compares element by element with tolerance tol*(1+|want|).
func near(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		g, w := float64(got[i]), float64(want[i])
		if !(math.Abs(g-w) <= tol*(1+math.Abs(w))) {
			t.Errorf("%s: element %d is %g, want %g", what, i, g, w)
			return
		}
	}
}

func random(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// bench is a graph over random operands, run by eval.
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
	// someBind is for tests to which any sizes will do.
	someBind = tensor.Bind{T: 7, S: 3, R: 4}
)
