package cpu

import (
	"cmp"
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// binder resolves the operands of steps while a plan is bound.
type binder struct {
	be      *Backend
	plan    *plan.Plan
	mem     *plan.Memory
	step    *plan.Step
	workers int
	scratch int             // f32 that some step wants of a worker's scratch
	keyRoom int             // f32 of a block of keys that are decoded, at most
	rooms   map[string]room // scratch of each kind
	err     error           // what fail was told first
}

// want reserves n f32 of each worker's scratch.
func (b *binder) want(n int) { b.scratch = max(b.scratch, n) }

// fail makes Bind end with err. The values that could not be bound are absent:
// nothing runs with them.
func (b *binder) fail(err error) { b.err = cmp.Or(b.err, err) }

// mat is a bound f32 value: rows x cols.
type mat struct {
	full  []float32 // nil if the operand is absent or no step reads it
	cols  int
	outer tensor.Dim
	part  plan.Part // of the rows, from the first of full on
}

func (m *mat) present() bool               { return m.full != nil }
func (m *mat) rows(b tensor.Bind) int      { return m.part.Size(m.outer, b) }
func (m *mat) row(i int) []float32         { return m.full[i*m.cols : (i+1)*m.cols] }
func (m *mat) all(b tensor.Bind) []float32 { return m.full[:m.rows(b)*m.cols] }

// f32 binds an f32 value: an activation, a state, or a weight. A weight with
// another encoding in the file is widened (only small vectors are).
func (b *binder) f32(v *graph.Value) mat {
	if v == nil {
		return mat{}
	}
	m := mat{cols: v.Shape.RowLen(), outer: v.Shape.Outer, part: b.plan.Part(b.step, v)}
	if w := b.weight(v); w != nil {
		n := v.Shape.Len(tensor.Bind{})
		if f, ok := w.(*fileRows); ok && f.dtype == tensor.F32 {
			m.full = floats(f.rows)[:n]
			return m
		}
		m.full = make([]float32, n)
		rows, cols := v.Shape.NumRows(tensor.Bind{}), m.cols
		if v.Shape.Rank() == 1 {
			rows, cols = 1, n
		}
		for r := range rows {
			w.unpackRow(m.full[r*cols:(r+1)*cols], r)
		}
		return m
	}
	if v.DType != tensor.F32 {
		b.fail(fmt.Errorf("%s is not an f32 value", v))
		return m
	}
	if pl, ok := b.plan.Form(v, nil); ok && pl.Bytes > 0 {
		m.full = floats(b.memory(pl))
		m.full = m.full[:min(len(m.full), v.Shape.Len(b.plan.Graph.Max))] // less what rounds it to whole lines
		m.full = m.full[m.part.At*m.cols:]
	}
	return m
}

// memory is the bytes of a place.
func (b *binder) memory(pl plan.Place) []byte {
	return b.mem.Arenas[pl.Class].Host()[pl.Offset : pl.Offset+pl.Bytes]
}

// blocks is v in bf16; nil if the plan has no such form.
func (b *binder) blocks(v *graph.Value) []uint16 {
	if pl, ok := b.plan.Form(v, bf16Blocks); ok && pl.Bytes > 0 {
		return halves(b.memory(pl))[b.plan.Part(b.step, v).At*v.Shape.RowLen():]
	}
	return nil
}

// rounded is v in bf16 if the current step reads it in that format, else nil.
func (b *binder) rounded(v *graph.Value) []uint16 {
	if b.step.ReadAs(v) != bf16Blocks {
		return nil
	}
	return b.blocks(v)
}

// operand binds the left factor of a product, in the format in which the step
// reads it.
func (b *binder) operand(v *graph.Value) operand {
	x := operand{mat: b.f32(v), format: b.step.ReadAs(v)}
	if slices.Contains(b.step.Before, v.Node) {
		x.own = newOwnNorm(b)
		return x
	}
	if x.format != nil {
		at, _ := b.plan.Form(v, x.format)
		x.raw = b.memory(at)[x.format.Bytes(x.part.At, x.cols):]
	}
	return x
}

// operand is the left factor of a product.
type operand struct {
	mat
	format *plan.Format // nil: f32, as the mat has it
	raw    []byte       // in the format
	own    *ownNorm     // what makes it in each worker, where not nil
}

// from is x from row m on.
func (x *operand) from(m int) factor {
	if x.format != nil {
		return factor{raw: x.raw[x.format.Bytes(m, x.cols):]}
	}
	return factor{f32: x.full[m*x.cols:]}
}

// cut is the split of a product with this left operand.
func (x *operand) cut(s split) split {
	s.ready = x.format != nil
	return s
}

// of is the operand for a worker with share i of the step.
func (x *operand) of(w *worker, b tensor.Bind, i int) operand {
	if x.own != nil {
		return x.own.of(w, b, i)
	}
	return *x
}

// classOf is the compute class of a step: the class of its first node with rules.
func classOf(s *plan.Step) Precision {
	for k, n := range s.Nodes {
		if s.Choices[k] != nil && slices.Contains(s.Core(), n) {
			return Precision(s.Class(k))
		}
	}
	return F32
}

// choices are the rules of node n of the current step.
func (b *binder) choices(n *graph.Node) []plan.Choice {
	return b.step.Choices[slices.Index(b.step.Nodes, n)]
}

// mats binds several values at once.
func (b *binder) mats(vs ...*graph.Value) []mat {
	ms := make([]mat, len(vs))
	for i, v := range vs {
		ms[i] = b.f32(v)
	}
	return ms
}

// ints is a bound int32 value.
type ints struct {
	full  []int32
	cols  int
	outer tensor.Dim
	part  plan.Part
}

func (v *ints) all(b tensor.Bind) []int32 { return v.full[:v.part.Size(v.outer, b)*v.cols] }

func (b *binder) i32(v *graph.Value) ints {
	o := plan.BindOperand(b.plan, b.mem, v)
	var t graph.Tensor
	o.View(b.plan.Max, &t)
	part := b.plan.Part(b.step, v)
	return ints{t.I32[part.At*t.Cols : cap(t.I32)], t.Cols, v.Shape.Outer, part}
}

// optionalI32 is the memory of an integer value of fixed size; nil if there is
// none.
func (b *binder) optionalI32(v *graph.Value) []int32 {
	if v == nil {
		return nil
	}
	return b.i32(v).full
}

// weight is the packed form of a weight leaf, nil for other values.
func (b *binder) weight(v *graph.Value) weight {
	if v.Node.Leaf == nil || v.Node.Leaf.Kind != graph.WeightLeaf {
		return nil
	}
	return b.mem.Weights[v.ID].(weight)
}

// share is the part [lo,hi) of n items that belongs to worker i of w, in
// whole multiples of grain but for the last.
func share(n, grain, i, w int) (lo, hi int) {
	units := (n + grain - 1) / grain
	lo = min(n, units*i/w*grain)
	hi = min(n, units*(i+1)/w*grain)
	return lo, hi
}

// minWork is the minimum work per worker, in elements touched. Below it, waking a
// worker costs more than it saves: a barrier costs about a quarter of a
// microsecond.
const minWork = 8192

// maxWork is the maximum work per share. A larger step is cut into more shares,
// because a cancellation waits for the current share.
const maxWork = 1 << 23

// widthFor bounds workers so that each gets at least minWork, and shares by maxWork.
func widthFor(elements, n int) int {
	return max(1, min(max(n, elements/maxWork), elements/minWork))
}

// reference runs an op's reference implementation on one worker.
type reference struct{ call *plan.BoundCall }

func bindReference(b *binder, s *plan.Step) (kernel, error) {
	if len(s.Nodes) != 1 || s.Chunk.Rows > 0 {
		return nil, fmt.Errorf("%s of several nodes, or of a chunk of rows, has no kernel", s.Kind)
	}
	if op := s.Root().Op; op.Scratch != nil && s.Scratch.Bytes == 0 && op.Scratch(s.Root(), b.plan.Max) > 0 {
		return nil, fmt.Errorf("%s runs its reference, but the plan has no scratch for it", s.Kind)
	}
	call := plan.BindNode(b.plan, b.mem, s, s.Root(), func(v *graph.Value) (tensor.DType, []byte) {
		if w, ok := b.weight(v).(*fileRows); ok {
			return w.dtype, w.rows
		}
		b.fail(fmt.Errorf("%s was packed for products only", v))
		return tensor.F32, nil
	})
	return &reference{call}, nil
}

func (k *reference) name() string               { return "reference" }
func (k *reference) width(tensor.Bind, int) int { return 1 }
func (k *reference) runShare(_ *worker, b tensor.Bind, _, _ int) {
	k.call.Set(b)
	k.call.Call.Node.Op.Ref(&k.call.Call)
}
