package int8

import (
	"unsafe"

	"hotpath/internal/kernel/isa"
)

//go:noescape
func dotQ8AVX2(t *dotArgs)

//go:noescape
func dotQ4AVX2(t *dotArgs)

//go:noescape
func dotQ8AVXVNNI(t *dotArgs)

//go:noescape
func dotQ4AVXVNNI(t *dotArgs)

//go:noescape
func dotQ8VNNI(t *dotArgs)

//go:noescape
func dotQ4VNNI(t *dotArgs)

//go:noescape
func dotQ8Few(t *dotArgs)

//go:noescape
func dotQ8AMXx1(t *dotArgs)

//go:noescape
func dotQ8AMXx2(t *dotArgs)

//go:noescape
func dotQ4AMXx1(t *dotArgs)

//go:noescape
func dotQ4AMXx2(t *dotArgs)

//go:noescape
func unpackQ4AVX512(dst, src *byte, groups int)

//go:noescape
func quantizeAVX2(t *quantArgs)

//go:noescape
func quantizeAVX512(t *quantArgs)

// familyOf maps a tier to its kernels; AVX-512 alone has no better bytes than
// AVX2.
func familyOf(t isa.Tier) family {
	return [...]family{isa.Generic: plain, isa.AVX2: avx2, isa.AVXVNNI: avxvnni, isa.AVX512: avx2, isa.VNNI: vnni, isa.AMX: tiles, isa.AMXFP16: tiles}[t]
}

// heights is the rows of a strip of each family.
var heights = [...]int{avx2: 4, avxvnni: 6, vnni: 7, few: 7, tiles: MR}

// configs are tile configurations by the rows of a block, 1 to 32.
var configs = func() (cs [MR + 1][64]byte) {
	for rows := 1; rows <= MR; rows++ {
		c := &cs[rows]
		c[0] = 1 // palette
		set := func(tile, rows, bytes int) { c[16+2*tile], c[48+tile] = byte(bytes), byte(rows) }
		top, bottom := min(rows, 16), rows-16
		set(0, top, 64)
		set(1, top, 64)
		set(4, top, group)
		if bottom > 0 {
			set(2, bottom, 64)
			set(3, bottom, 64)
			set(5, bottom, group)
		}
		set(6, group/4, 64)
		set(7, group/4, 64)
	}
	return cs
}()

// callWork bounds the rows x K of one assembly call to well under 100 us;
// tiles do four times as much.
const callWork = 128 << 10

var zeros [NR]float32

// fewRows is the number of rows up to which vectors beat tiles, by form: a
// tile product of one row takes as long as one of sixteen.
var fewRows = [...]int{q8: 7, q4: 32}

// suit is the family for a number of rows: all give the same bits.
func (f family) suit(id formID, rows int) family {
	if f == tiles && rows <= fewRows[id] {
		return few
	}
	return f
}

// panelFast multiplies quantized rows with one panel.
func panelFast(fam family, t *Task, m, rows, p int, s *Scratch) {
	f := &forms[t.B.form]
	panel := t.B.panel(p)
	groups := t.K / group
	if fam == tiles && f.min {
		unpackQ4AVX512(&s.panel[0], &panel[0], groups)
		panel = s.panel
	}
	n0 := p * NR
	cols := min(NR, t.N-n0)
	a := &s.args
	*a = dotArgs{
		sb: &panel[0], b: &panel[f.header], lda: s.lda, lds: s.rows * 4,
		groups: groups, buf: &s.buf[0],
		ahead: 2048,
	}
	if rows > heights[fam] || fam < vnni {
		a.ahead = len(panel) // this one is near after the first pass
	}
	init := zeros[:]
	if t.Bias != nil && !t.Accumulate {
		init = t.Bias[n0 : n0+cols]
		if cols < NR {
			clear(s.bias)
			copy(s.bias, init)
			init = s.bias
		}
	}
	// Tiles take blocks of 32 rows and what is left; the others strips of
	// almost equal height, so that 8 rows are 4+4 and not 7+1.
	h, tall := heights[fam], rows/heights[fam]
	if fam != tiles {
		n := (rows + h - 1) / h
		h, tall = (rows+n-1)/n, n-(n-rows%n)%n
	}
	work := callWork
	if fam == tiles {
		work *= 4
	}
	most := max(1, work/(h*t.K))
	for r := 0; r < rows; {
		strips := 1
		switch {
		case fam == tiles && tall == 0:
			h = rows - r
		case fam != tiles && tall == 0:
			h, tall = h-1, rows
			continue
		case cols == NR && fam >= vnni:
			strips = min(tall, (rows-r)/h, most)
		}
		if cols < NR || fam < vnni {
			dense(fam, t, m, r, h, n0, cols, init, s)
		} else {
			c := t.C[(m+r)*t.LDC+n0:]
			a.c, a.ldc, a.init, a.ldi = &c[0], t.LDC*4, &init[0], 0
			if t.Accumulate {
				a.init, a.ldi = a.c, a.ldc
			}
			dot(fam, t.B.form, r, h, strips, s)
		}
		tall -= strips
		r += h * strips
	}
}

// dense multiplies one strip by way of a tile of its own: at the right edge,
// and for the narrow families, whose sums live there.
func dense(fam family, t *Task, m, r, h, n0, cols int, init []float32, s *Scratch) {
	a := &s.args
	for i := range h {
		row := s.tile[i*NR:][:NR]
		if t.Accumulate {
			copy(row[:cols], t.C[(m+r+i)*t.LDC+n0:])
		} else {
			copy(row, init[:NR])
		}
	}
	a.c, a.ldc = &s.tile[0], NR*4
	a.init, a.ldi = a.c, a.ldc
	dot(fam, t.B.form, r, h, 1, s)
	if fam < vnni && cols > 16 {
		sb, b := a.sb, a.b
		a.sb = (*byte)(unsafe.Add(unsafe.Pointer(sb), 2*16))
		a.b = (*byte)(unsafe.Add(unsafe.Pointer(b), 4*16))
		a.c = &s.tile[16]
		dot(fam, t.B.form, r, h, 1, s)
		a.sb, a.b = sb, b
	}
	for i := range h {
		copy(t.C[(m+r+i)*t.LDC+n0:][:cols], s.tile[i*NR:])
	}
}

// dot multiplies strips of h quantized rows from row r on.
func dot(fam family, id formID, r, h, strips int, s *Scratch) {
	a := &s.args
	a.a, a.sa, a.aux = &s.a[r*s.lda], &s.scale[r], &s.aux[r]
	a.rows, a.strips = h, strips
	switch fam {
	case avx2:
		switch id {
		case q8:
			dotQ8AVX2(a)
		case q4:
			dotQ4AVX2(a)
		}
	case avxvnni:
		switch id {
		case q8:
			dotQ8AVXVNNI(a)
		case q4:
			dotQ4AVXVNNI(a)
		}
	case few:
		switch id {
		case q8:
			dotQ8Few(a)
		case q4:
			dotQ4VNNI(a)
		}
	case vnni:
		switch id {
		case q8:
			dotQ8VNNI(a)
		case q4:
			dotQ4VNNI(a)
		}
	case tiles:
		dotTiles(id, h, a)
	}
}

func dotTiles(id formID, h int, a *dotArgs) {
	a.cfg = &configs[h]
	switch {
	case id == q8 && h > 16:
		dotQ8AMXx2(a)
	case id == q8:
		dotQ8AMXx1(a)
	case h > 16:
		dotQ4AMXx2(a)
	default:
		dotQ4AMXx1(a)
	}
}

// quantizeFast is quantize in assembly, a few rows a call.
func (s *Scratch) quantizeFast(fam family, id formID, x []float32, ldx, rows, k int) {
	f := &forms[id]
	_, _ = x[(rows-1)*ldx+k-1], s.a[rows*s.lda-1]
	q := &s.quant
	*q = quantArgs{lda: s.lda, ldx: 4 * ldx, lds: 4 * s.rows}
	if f.min {
		q.min = 1<<32 - 1
	}
	q.blocks = k / group
	if fam >= vnni {
		q.blocks = k / wide
		if rest := k % wide; rest > 0 {
			q.tail = 1
			for i := range q.masks {
				q.masks[i] = uint16(1<<min(16, max(0, rest-16*i)) - 1)
			}
		}
	}
	most := max(1, callWork/k)
	for r := 0; r < rows; r += most {
		q.codes, q.x, q.scale = &s.a[r*s.lda], &x[r*ldx], &s.scale[r]
		if offsets[fam] != 0 || fam == few || f.min {
			q.aux = &s.aux[r]
		}
		q.rows = min(most, rows-r)
		if fam >= vnni {
			quantizeAVX512(q)
		} else {
			quantizeAVX2(q)
		}
	}
}
