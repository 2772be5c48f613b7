package cpu

import (
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/i16"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// i16class rounds both operands to 16-bit integers with a scale per 32 and sums
// in f32. Few rows multiply with the file's own codes.
type i16class struct{}

var i16Panels = &plan.Format{
	Name:  "i16 panels",
	Bytes: func(rows, cols int) int64 { return int64(i16.PackedBytes(rows, cols)) },
}

// Kernels of the class.
const (
	i16Codes  = "codes"  // few rows with the file's codes, in panels or as they lie
	i16Packed = "panels" // resident panels
	i16Stored = "stored" // panels decoded from the file's codes
)

const (
	// tiledCodes is the maximum number of rows at which byte dot products are
	// faster than tiles. tiledNibbles is the same for panels of 4-bit codes,
	// which are unpacked to tiles faster.
	tiledCodes   = 6
	tiledNibbles = 4
	// pairRows is the minimum number of rows per worker. With fewer rows it does
	// not pay to build panels that another worker builds too.
	pairRows = 48
	// pairRowsDecoded is the same if panels cannot be built directly from codes.
	// Building then takes several times as long.
	pairRowsDecoded = 512
)

func (i16class) rules(q request) (few, many []plan.Rule) {
	// One row with the file's rows of 8-bit codes is limited by memory. The f32
	// kernel reads memory in a better order.
	few8 := func(w *gemm.Stored) bool { return w.DType == tensor.Q8_0 && !w.InPanels }
	codes := func(from, to int, alone bool) {
		if q.invariant {
			return
		}
		few = append(few, q.stored(plan.Rule{Class: "i16g32", Kernel: i16Codes, From: from, To: to}, func(main Precision, w *gemm.Stored) bool {
			return (main == BF16 || main == I16G32) && gemm.CanCodes(w) && few8(w) != alone && codeRows(main, w) == to
		})...)
	}
	for _, to := range []int{tiledNibbles, tiledCodes, gemm.CodeRows} {
		codes(1, to, true)
		codes(2, to, false)
	}
	many = append(many, q.each(plan.Rule{Class: "i16g32", Kernel: i16Packed, Packing: i16Panels},
		func(main Precision, m plan.Matrix) bool { return main == I16G32 && !m.DType.Quantized() && !q.noPack })...)
	return few, append(many, q.stored(plan.Rule{Class: "i16g32", Kernel: i16Stored},
		func(main Precision, _ *gemm.Stored) bool { return main == I16G32 })...)
}

// codeRows is the largest number of rows that are multiplied by codes.
func codeRows(main Precision, w *gemm.Stored) int {
	switch {
	case main != BF16 || !bf16.CanFew(w):
		return gemm.CodeRows
	case w.InPanels && w.DType != tensor.Q6_K && w.DType != tensor.Q8_0:
		return tiledNibbles
	}
	return tiledCodes
}

func (i16class) pack(b *Backend, w plan.Weight, n, k int) (weight, error) {
	stored, err := gemm.NewStored(w.Data, w.DType, n, k)
	if err != nil {
		return nil, err
	}
	mem, size := b.packed.take(i16.PackedBytes(n, k)), i16.PackedLen(n, k)
	codes := unsafe.Slice((*int16)(unsafe.Pointer(&mem[0])), size)
	return &i16Weight{i16.Pack(codes, floats(mem[2*size:]), stored)}, nil
}

type i16Weight struct{ p *i16.Packed }

func (w *i16Weight) Bytes() int64                   { return w.p.Bytes() }
func (w *i16Weight) unpackRow(dst []float32, r int) { w.p.UnpackRow(dst, r) }

func (i16class) bind(b *binder, m *matrix, r *plan.Rule) (way, error) {
	if r.Kernel == i16Packed {
		return newI16Way(b, m, m.w.(*i16Weight).p, "gemm i16g32 panels", true, pairRows), nil
	}
	stored, err := b.stored(m)
	if err != nil {
		return nil, err
	}
	own := pairRowsDecoded
	if stored.DType == tensor.Q8_0 {
		own = pairRows
	}
	if r.Kernel == i16Stored {
		return newI16Way(b, m, i16.Stored{W: stored}, named("gemm i16g32 from "+storedAs(stored)), false, own), nil
	}
	return &i16Direct{named("rows i16g32 from " + storedAs(stored)), stored, own,
		scratchFor(b, "codes", [2]int{m.k}, func(size [2]int) *gemm.CodeScratch { return gemm.NewCodeScratch(size[0]) })}, nil
}

// i16Way multiplies with panels.
type i16Way struct {
	named
	n, k    int
	w       i16.Weights
	act     i16.Act // what products end with
	split_  split
	scratch *perWorker[*i16.Scratch]
}

func newI16Way(b *binder, m *matrix, w i16.Weights, label named, cheap bool, own int) *i16Way {
	return &i16Way{named: label, n: m.n, k: m.k, w: w, split_: split{mr: i16.MR(), nr: i16.NR, cheap: cheap, ownRows: own},
		scratch: scratchFor(b, "i16", [2]int{m.k}, func(size [2]int) *i16.Scratch { return i16.NewScratch(size[0]) })}
}

func (p *i16Way) split() split { return p.split_ }

// i16Acts are the activations that products end with while results are in
// registers.
var i16Acts = map[graph.ActKind]i16.Act{graph.GELU: i16.Gelu, graph.GELUTanh: i16.GeluTanh}

// endWith makes products apply an activation at the end, if there is a kernel for
// it.
func (p *i16Way) endWith(kind graph.ActKind) bool {
	p.act = i16Acts[kind]
	return p.act != i16.Plain
}

func (p *i16Way) multiply(w *worker, t task, c0, c1 int) {
	g := i16.Task{M: t.rows, N: p.n, K: p.k, A: t.x.f32, LDA: p.k, W: p.w, C: t.y, LDC: p.n, Bias: t.bias, Act: p.act, Epoch: w.epoch}
	i16.Run(&g, 0, t.rows, c0/i16.NR, (c1+i16.NR-1)/i16.NR, p.scratch.of[w.lane])
}

// i16Direct multiplies few rows with the file's codes.
type i16Direct struct {
	named
	w       *gemm.Stored
	own     int
	scratch *perWorker[*gemm.CodeScratch]
}

func (p *i16Direct) split() split {
	return split{mr: i16.MR(), nr: i16.NR, ownRows: p.own, codes: true}
}

func (p *i16Direct) multiply(w *worker, t task, c0, c1 int) {
	g := gemm.CodeTask{M: t.rows, A: t.x.f32, LDA: p.w.K, W: p.w, C: t.y, LDC: p.w.N, Bias: t.bias, Epoch: w.epoch, Next: w.next}
	gemm.RunCodes(&g, c0, c1, p.scratch.of[w.lane])
}
