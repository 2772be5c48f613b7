package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/int8"
	"hotpath/internal/plan"
)

// i8class multiplies the file's own codes with activations that are quantized by
// 32: the same bytes, in another order.
type i8class struct{}

// i8Panels has as many bytes as the file's rows, up to whole panels. Their size
// depends on the file's type, which a size function does not know.
var i8Panels = &plan.Format{Name: "i8 panels"}

func (i8class) rules(q request) (few, many []plan.Rule) {
	if q.precision != I8G32 {
		return nil, nil
	}
	takes := func(m plan.Matrix) bool { return m.Weight() && q.main(graph.OpLinear, m) == I8G32 }
	return nil, []plan.Rule{
		{Class: "i8g32", Op: graph.OpLinear, Weights: takes, Packing: i8Panels},
		{Class: "i8g32", Op: graph.OpEmbed, Weights: takes, Packing: i8Panels},
		{Class: "f32", Op: graph.OpEmbed, Weights: func(plan.Matrix) bool { return true }},
	}
}

func (i8class) pack(b *Backend, w plan.Weight, n, k int) (weight, error) {
	stored, err := gemm.NewStored(w.Data, w.DType, n, k)
	if err != nil {
		return nil, err
	}
	size, err := int8.PackedLen(stored)
	if err != nil {
		return nil, err
	}
	p, err := int8.Pack(b.packed.take(size), stored)
	if err != nil {
		return nil, err
	}
	return &i8Weight{p, w.DType.String()}, nil
}

type i8Weight struct {
	p     *int8.Packed
	dtype string
}

func (w *i8Weight) Bytes() int64                   { return int64(len(w.p.Data)) }
func (w *i8Weight) unpackRow(dst []float32, r int) { w.p.UnpackRow(dst, r) }

func (i8class) bind(b *binder, m *matrix, _ *plan.Rule) (way, error) {
	w := m.w.(*i8Weight)
	return &i8Way{named("gemm i8g32 " + w.dtype), m.n, m.k, w.p,
		scratchFor(b, "i8", [2]int{m.k}, func(size [2]int) *int8.Scratch { return int8.NewScratch(size[0]) })}, nil
}

// i8Way multiplies with panels.
type i8Way struct {
	named
	n, k    int
	w       *int8.Packed
	scratch *perWorker[*int8.Scratch]
}

func (p *i8Way) split() split { return split{mr: int8.MR, nr: int8.NR, cheap: true} }

func (p *i8Way) multiply(w *worker, t task, c0, c1 int) {
	g := int8.Task{M: t.rows, N: p.n, K: p.k, A: t.x.f32, LDA: p.k, B: p.w, C: t.y, LDC: p.n, Bias: t.bias, Epoch: w.epoch}
	int8.Run(&g, 0, t.rows, c0/int8.NR, (c1+int8.NR-1)/int8.NR, p.scratch.of[w.lane])
}
