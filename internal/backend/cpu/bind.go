package cpu

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// binder resolves the operands of steps while a plan is bound.
type binder struct {
	be        *Backend
	plan      *plan.Plan
	mem       *plan.Memory
	step      *plan.Step
	workers   int
	invariant bool
	scratch   int // f32 that some step wants of a worker's scratch
	tileDepth int // largest K of a bf16 product
	rowDepth  int // largest K of a product of few rows with a file's
	fewDepth  int // largest K of a product of few rows on tiles
	codeDepth int // largest K of a product of few rows with codes as integers
	int8Depth int // largest K of an int8 product
	i16Depth  int // largest K of a 16-bit product
	headDim   int // of the largest head in bf16
	headKeys  int
	f32Dim    int // of the largest head in f32
	f32Keys   int
	keyRoom   int // f32 of a block of keys that are decoded, at most

	roundings map[*graph.Value]rounding // what rounding said
}

// want reserves n f32 of each worker's scratch.
func (b *binder) want(n int) { b.scratch = max(b.scratch, n) }

// least is the rows that kernels are chosen for where a value has fewer: those
// of the smallest run that the plan is made for. A run may be smaller where
// somebody asked for this plan, and its rows get the bits of that one's. Only
// rows of tokens are the plan's; those that want logits, or sequences, are
// counted.
func (b *binder) least(rows tensor.Dim) int {
	if rows.Sym != tensor.T {
		return 0
	}
	return b.plan.Min.T
}

// wantTiles reserves scratch for bf16 products of depth k.
func (b *binder) wantTiles(k int) { b.tileDepth = max(b.tileDepth, k) }

// wantFew reserves scratch for the products of few rows with a file's rows.
func (b *binder) wantFew(p *product) {
	b.rowDepth = max(b.rowDepth, p.k)
	if p.tiled {
		b.fewDepth = max(b.fewDepth, p.k)
	}
	if p.coded > 0 {
		b.codeDepth = max(b.codeDepth, p.k)
	}
}

// wantInt8 reserves scratch for int8 products of depth k.
func (b *binder) wantInt8(k int) { b.int8Depth = max(b.int8Depth, k) }

// wantI16 reserves scratch for 16-bit products of depth k.
func (b *binder) wantI16(k int) { b.i16Depth = max(b.i16Depth, k) }

// wantHead reserves scratch for attention in bf16.
func (b *binder) wantHead(dim, keys int) {
	b.headDim, b.headKeys = max(b.headDim, dim), max(b.headKeys, keys)
}

// wantHeadF32 reserves scratch for attention in f32.
func (b *binder) wantHeadF32(dim, keys int) {
	b.f32Dim, b.f32Keys = max(b.f32Dim, dim), max(b.f32Keys, keys)
}

// mat is a bound f32 value: rows x cols.
type mat struct {
	full  []float32 // nil where the operand is absent or nobody wants it
	cols  int
	outer tensor.Dim
}

func (m *mat) present() bool               { return m.full != nil }
func (m *mat) rows(b tensor.Bind) int      { return m.outer.Size(b) }
func (m *mat) row(i int) []float32         { return m.full[i*m.cols : (i+1)*m.cols] }
func (m *mat) all(b tensor.Bind) []float32 { return m.full[:m.rows(b)*m.cols] }

// f32 binds an f32 value: an activation, a state, or a weight, which is
// widened where the file has it in another encoding (vectors, small).
func (b *binder) f32(v *graph.Value) (mat, error) {
	if v == nil {
		return mat{}, nil
	}
	m := mat{cols: v.Shape.RowLen(), outer: v.Shape.Outer}
	if w := b.weight(v); w != nil {
		n := v.Shape.Len(tensor.Bind{})
		switch {
		case w.panels != nil:
			m.full = make([]float32, n)
			w.panels.Unpack(m.full, m.cols)
		case w.tiles != nil || w.int8 != nil || w.i16 != nil:
			m.full = make([]float32, n)
			for r := range n / m.cols {
				w.unpackRow(m.full[r*m.cols:(r+1)*m.cols], r)
			}
		case w.dtype == tensor.F32:
			m.full = floats(w.rows)[:n]
		default:
			m.full = make([]float32, n)
			if err := tensor.Dequantize(m.full, w.dtype, w.rows); err != nil {
				return m, err
			}
		}
		return m, nil
	}
	if v.DType != tensor.F32 {
		return m, fmt.Errorf("%s is no f32 value", v)
	}
	if pl := b.plan.Place(v); pl.Bytes > 0 {
		m.full = floats(b.mem.Arenas[pl.Class].Host()[pl.Offset : pl.Offset+pl.Bytes-pl.Beside])
		m.full = m.full[:min(len(m.full), v.Shape.Len(b.plan.Graph.Max))] // less what rounds it to whole lines
	}
	return m, nil
}

// mats binds several values at once.
func (b *binder) mats(vs ...*graph.Value) ([]mat, error) {
	ms := make([]mat, len(vs))
	for i, v := range vs {
		var err error
		if ms[i], err = b.f32(v); err != nil {
			return nil, err
		}
	}
	return ms, nil
}

// ints is a bound int32 value.
type ints struct {
	full  []int32
	cols  int
	outer tensor.Dim
}

func (v *ints) all(b tensor.Bind) []int32 { return v.full[:v.outer.Size(b)*v.cols] }

func (b *binder) i32(v *graph.Value) ints {
	o := plan.BindOperand(b.plan, b.mem, v)
	var t graph.Tensor
	o.View(b.plan.Max, &t)
	return ints{t.I32[:cap(t.I32)], t.Cols, v.Shape.Outer}
}

// weight is the packed form of a weight leaf, nil for other values.
func (b *binder) weight(v *graph.Value) *weight {
	if v.Node.Leaf == nil || v.Node.Leaf.Kind != graph.WeightLeaf {
		return nil
	}
	return b.mem.Weights[v.ID].(*weight)
}

// share is the part [lo,hi) of n items that belongs to worker i of w, in
// whole multiples of grain but for the last.
func share(n, grain, i, w int) (lo, hi int) {
	units := (n + grain - 1) / grain
	lo = min(n, units*i/w*grain)
	hi = min(n, units*(i+1)/w*grain)
	return lo, hi
}

// minWork is the work, in elements touched, below which a worker is not worth
// waking up: a barrier costs about a quarter of a microsecond.
const minWork = 8192

// maxWork is the work of a share beyond which a step is cut further: who cancels
// waits for it.
const maxWork = 1 << 23

// widthFor bounds workers so that each gets at least minWork, and shares by maxWork.
func widthFor(elements, n int) int {
	return max(1, min(max(n, elements/maxWork), elements/minWork))
}

// reference runs an op's reference implementation on one worker.
type reference struct{ call *plan.BoundCall }

func bindReference(b *binder, s *plan.Step) (kernel, error) {
	if len(s.Nodes) != 1 {
		return nil, fmt.Errorf("pattern %s has no kernel", s.Kind)
	}
	if op := s.Root().Op; op.Scratch != nil && s.Scratch.Bytes == 0 && op.Scratch(s.Root(), b.plan.Max) > 0 {
		return nil, fmt.Errorf("%s runs its reference, but the plan has no scratch for it", s.Kind)
	}
	var err error
	call := plan.BindNode(b.plan, b.mem, s, s.Root(), func(v *graph.Value) (tensor.DType, []byte) {
		w := b.weight(v)
		if w.rows != nil {
			return w.dtype, w.rows
		}
		err = fmt.Errorf("%s was packed for products only", v)
		return tensor.F32, nil
	})
	return &reference{call}, err
}

func (k *reference) name() string               { return "reference" }
func (k *reference) width(tensor.Bind, int) int { return 1 }
func (k *reference) run(_ *worker, b tensor.Bind, _, _ int) {
	k.call.Set(b)
	k.call.Call.Node.Op.Ref(&k.call.Call)
}
