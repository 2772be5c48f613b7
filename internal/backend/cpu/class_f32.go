package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// f32class multiplies in f32, with matrices of any storage type, and with state
// and results of other steps.
type f32class struct{}

var f32Panels = &plan.Format{
	Name:  "f32 panels",
	Bytes: func(rows, cols int) int64 { return 4 * int64(gemm.PackedLen(rows, cols)) },
}

// Kernels of the class.
const (
	f32Rows   = "rows"   // few rows with the file's rows as they lie
	f32Packed = "panels" // resident panels
	f32Stored = "stored" // panels decoded from the file's rows
	f32State  = "state"  // panels made of state or of another step's result
)

func (f32class) rules(q request) (few, many []plan.Rule) {
	if !q.invariant {
		// several reports whether another class has better kernels for several
		// rows. On tiles, panels are unpacked faster than rows are decoded. This
		// kernel is then for one row only.
		several := func(main Precision, m plan.Matrix) bool {
			w := shapeOf(m)
			return main == BF16 && (bf16.CanFew(w) || bf16.Unpacks(w)) || (main == BF16 || main == I16G32) && gemm.CanCodes(w)
		}
		few = append(few, q.each(plan.Rule{Class: "f32", Kernel: f32Rows, From: 1, To: 1}, several)...)
		few = append(few, q.each(plan.Rule{Class: "f32", Kernel: f32Rows, From: 1, To: gemm.FewRows},
			func(main Precision, m plan.Matrix) bool { return !several(main, m) })...)
	}
	many = append(many, q.each(plan.Rule{Class: "f32", Kernel: f32Packed, Packing: f32Panels},
		func(main Precision, m plan.Matrix) bool { return main == F32 && m.DType == tensor.F32 && !q.noPack })...)
	many = append(many, q.each(plan.Rule{Class: "f32", Kernel: f32Stored},
		func(main Precision, m plan.Matrix) bool { return true })...)
	notWeight := func(m plan.Matrix) bool { return !m.Weight() }
	return few, append(many,
		plan.Rule{Class: "f32", Op: graph.OpLinear, Kernel: f32State, Weights: notWeight},
		plan.Rule{Class: "f32", Op: graph.OpLinearDX, Kernel: f32State, Weights: func(plan.Matrix) bool { return true }})
}

func (f32class) pack(b *Backend, w plan.Weight, n, k int) (weight, error) {
	p := gemm.NewPacked(floats(b.packed.take(gemm.PackedLen(n, k)*4)), n, k)
	p.PackB(floats(w.Data), k, 0, gemm.NumPanels(n))
	return &f32Weight{p}, nil
}

type f32Weight struct{ p gemm.Packed }

func (w *f32Weight) Bytes() int64 { return int64(len(w.p.Data)) * 4 }

func (w *f32Weight) unpackRow(dst []float32, r int) {
	p := &w.p
	for k := range dst {
		dst[k] = p.Data[(r/p.NR*p.K+k)*p.NR+r%p.NR]
	}
}

func (f32class) bind(b *binder, m *matrix, r *plan.Rule) (way, error) {
	panels := &f32Way{n: m.n, k: m.k, split_: split{mr: gemm.MR(), nr: gemm.NR()}, scratch: b.gemmScratch()}
	switch r.Kernel {
	case f32Packed:
		panels.named, panels.split_.cheap, panels.b = "gemm f32 panels", true, &m.w.(*f32Weight).p
		return panels, nil
	case f32State:
		panels.named, panels.b = "gemm f32 rows", &gemm.Rows{W: b.f32(m.value).full, N: m.n, K: m.k, LD: m.k}
		return panels, nil
	}
	stored, err := b.stored(m)
	if err != nil {
		return nil, err
	}
	if r.Kernel == f32Stored {
		panels.named, panels.b = named("gemm f32 from "+storedAs(stored)), stored
		return panels, nil
	}
	return &f32Direct{named("rows f32 from " + storedAs(stored)), stored, b.oneRow(m.k)}, nil
}

// f32Way multiplies with panels.
type f32Way struct {
	named
	n, k    int
	b       gemm.Panels
	split_  split
	scratch *perWorker[*gemm.Scratch]
}

func (p *f32Way) split() split { return p.split_ }

func (p *f32Way) multiply(w *worker, t task, c0, c1 int) {
	nr := gemm.NR()
	g := gemm.Task{M: t.rows, N: p.n, K: p.k, A: t.x.f32, LDA: p.k, B: p.b, C: t.y, LDC: p.n, Bias: t.bias, Epoch: w.epoch}
	gemm.Run(&g, 0, t.rows, c0/nr, (c1+nr-1)/nr, p.scratch.of[w.lane])
}

// f32Direct multiplies few rows with the file's rows in place.
type f32Direct struct {
	named
	w   *gemm.Stored
	one *perWorker[*oneRow]
}

func (p *f32Direct) split() split { return split{mr: gemm.MR(), nr: gemm.NR()} }

func (p *f32Direct) multiply(w *worker, t task, c0, c1 int) {
	k, n := p.w.K, p.w.N
	if s := p.one.of[w.lane]; t.rows == 1 {
		gemm.GemvRows(t.y, p.w, t.x.f32[:k], s.prepared(t.x.f32[:k], p.w.DType, w.epoch), c0, c1)
	} else {
		gemm.Few(t.y, n, p.w, t.x.f32, k, t.rows, c0, c1, s.room(k))
	}
	if t.bias == nil {
		return
	}
	for r := range t.rows {
		row := t.y[r*n+c0 : r*n+c1]
		vec.Add(row, row, t.bias[c0:c1])
	}
}

// oneRow is a row of x, encoded for the kernels of a storage type. It is encoded
// once for all shares of a step and for siblings of one type.
type oneRow struct {
	buf []float32 // as much as the longest row needs
	// What it holds.
	of    *float32
	d     tensor.DType
	k     int
	epoch uint64
}

func (b *binder) oneRow(k int) *perWorker[*oneRow] {
	return scratchFor(b, "one row", [2]int{k}, func(size [2]int) *oneRow {
		return &oneRow{buf: make([]float32, gemm.XSumsLen(size[0]))}
	})
}

// prepared is the form of x for weights of type d, unless it is there already.
func (o *oneRow) prepared(x []float32, d tensor.DType, epoch uint64) []float32 {
	if len(x) > 0 && (o.of != &x[0] || o.d != d || o.k != len(x) || o.epoch != epoch) {
		gemm.XSums(o.buf, x, d)
		o.of, o.d, o.k, o.epoch = &x[0], d, len(x), epoch
	}
	return o.buf
}

// room returns the buffer for rows of k values and discards its contents.
func (o *oneRow) room(k int) []float32 {
	o.of = nil
	return o.buf[:gemm.XSumsLen(k)]
}

// gemmScratch is the scratch of f32 products of any size.
func (b *binder) gemmScratch() *perWorker[*gemm.Scratch] {
	return scratchFor(b, "gemm", [2]int{}, func([2]int) *gemm.Scratch { return gemm.NewScratch(nil) })
}

// stored views a matrix that is resident in its storage type.
func (b *binder) stored(m *matrix) (*gemm.Stored, error) {
	if c, ok := m.w.(*codeWeight); ok {
		return c.w, nil
	}
	f, err := m.file()
	if err != nil {
		return nil, err
	}
	return gemm.NewStored(f.rows, f.dtype, m.n, m.k)
}

// storedAs is the storage type of weights, and that they are in panels, for the
// profile.
func storedAs(w *gemm.Stored) string {
	if w.InPanels {
		return w.DType.String() + " panels"
	}
	return w.DType.String()
}

// shapeOf is a matrix in the file's rows, without its data.
func shapeOf(m plan.Matrix) *gemm.Stored {
	return &gemm.Stored{DType: m.DType, N: m.N, K: m.K, RowBytes: m.DType.RowBytes(m.K)}
}
