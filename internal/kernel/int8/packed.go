package int8

import (
	"encoding/binary"
	"fmt"
	"math"

	"hotpath/internal/kernel/cpu"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// formID names a layout of panels.
type formID uint8

const (
	q8   formID = iota // Q8_0's codes and scales
	q4                 // Q4_1's codes, scales and minima
	g128               // codes and scales of our own
)

// form is how a panel lies: for every group of K a header, which is [NR]
// scales and [NR] minima, then chunks of 32 of K. A chunk is [8 quads of K][NR
// columns][4], a byte a code or, with nibbles, [4][NR][4] bytes whose high
// halves are the quads 4 to 7. kernelgen has the same table.
type form struct {
	group  int  // of K
	align  int  // K is filled up to a multiple of it
	header int  // bytes
	chunk  int  // bytes
	half   bool // scales are f16, else f32
	min    bool // values are scale·code + minimum, codes are nibbles
}

var forms = [...]form{
	q8:   {group: 32, align: 32, header: 2 * NR, chunk: chunk * NR, half: true},
	q4:   {group: 32, align: 32, header: 4 * NR, chunk: chunk * NR / 2, half: true, min: true},
	g128: {group: 128, align: 64, header: 4 * NR, chunk: chunk * NR},
}

func (f *form) groups(k int) int { return (k + f.group - 1) / f.group }

// chunks is the number of chunks of a row.
func (f *form) chunks(k int) int { return (k + f.align - 1) / f.align * f.align / chunk }

// lastChunks is the number of chunks of the last group.
func (f *form) lastChunks(k int) int { return f.chunks(k) - (f.groups(k)-1)*f.group/chunk }

func (f *form) panelBytes(k int) int { return f.groups(k)*f.header + f.chunks(k)*f.chunk }

// at is where group g begins.
func (f *form) at(g int) int { return g * (f.header + f.group/chunk*f.chunk) }

// code is element k of column n.
func (f *form) code(panel []byte, k, n int, offset byte) int8 {
	c := panel[f.at(k/f.group)+f.header+k%f.group/chunk*f.chunk:]
	i := k % chunk
	if !f.min {
		return int8(c[i/4*4*NR+4*n+i%4] - offset)
	}
	return int8(c[i%16/4*4*NR+4*n+i%4] >> (i / 16 * 4) & 15)
}

// scales are the scale and the minimum of column n in group g.
func (f *form) scales(panel []byte, g, n int) (d, m float32) {
	h := panel[f.at(g):]
	if !f.half {
		return math.Float32frombits(binary.LittleEndian.Uint32(h[4*n:])), 0
	}
	if f.min {
		m = tensor.F16ToF32(binary.LittleEndian.Uint16(h[2*NR+2*n:]))
	}
	return tensor.F16ToF32(binary.LittleEndian.Uint16(h[2*n:])), m
}

// Packed is the resident form of W[N,K] in one of the int8 classes, for the
// tier that was active when it was made.
type Packed struct {
	Data   []byte
	N, K   int
	form   formID
	offset byte // added to every code
}

// Class is the compute class: "i8g32" or "i8g128".
func (p *Packed) Class() string {
	if p.form == g128 {
		return "i8g128"
	}
	return "i8g32"
}

func (p *Packed) panel(i int) []byte {
	size := forms[p.form].panelBytes(p.K)
	return p.Data[i*size : (i+1)*size]
}

// form32 is the layout of a storage type in class i8g32.
func form32(d tensor.DType) (formID, error) {
	switch d {
	case tensor.Q8_0:
		return q8, nil
	case tensor.Q4_1:
		return q4, nil
	}
	return 0, fmt.Errorf("int8: weights of type %v in class i8g32, expected Q8_0 or Q4_1", d)
}

// Takes reports whether class i8g32 has a form for a storage type.
func Takes(d tensor.DType) bool {
	_, err := form32(d)
	return err == nil
}

// Len32 is the number of bytes that w takes in class i8g32: its own, with N
// filled up to whole panels.
func Len32(w *gemm.Stored) (int, error) {
	f, err := form32(w.DType)
	if err != nil {
		return 0, err
	}
	return NumPanels(w.N) * forms[f].panelBytes(w.K), nil
}

// Len128 is the number of bytes of [n,k] in class i8g128.
func Len128(n, k int) int { return NumPanels(n) * forms[g128].panelBytes(k) }

// New32 makes the i8g32 form of w in data, to be filled by Fill.
func New32(data []byte, w *gemm.Stored) (*Packed, error) {
	f, err := form32(w.DType)
	if err != nil {
		return nil, err
	}
	return newPacked(data, f, w.N, w.K)
}

// New128 makes the i8g128 form of [n,k] in data, to be filled by Fill.
func New128(data []byte, n, k int) (*Packed, error) { return newPacked(data, g128, n, k) }

func newPacked(data []byte, f formID, n, k int) (*Packed, error) {
	size := NumPanels(n) * forms[f].panelBytes(k)
	if len(data) < size {
		return nil, fmt.Errorf("int8: packed buffer of [%d,%d] has %d bytes, expected %d", n, k, len(data), size)
	}
	p := &Packed{Data: data[:size], N: n, K: k, form: f}
	if f != q4 {
		p.offset = offsets[familyOf(cpu.Active())]
	}
	return p, nil
}

// Pack32 is New32 and Fill of all panels.
func Pack32(data []byte, w *gemm.Stored) (*Packed, error) {
	p, err := New32(data, w)
	if err != nil {
		return nil, err
	}
	return p, p.Fill(w, 0, NumPanels(w.N))
}

// Pack128 is New128 and Fill of all panels.
func Pack128(data []byte, w *gemm.Stored) (*Packed, error) {
	p, err := New128(data, w.N, w.K)
	if err != nil {
		return nil, err
	}
	return p, p.Fill(w, 0, NumPanels(w.N))
}

// Fill packs panels [p0,p1) of w, which has the shape and, in class i8g32,
// the type that p was made for. Disjoint ranges may be filled at the same
// time.
func (p *Packed) Fill(w *gemm.Stored, p0, p1 int) error {
	if f, err := form32(w.DType); w.N != p.N || w.K != p.K || p.form != g128 && (err != nil || f != p.form) {
		return fmt.Errorf("int8: weights [%d,%d] of type %v do not fit the packed [%d,%d] of class %s", w.N, w.K, w.DType, p.N, p.K, p.Class())
	}
	if p0 < 0 || p1 > NumPanels(p.N) {
		return fmt.Errorf("int8: panels %d..%d of %d", p0, p1, NumPanels(p.N))
	}
	var q *quantizer
	if p.form == g128 {
		q = newQuantizer()
	}
	for i := p0; i < p1; i++ {
		panel := p.panel(i)
		if (i+1)*NR > p.N {
			p.blank(panel)
		}
		if q != nil {
			q.fill(p, w, i)
			continue
		}
		for n := i * NR; n < min(p.N, (i+1)*NR); n++ {
			p.fillRow(panel, w.Data[n*w.RowBytes:][:w.RowBytes], n%NR)
		}
	}
	return nil
}

// blank makes a panel of zeros.
func (p *Packed) blank(panel []byte) {
	f := &forms[p.form]
	clear(panel)
	if p.offset == 0 {
		return
	}
	for g := range f.groups(p.K) {
		codes := panel[f.at(g)+f.header : min(f.at(g+1), len(panel))]
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
	for ; len(row) > 0; panel = panel[f.header+f.chunk:] {
		copy(panel[2*n:], row[:2])
		if f.min {
			copy(panel[2*NR+2*n:], row[2:4])
		}
		row = row[scales:]
		for q := range f.chunk / (4 * NR) {
			binary.LittleEndian.PutUint32(panel[f.header+q*4*NR+4*n:], binary.LittleEndian.Uint32(row[4*q:])^flip)
		}
		row = row[f.chunk/NR:]
	}
}

// FileRow writes row n back as it lay in the file: class i8g32 only.
func (p *Packed) FileRow(row []byte, n int) {
	if p.form == g128 {
		panic("int8: regrouped weights have no rows of a file")
	}
	f := &forms[p.form]
	flip := uint32(p.offset) * 0x01010101
	panel := p.panel(n / NR)
	n %= NR
	for range f.groups(p.K) {
		copy(row[:2], panel[2*n:])
		if f.min {
			copy(row[2:4], panel[2*NR+2*n:])
		}
		row = row[f.header/NR:]
		for q := range f.chunk / (4 * NR) {
			binary.LittleEndian.PutUint32(row[4*q:], binary.LittleEndian.Uint32(panel[f.header+q*4*NR+4*n:])^flip)
		}
		row, panel = row[f.chunk/NR:], panel[f.header+f.chunk:]
	}
}

// UnpackRow writes the values of row n.
func (p *Packed) UnpackRow(w []float32, n int) {
	f := &forms[p.form]
	panel := p.panel(n / NR)
	for k := range w[:p.K] {
		d, m := f.scales(panel, k/f.group, n%NR)
		w[k] = float32(d*float32(f.code(panel, k, n%NR, p.offset))) + m
	}
}
