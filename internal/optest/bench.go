// Package optest is the op bench: one table of cases (cases.go) drives parity
// on every backend and tier, gradients against finite differences, zero
// allocation and speed. An op without a case fails the bench.
//
// It imports graph, plan and the backends; only tests and benchmarks import
// it. Failures are errors with the case, the backend and the first element
// that differs.
package optest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// Bench builds a case: a graph of one op, or of a pattern, over random
// operands. It is also the source of the case's weights.
type Bench struct {
	*graph.Builder
	Bind   tensor.Bind
	rng    *rand.Rand // nil: numbers are those of kept
	drawn  int        // of kept
	grad   bool       // operands are trainable state, so that gradients flow
	floats map[*graph.Value][]float32
	ints   map[*graph.Value][]int32
	files  map[string]weights.Tensor
}

// Case is one row of the table.
type Case struct {
	Name  string
	Build func(b *Bench) []*graph.Value
	// Tol is the error allowed relative to the largest element; 0 means 1e-5.
	Tol float64
	// NoGrad keeps a case out of the gradient checks where its op has a rule
	// that another case covers better.
	NoGrad bool
}

// NewBench starts a case. The graph's maximum is above the binding, so that
// symbols matter. The same seed gives the same operands.
func NewBench(bind tensor.Bind, grad bool) *Bench {
	most := tensor.Bind{T: bind.T + 3, S: bind.S + 1, R: bind.R + 2}
	b := &Bench{Builder: graph.NewBuilder(most), Bind: bind, grad: grad,
		floats: map[*graph.Value][]float32{}, ints: map[*graph.Value][]int32{}, files: map[string]weights.Tensor{}}
	if kept == nil {
		b.rng = newNumbers()
	}
	if grad {
		b.Trainable = func(role graph.Role, _ int) bool { return role == graph.RoleOther }
	}
	b.WeightType = func(key string) (tensor.DType, error) { return b.files[key].DType, nil }
	return b
}

// F32 is an operand of random numbers: an input, or, where gradients are
// wanted, trainable state.
func (b *Bench) F32(outer tensor.Dim, inner ...int) *graph.Value {
	n := len(b.floats)
	if !b.grad {
		v := b.Input(fmt.Sprintf("x%d", n), tensor.F32, tensor.Rows(outer, inner...))
		b.floats[v] = b.random(v.Shape.Len(b.Bind))
		return v
	}
	shape := tensor.Rows(outer, inner...)
	key := fmt.Sprintf("x%d", n)
	data := b.random(shape.Len(b.Max()))
	b.files[key] = weights.Tensor{Name: key, DType: tensor.F32}
	v := b.Weight(key, graph.RoleOther, shape)
	b.floats[v] = data
	return v
}

// Scaled multiplies the numbers of an operand made by F32.
func (b *Bench) Scaled(v *graph.Value, f float32) *graph.Value {
	for i := range b.floats[v] {
		b.floats[v][i] *= f
	}
	return v
}

// Positive makes the numbers of an operand positive.
func (b *Bench) Positive(v *graph.Value) *graph.Value {
	for i, x := range b.floats[v] {
		b.floats[v][i] = float32(math.Abs(float64(x)))
	}
	return v
}

// OffZero keeps an operand away from where activations have a kink, which
// finite differences cannot see around.
func (b *Bench) OffZero(v *graph.Value) *graph.Value {
	for i, x := range b.floats[v] {
		if math.Abs(float64(x)) < 0.1 {
			b.floats[v][i] = 0.1
		}
	}
	return v
}

// Apart keeps the elements of each column of an operand apart, so that finite
// differences do not change which of them is the largest.
func (b *Bench) Apart(v *graph.Value) *graph.Value {
	cols := v.Shape.RowLen()
	for i := range b.floats[v] {
		b.floats[v][i] = float32((i/cols*29+i%cols)%137)/8 - 8
	}
	return v
}

// I32 is an integer operand; f gives element i.
func (b *Bench) I32(outer tensor.Dim, cols int, f func(i int) int32) *graph.Value {
	shape := tensor.Rows(outer)
	if cols > 0 {
		shape = tensor.Rows(outer, cols)
	}
	v := b.Input(fmt.Sprintf("i%d", len(b.ints)), tensor.I32, shape)
	data := make([]int32, shape.Len(b.Bind))
	for i := range data {
		data[i] = f(i)
	}
	b.ints[v] = data
	return v
}

// Starts cuts T tokens into S sequences of uneven length.
func (b *Bench) Starts() *graph.Value {
	t, s := b.Bind.T, b.Bind.S
	return b.I32(dimS1, 0, func(i int) int32 {
		return int32(math.Round(float64(t) * math.Pow(float64(i)/float64(s), 1.5)))
	})
}

// Stored is a weight leaf in a storage type.
func (b *Bench) Stored(d tensor.DType, rows, cols int) *graph.Value {
	key := fmt.Sprintf("w%d", len(b.files))
	data, err := b.randomWeight(d, rows, cols)
	if err != nil {
		b.Fail("%w", err)
	}
	b.files[key] = weights.Tensor{Name: key, DType: d, Dims: []int{rows, cols}, Data: data}
	return b.Builder.Weight(key, graph.RoleQ, tensor.Static(rows, cols))
}

// Operand is what a leaf of the case holds, bound; false for state that begins
// as zeros, and for values that are computed.
func (b *Bench) Operand(v *graph.Value) (graph.Tensor, bool) {
	x := graph.Tensor{DType: v.DType, Rows: v.Shape.NumRows(b.Bind), Cols: v.Shape.RowLen()}
	if f, ok := b.floats[v]; ok {
		x.F32 = f[:x.Len()]
		return x, true
	}
	if i, ok := b.ints[v]; ok {
		x.I32 = i
		return x, true
	}
	if v.Node.Leaf == nil || v.Node.Leaf.Kind != graph.WeightLeaf {
		return x, false
	}
	t, ok := b.files[v.Node.Leaf.Key]
	if x.Raw = t.Data; ok && t.DType == tensor.F32 {
		f, err := t.F32()
		if err != nil {
			b.Fail("%w", err)
		}
		x.F32, x.Raw = f, nil
	}
	return x, ok
}

// Weight implements plan.Source beside the builder's method of that name.
type source struct{ b *Bench }

func (s source) Weight(key string) (weights.Tensor, error) {
	t, ok := s.b.files[key]
	if !ok {
		return t, fmt.Errorf("case has no weight %q", key)
	}
	for v, data := range s.b.floats { // as they are by now: cases scale them
		if v.Node.Leaf.Key == key {
			t.Data = make([]byte, 4*len(data))
			return t, tensor.Quantize(t.Data, tensor.F32, data)
		}
	}
	return t, nil
}
func (s source) Drop(weights.Tensor) {}

// Runner is a frozen case on a backend.
type Runner struct {
	Session *plan.Session
	Bind    tensor.Bind
	Outputs []*graph.Value
	b       *Bench
}

// Options choose how a case is compiled and bound.
type Options struct {
	plan.CompileOptions
	plan.BindOptions
}

// Open compiles the bench's graph for a backend and loads its operands.
func (b *Bench) Open(be plan.Backend, o Options, outputs ...*graph.Value) (*Runner, error) {
	g, err := b.Freeze(outputs...)
	if err != nil {
		return nil, err
	}
	p, err := plan.Compile("optest", g, be, plan.Buckets(be, g.Max), o.CompileOptions)
	if err != nil {
		return nil, err
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, source{b}), o.BindOptions)
	if err != nil {
		return nil, err
	}
	r := &Runner{s, b.Bind, outputs, b}
	for v, data := range b.ints {
		copy(s.I32(v), data)
	}
	for v, data := range b.floats {
		if v.Node.Leaf.Kind == graph.InputLeaf {
			copy(s.F32(v), data)
		}
	}
	return r, nil
}

// Run executes the case once.
func (r *Runner) Run() error { return r.Session.Run(context.Background(), r.Bind) }

// Output is a copy of output i, bound.
func (r *Runner) Output(i int) ([]float32, error) {
	v := r.Outputs[i]
	out := make([]float32, v.Shape.Len(r.Bind))
	if leaf := stateOf(v); leaf != nil {
		return out, r.Session.ReadState(leaf, out)
	}
	copy(out, r.Session.F32(v))
	return out, nil
}

// stateOf follows an in-place version to its state leaf; nil for others.
func stateOf(v *graph.Value) *graph.Value {
	for v.Node.Leaf == nil {
		in, ok := v.Node.Op.InPlace[v.Index]
		if !ok {
			return nil
		}
		v = v.Node.In[in]
	}
	if v.Node.Leaf.Kind != graph.StateLeaf {
		return nil
	}
	return v
}

func (b *Bench) outputs(be plan.Backend, o Options, outs []*graph.Value) (res [][]float32, err error) {
	r, err := b.Open(be, o, outs...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := r.Session.Close(); err == nil {
			err = e
		}
	}()
	if err := r.Run(); err != nil {
		return nil, err
	}
	for i := range outs {
		out, err := r.Output(i)
		if err != nil {
			return nil, err
		}
		res = append(res, out)
	}
	return res, nil
}

// Compare returns an error that names the first element of got further from
// want than tol times the largest element.
func Compare(got, want []float32, tol float64) error {
	// Operands are of size 1: a result that cancels to 0 keeps their rounding.
	return compareAbove(got, want, tol, 0.1)
}

// compareAbove is Compare with a least size of the largest element.
func compareAbove(got, want []float32, tol, scale float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d elements, expected %d", len(got), len(want))
	}
	for _, v := range want {
		scale = max(scale, math.Abs(float64(v)))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= tol*scale) {
			return fmt.Errorf("element %d is %g, expected %g (largest is %g)", i, got[i], want[i], scale)
		}
	}
	return nil
}
