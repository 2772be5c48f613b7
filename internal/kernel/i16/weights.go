package i16

import (
	"encoding/binary"
	"fmt"
	"math"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// Panel is NR columns: weight rows as pairs of K, one scale per 32 of K.
type Panel struct {
	codes  []int16   // [K/2][NR][2]
	scales []float32 // [K/32][NR]
}

func newPanel(kp int) Panel {
	return Panel{make([]int16, kp*NR), make([]float32, kp/Group*NR)}
}

// Weights is the B operand of a Task.
type Weights interface {
	// Panel returns panel p, perhaps built in s.
	Panel(p int, s *Scratch) *Panel
}

// Stored is weights as they lie in a file, made into codes a panel at a time.
type Stored struct{ W *gemm.Stored }

// Panel decodes NR rows.
func (b Stored) Panel(p int, s *Scratch) *Panel {
	panel := &s.panel
	fill(panel, b.W, p*NR, s)
	return panel
}

// fill makes a panel of rows n0 and on.
func fill(dst *Panel, w *gemm.Stored, n0 int, s *Scratch) {
	kp, f := padK(w.K), family()
	rows := min(NR, w.N-n0)
	codes := s.rows[:NR*kp]
	if rows < NR || kp != w.K {
		clear(codes)
		clear(dst.scales)
	}
	if w.DType == tensor.Q8_0 {
		for r := range rows {
			widenRow(f, codes[r*kp:][:w.K], w.Data[(n0+r)*w.RowBytes:][:w.RowBytes], dst.scales[r:])
		}
	} else {
		wide := s.wide[:NR*kp]
		if kp != w.K {
			clear(wide)
		}
		w.Decode(wide, kp, n0, rows, 0, w.K)
		for r := range rows {
			quantizeRow(f, codes[r*kp:][:kp], wide[r*kp:][:kp], dst.scales[r:], NR, limitW)
		}
	}
	gemm.TransposePairs(dst.codes, codes, NR, kp)
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
		fill(&panel, w, i*NR, s)
		p.panels = append(p.panels, panel)
	}
	return p
}

// Panel is one of the resident ones.
func (p *Packed) Panel(i int, _ *Scratch) *Panel { return &p.panels[i] }

// Bytes is the resident size.
func (p *Packed) Bytes() int64 { return int64(PackedBytes(p.N, p.K)) }

// UnpackRow writes row n of the weights back, as they were rounded.
func (p *Packed) UnpackRow(w []float32, n int) {
	b := &p.panels[n/NR]
	for k := range w[:p.K] {
		w[k] = float32(b.codes[k/2*2*NR+n%NR*2+k%2]) * b.scales[k/Group*NR+n%NR]
	}
}

// widenGeneric takes the codes of a row of Q8_0: an f16 scale, 32 codes.
func widenGeneric(dst []int16, src []byte, scales []float32) {
	for g := range len(dst) / Group {
		block := src[g*34:][:34]
		scales[g*NR] = tensor.F16ToF32(binary.LittleEndian.Uint16(block))
		for i, c := range block[2:] {
			dst[g*Group+i] = int16(int8(c))
		}
	}
}

// tiny is 2^-100: a group whose largest value is smaller counts as nothing.
const tiny = 0x1p-100

// quantizeGeneric makes codes of whole groups; scales lie stride apart.
func quantizeGeneric(dst []int16, src, scales []float32, stride int, limit float32) {
	for g := 0; g < len(src); g += Group {
		var largest uint32 // of the bits, where a NaN is greatest
		for _, v := range src[g : g+Group] {
			largest = max(largest, math.Float32bits(v)&0x7fffffff)
		}
		m := math.Float32frombits(max(largest, math.Float32bits(tiny)))
		scales[g/Group*stride] = m / limit
		inv := limit / m
		for i, v := range src[g : g+Group] {
			c := math.RoundToEven(float64(v * inv))
			if !(math.Abs(c) <= float64(limit)) { // a NaN, whose scale says so
				c = -32768
			}
			dst[g+i] = int16(c)
		}
	}
}
