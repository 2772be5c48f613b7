package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// rowCodes are the formats of one row that is rounded for products with panels of codes,
// by the format of the panels: types differ in the order and the number of the bytes. The
// step that makes the row rounds it, each share its own columns. Otherwise each worker of
// the product fetches the whole row in f32 from the caches of other workers and rounds all
// of it. That time does not shrink with the number of workers.
//
// Only rules for exactly one row read and write these formats. A program has a plan of its
// own for one row (buckets), so in that plan lowering finds such rules on both sides. In a
// plan for more rows a value has the same format at every number of rows, and not all
// kernels read codes: there it stays in f32.
var rowCodes = func() map[*plan.Format]*plan.Format {
	out := map[*plan.Format]*plan.Format{}
	for _, d := range codes.Types() {
		bytes := func(rows, cols int) int64 { return int64(rows) * int64(gemm.CodeRowBytes(d, cols)) }
		out[codePanels[d]] = &plan.Format{
			Name:  "codes for " + codePanels[d].Name,
			Bytes: bytes,
			Encode: func(dst []byte, src []float32, rows, cols int) {
				for r := range rows {
					gemm.RoundCodes(dst[bytes(r, cols):], src[r*cols:(r+1)*cols], d)
				}
			},
		}
	}
	return out
}()

// codeGrain is the number of values of a row that are rounded together.
const codeGrain = 32

// inCodes are all formats of rowCodes.
func inCodes(*plan.Step) []*plan.Format {
	var out []*plan.Format
	for _, d := range codes.Types() {
		if f := rowCodes[codePanels[d]]; f != nil {
			out = append(out, f)
		}
	}
	return out
}

// gatedInCodes is inCodes for steps of products that round their result.
func gatedInCodes(s *plan.Step) []*plan.Format {
	if s.Root().Op != graph.OpGLU {
		return nil
	}
	return inCodes(s)
}

// codedRow is the memory of a row in one of rowCodes.
type codedRow struct {
	raw   []byte // nil: the plan has no such form
	dtype tensor.DType
}

// codedRow is v in one of rowCodes, if the plan has such a form.
func (b *binder) codedRow(v *graph.Value) codedRow {
	for _, d := range codes.Types() {
		if f := rowCodes[codePanels[d]]; f != nil {
			if pl, ok := b.plan.Form(v, f); ok && pl.Bytes > 0 {
				return codedRow{b.memory(pl), d}
			}
		}
	}
	return codedRow{}
}

func (r *codedRow) present() bool { return r.raw != nil }

// put rounds x, whole blocks of codeGrain values, which are columns from c on.
func (r *codedRow) put(x []float32, c int) {
	gemm.RoundCodes(r.raw[gemm.CodeRowBytes(r.dtype, c):], x, r.dtype)
}
