package int8

import (
	"encoding/binary"
	"fmt"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// formID names a layout of panels.
type formID uint8

const (
	q8 formID = iota // Q8_0's codes and scales
	q4               // Q4_1's codes, scales and minima
)

// form is how a panel lies: for every group of K a header, which is [NR] scales
// and [NR] minima in f16, then the codes. These are [8 quads of K][NR
// columns][4], one byte per code or, with nibbles, [4][NR][4] bytes whose high
// halves are the quads 4 to 7. kernelgen has the same table.
type form struct {
	header int  // bytes
	codes  int  // bytes
	min    bool // values are scale·code + minimum, codes are nibbles
}

var forms = [...]form{
	q8: {header: 2 * NR, codes: group * NR},
	q4: {header: 4 * NR, codes: group * NR / 2, min: true},
}

// at is where group g begins.
func (f *form) at(g int) int { return g * (f.header + f.codes) }

// panelBytes is the size of a panel of depth k, which is whole groups.
func (f *form) panelBytes(k int) int { return f.at(k / group) }

// code is element k of column n.
func (f *form) code(panel []byte, k, n int, offset byte) int8 {
	c := panel[f.at(k/group)+f.header:]
	i := k % group
	if !f.min {
		return int8(c[i/4*4*NR+4*n+i%4] - offset)
	}
	return int8(c[i%16/4*4*NR+4*n+i%4] >> (i / 16 * 4) & 15)
}

// scales are the scale and the minimum of column n in group g.
func (f *form) scales(panel []byte, g, n int) (d, m float32) {
	h := panel[f.at(g):]
	if f.min {
		m = tensor.F16ToF32(binary.LittleEndian.Uint16(h[2*NR+2*n:]))
	}
	return tensor.F16ToF32(binary.LittleEndian.Uint16(h[2*n:])), m
}

// Packed is the resident form of W[N,K], for the tier that was active when it
// was made.
type Packed struct {
	Data   []byte
	N, K   int
	form   formID
	offset byte // added to every code
}

func (p *Packed) panel(i int) []byte {
	size := forms[p.form].panelBytes(p.K)
	return p.Data[i*size : (i+1)*size]
}

// formOf is the layout of a storage type.
func formOf(d tensor.DType) (formID, error) {
	switch d {
	case tensor.Q8_0:
		return q8, nil
	case tensor.Q4_1:
		return q4, nil
	}
	return 0, fmt.Errorf("int8: weights of type %v in class i8g32, expected Q8_0 or Q4_1", d)
}

// Takes reports whether there is a form for a storage type.
func Takes(d tensor.DType) bool {
	_, err := formOf(d)
	return err == nil
}

// PackedLen is the number of bytes that w takes: its own, with N filled up to
// whole panels.
func PackedLen(w *gemm.Stored) (int, error) {
	f, err := formOf(w.DType)
	if err != nil {
		return 0, err
	}
	return NumPanels(w.N) * forms[f].panelBytes(w.K), nil
}

// Pack lays w out in data.
func Pack(data []byte, w *gemm.Stored) (*Packed, error) {
	f, err := formOf(w.DType)
	if err != nil {
		return nil, err
	}
	size := NumPanels(w.N) * forms[f].panelBytes(w.K)
	if len(data) < size {
		return nil, fmt.Errorf("int8: packed buffer of [%d,%d] has %d bytes, expected %d", w.N, w.K, len(data), size)
	}
	p := &Packed{Data: data[:size], N: w.N, K: w.K, form: f}
	if f != q4 {
		p.offset = offsets[familyOf(isa.Active())]
	}
	for i := range NumPanels(w.N) {
		panel := p.panel(i)
		if (i+1)*NR > p.N {
			p.blank(panel)
		}
		for n := i * NR; n < min(p.N, (i+1)*NR); n++ {
			p.fillRow(panel, w.Data[n*w.RowBytes:][:w.RowBytes], n%NR)
		}
	}
	return p, nil
}

// blank makes a panel of zeros.
func (p *Packed) blank(panel []byte) {
	f := &forms[p.form]
	clear(panel)
	if p.offset == 0 {
		return
	}
	for g := range p.K / group {
		codes := panel[f.at(g)+f.header : f.at(g+1)]
		for i := range codes {
			codes[i] = p.offset
		}
	}
}

// fillRow scatters a row of the file: its scales and quads of codes.
func (p *Packed) fillRow(panel, row []byte, n int) {
	f := &forms[p.form]
	flip := uint32(p.offset) * 0x01010101
	scales := f.header / NR // bytes
	for ; len(row) > 0; panel = panel[f.at(1):] {
		copy(panel[2*n:], row[:2])
		if f.min {
			copy(panel[2*NR+2*n:], row[2:4])
		}
		row = row[scales:]
		for q := range f.codes / (4 * NR) {
			binary.LittleEndian.PutUint32(panel[f.header+q*4*NR+4*n:], binary.LittleEndian.Uint32(row[4*q:])^flip)
		}
		row = row[f.codes/NR:]
	}
}

// UnpackRow writes the values of row n.
func (p *Packed) UnpackRow(w []float32, n int) {
	f := &forms[p.form]
	panel := p.panel(n / NR)
	for k := range w[:p.K] {
		d, m := f.scales(panel, k/group, n%NR)
		w[k] = float32(d*float32(f.code(panel, k, n%NR, p.offset))) + m
	}
}
