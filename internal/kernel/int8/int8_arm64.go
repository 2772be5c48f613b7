package int8

import "hotpath/internal/kernel/isa"

//go:noescape
func dotQ8SDOT(t *dotArgs)

//go:noescape
func dotQ4SDOT(t *dotArgs)

//go:noescape
func quantizeNEON(t *quantArgs)

// familyOf maps a tier to its kernels; NEON alone has no dot products, and the
// plain twin stands in.
func familyOf(t isa.Tier) family {
	if t == isa.DotProd {
		return sdot
	}
	return plain
}

func (f family) suit(formID, int) family { return f }

const (
	height = 4 // rows of a strip
	width  = 8 // columns of a call
)

// panelFast multiplies quantized rows with one panel, by way of a tile where
// the sums of a strip live.
func panelFast(_ family, t *Task, m, rows, p int, s *Scratch) {
	f := &forms[t.B.form]
	panel := t.B.panel(p)
	n0 := p * NR
	cols := min(NR, t.N-n0)
	a := &s.args
	*a = dotArgs{lda: s.lda, lds: 4 * s.rows, groups: t.K / group}
	for r := 0; r < rows; r += height {
		a.rows = min(height, rows-r)
		for i := range a.rows {
			row := s.tile[i*NR:][:cols]
			switch {
			case t.Accumulate:
				copy(row, t.C[(m+r+i)*t.LDC+n0:])
			case t.Bias != nil:
				copy(row, t.Bias[n0:])
			default:
				clear(row)
			}
		}
		a.a, a.sa, a.aux = &s.a[r*s.lda], &s.scale[r], &s.aux[r]
		for n := 0; n < cols; n += width {
			a.sb, a.b, a.c = &panel[2*n], &panel[f.header+4*n], &s.tile[n]
			switch t.B.form {
			case q8:
				dotQ8SDOT(a)
			case q4:
				dotQ4SDOT(a)
			}
		}
		for i := range a.rows {
			copy(t.C[(m+r+i)*t.LDC+n0:][:cols], s.tile[i*NR:])
		}
	}
}

// callWork bounds the rows x K of one call of the quantizers.
const callWork = 128 << 10

// quantizeFast is quantize in assembly, a few rows per call.
func (s *Scratch) quantizeFast(_ family, id formID, x []float32, ldx, rows, k int) {
	f := &forms[id]
	_, _ = x[(rows-1)*ldx+k-1], s.a[rows*s.lda-1]
	q := &s.quant
	*q = quantArgs{lda: s.lda, ldx: 4 * ldx, lds: 4 * s.rows, blocks: k / group}
	most := max(1, callWork/k)
	for r := 0; r < rows; r += most {
		q.codes, q.x, q.scale = &s.a[r*s.lda], &x[r*ldx], &s.scale[r]
		if f.min {
			q.aux = &s.aux[r]
		}
		q.rows = min(most, rows-r)
		quantizeNEON(q)
	}
}
