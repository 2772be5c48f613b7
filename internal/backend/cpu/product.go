package cpu

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/amx"
	"hotpath/internal/kernel/cpu"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// Precision asks for compute classes of products.
type Precision string

const (
	// Auto is the fastest class of this machine that keeps vectors close to
	// f32: bf16 where there are tiles for it.
	Auto Precision = "auto"
	// F32 computes every product in f32.
	F32 Precision = "f32"
	// BF16 rounds the operands of products with weights to bf16 and sums in
	// f32.
	BF16 Precision = "bf16"
)

// ParsePrecision checks a precision's name; the empty one is Auto.
func ParsePrecision(s string) (Precision, error) {
	switch p := Precision(s); p {
	case "":
		return Auto, nil
	case Auto, F32, BF16:
		return p, nil
	}
	return Auto, fmt.Errorf("cpu: precision %q, expected f32, bf16 or auto", s)
}

// class is the compute class of products with weights.
func (p Precision) class() Precision {
	if p == Auto || p == "" {
		if cpu.Active() >= cpu.AMX {
			return BF16
		}
		return F32
	}
	return p
}

// product is W[N,K] as the B operand of x w^T, in its compute class.
type product struct {
	n, k   int
	class  Precision
	f32    gemm.Panels
	bf16   []amx.Panels // [worker]
	cheap  bool         // panels cost nothing to fetch: rows may be cut anywhere
	stored *gemm.Stored // the file's rows, where they are resident
	label  string
}

// newProduct finds the resident form of w, or views state that training
// rewrites.
func newProduct(b *binder, w *graph.Value) (*product, error) {
	p := &product{n: w.Shape.NumRows(tensor.Bind{}), k: w.Shape.RowLen(), class: F32}
	packed := b.weight(w)
	switch {
	case packed == nil:
		m, err := b.f32(w)
		p.f32, p.label = &gemm.Rows{W: m.full, N: p.n, K: p.k, LD: p.k}, "gemm f32 rows"
		return p, err
	case packed.panels != nil:
		p.f32, p.cheap, p.label = packed.panels, true, "gemm f32 panels"
		return p, nil
	case packed.tiles != nil:
		p.class, p.cheap, p.label = BF16, true, "gemm bf16 panels"
		for range b.workers {
			p.bf16 = append(p.bf16, packed.tiles)
		}
		b.wantTiles(p.k)
		return p, nil
	}
	stored, err := gemm.NewStored(packed.rows, packed.dtype, p.n, p.k)
	if err != nil {
		return nil, err
	}
	p.stored, p.class = stored, b.be.opts.Precision.class()
	p.label = fmt.Sprintf("gemm %s from %s", p.class, packed.dtype)
	if p.class == BF16 {
		for range b.workers {
			p.bf16 = append(p.bf16, amx.NewStored(stored))
		}
		b.wantTiles(p.k)
	} else {
		p.f32 = stored
	}
	return p, nil
}

// computeClass is for the profile, whose ceilings depend on it.
func (p *product) computeClass() Precision { return p.class }

// tile is the block of rows and columns that work is shared out in.
func (p *product) tile() (mr, nr int) {
	if p.class == BF16 {
		return amx.MR, amx.NR
	}
	return gemm.MR(), gemm.NR()
}

// run computes rows [m0,m1) of panels [p0,p1) of y = x w^T + bias.
func (p *product) run(w *worker, y, x, bias []float32, rows, m0, m1, p0, p1 int) {
	if p.class == BF16 {
		t := amx.Task{M: rows, N: p.n, K: p.k, A: x, LDA: p.k, B: p.bf16[w.lane], C: y, LDC: p.n, Bias: bias}
		amx.Run(&t, m0, m1, p0, p1, w.scratch.tiles)
		return
	}
	t := gemm.Task{M: rows, N: p.n, K: p.k, A: x, LDA: p.k, B: p.f32, C: y, LDC: p.n, Bias: bias}
	gemm.Run(&t, m0, m1, p0, p1, w.scratch.gemm)
}
