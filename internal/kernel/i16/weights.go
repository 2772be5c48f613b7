package i16

import (
	"fmt"
	"unsafe"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// Panel is NR columns of some groups of K: weight rows as pairs of K, one scale
// per 32 of K.
type Panel struct {
	codes  []int16   // [K/2][NR][2]
	scales []float32 // [K/32][NR]
}

func newPanel(k int) Panel {
	return Panel{make([]int16, k*NR), make([]float32, k/Group*NR)}
}

// part is groups [g0,g0+groups) of a panel.
func (p Panel) part(g0, groups int) Panel {
	return Panel{p.codes[g0*Group*NR:][:groups*Group*NR], p.scales[g0*NR:][:groups*NR]}
}

// Weights is the B operand of a Task.
type Weights interface {
	// Panel returns groups [g0,g0+groups) of panel p, at most maxGroups, perhaps
	// built in s; g0 is even.
	Panel(p, g0, groups int, s *Scratch) Panel
	// source is the memory that Panel reads for p.
	source(p int) []byte
}

// Stored is weights as they lie in a file, made into codes a block at a time.
type Stored struct{ W *gemm.Stored }

// Panel decodes a part of NR rows.
func (b Stored) Panel(p, g0, groups int, s *Scratch) Panel {
	panel := s.panel.part(0, groups)
	fill(panel, b.W, p*NR, g0*Group, s)
	return panel
}

// source is the panel's rows. Those of a panel of codes are as many bytes.
func (b Stored) source(p int) []byte {
	return b.W.Data[p*NR*b.W.RowBytes : min((p+1)*NR, b.W.N)*b.W.RowBytes]
}

// fill makes a block of rows n0 and on, columns k0 and on, as deep as dst is.
func fill(dst Panel, w *gemm.Stored, n0, k0 int, s *Scratch) {
	f, d := family(), len(dst.codes)/NR
	rows, cols := min(NR, w.N-n0), min(d, w.K-k0)
	part, k0 := w.Unpacked(s.raw, n0, rows, k0, cols)
	codes := s.rows[:NR*d]
	if rows < NR || cols < d {
		clear(codes)
		clear(dst.scales)
	}
	if w.DType == tensor.Q8_0 {
		q := widener{rows: rows, groups: cols / Group, ldd: d, rowBytes: part.RowBytes}
		src := part.Data[w.DType.RowBytes(k0):]
		if q.panel(f, dst, src) {
			return
		}
		q.codes(f, codes, src, dst.scales)
	} else if q := (quantizer{rows: rows, groups: d / Group, lds: d, stride: NR, limit: limitW}); cols < d ||
		!q.stored(f, w.DType, codes, part.Data[w.DType.RowBytes(k0):], part.RowBytes, dst.scales) {
		wide := s.wide[:NR*d]
		if cols < d {
			clear(wide)
		}
		part.Decode(wide, d, 0, rows, k0, cols)
		q.codes(f, codes, wide, dst.scales)
	}
	gemm.TransposePairs(dst.codes, codes, NR, d)
}

// Packed holds all panels of W[N,K]: the resident form of float weights.
type Packed struct {
	N, K   int
	panels []Panel
}

// PackedLen is the number of codes that Packed needs; it needs a scale for each
// 32 of them.
func PackedLen(n, k int) int { return NumPanels(n) * NR * padK(k) }

// PackedBytes is the memory of both.
func PackedBytes(n, k int) int { return PackedLen(n, k)*2 + PackedLen(n, k)/Group*4 }

// Pack makes panels of w in codes and scales.
func Pack(codes []int16, scales []float32, w *gemm.Stored) *Packed {
	kp, n := padK(w.K), NumPanels(w.N)
	if size := PackedLen(w.N, w.K); len(codes) < size || len(scales) < size/Group {
		panic(fmt.Sprintf("i16: %d codes and %d scales for [%d,%d], expected %d and %d", len(codes), len(scales), w.N, w.K, size, size/Group))
	}
	p, s := &Packed{N: w.N, K: w.K}, NewScratch(w.K)
	for i := range n {
		panel := Panel{codes[i*kp*NR:][:kp*NR], scales[i*kp/Group*NR:][:kp/Group*NR]}
		for g, most := 0, depth(kp/Group); g < kp/Group; g += most {
			fill(panel.part(g, min(most, kp/Group-g)), w, i*NR, g*Group, s)
		}
		p.panels = append(p.panels, panel)
	}
	return p
}

// Panel is a part of one of the resident ones.
func (p *Packed) Panel(i, g0, groups int, _ *Scratch) Panel { return p.panels[i].part(g0, groups) }

// source is the panel's codes.
func (p *Packed) source(i int) []byte {
	c := p.panels[i].codes
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c))), 2*len(c))
}

// Bytes is the resident size.
func (p *Packed) Bytes() int64 { return int64(PackedBytes(p.N, p.K)) }

// UnpackRow writes row n of the weights back, as they were rounded.
func (p *Packed) UnpackRow(w []float32, n int) {
	b := &p.panels[n/NR]
	for k := range w[:p.K] {
		w[k] = float32(b.codes[k/2*2*NR+n%NR*2+k%2]) * b.scales[k/Group*NR+n%NR]
	}
}
