package int8

import "hotpath/internal/kernel/cpu"

//go:noescape
func dotQ8SDOT(t *dotArgs)

//go:noescape
func dotQ4SDOT(t *dotArgs)

//go:noescape
func dotG128SDOT(t *dotArgs)

//go:noescape
func quantize32NEON(t *quantArgs)

//go:noescape
func quantize128NEON(t *quantArgs)

// familyOf maps a tier to its kernels; NEON alone has no dot products, and the
// plain twin stands in.
func familyOf(t cpu.Tier) family {
	if t == cpu.DotProd {
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
	scale := 4 // bytes
	if f.half {
		scale = 2
	}
	a := &s.args
	*a = dotArgs{lda: s.lda, lds: 4 * s.rows, groups: f.groups(t.K), last: f.lastChunks(t.K)}
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
			a.sb, a.b, a.c = &panel[scale*n], &panel[f.header+4*n], &s.tile[n]
			switch t.B.form {
			case q8:
				dotQ8SDOT(a)
			case q4:
				dotQ4SDOT(a)
			case g128:
				dotG128SDOT(a)
			}
		}
		for i := range a.rows {
			copy(t.C[(m+r+i)*t.LDC+n0:][:cols], s.tile[i*NR:])
		}
	}
}

// callWork bounds the rows x K of one call of the quantizers.
const callWork = 128 << 10

// quantizeFast is quantize in assembly, a few rows a call; a group that is not
// whole is filled up with zeros.
func (s *Scratch) quantizeFast(_ family, id formID, x []float32, ldx, rows, k int) {
	f := &forms[id]
	_, _ = x[(rows-1)*ldx+k-1], s.a[rows*s.lda-1]
	q := &s.quant
	*q = quantArgs{lda: s.lda, ldx: 4 * ldx, lds: 4 * s.rows, blocks: k / f.group}
	most := max(1, callWork/k)
	for r := 0; r < rows && q.blocks > 0; r += most {
		q.codes, q.x, q.scale = &s.a[r*s.lda], &x[r*ldx], &s.scale[r]
		if f.min {
			q.aux = &s.aux[r]
		}
		q.rows = min(most, rows-r)
		quantizeRows(f.group, q)
	}
	full := q.blocks * f.group
	if full == k {
		return
	}
	for r := range rows {
		clear(s.tail)
		copy(s.tail, x[r*ldx+full:][:k-full])
		s.quant1 = quantArgs{codes: &s.a[r*s.lda+full], x: &s.tail[0], scale: &s.scale[q.blocks*s.rows+r], rows: 1, blocks: 1}
		quantizeRows(f.group, &s.quant1)
	}
}

func quantizeRows(group int, q *quantArgs) {
	if group == 32 {
		quantize32NEON(q)
	} else {
		quantize128NEON(q)
	}
}

// quantize128 makes one group of codes and returns its scale.
func quantize128(_ family, codes []int8, x []float32) (d float32) {
	_, _ = codes[127], x[127]
	quantize128NEON(&quantArgs{codes: &codes[0], x: &x[0], scale: &d, rows: 1, blocks: 1})
	return d
}
