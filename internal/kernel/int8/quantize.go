package int8

import (
	"encoding/binary"
	"math"

	"hotpath/internal/kernel/cpu"
	"hotpath/internal/kernel/gemm"
)

// tiny is the bits of 2^-100: a group whose largest value is smaller counts
// as zero, because the inverse of its scale would overflow.
const tiny = 0x0d800000

// quantizeGroup makes codes of x and returns their scale and sum.
func quantizeGroup(codes []int8, x []float32) (scale float32, sum int32) {
	var largest uint32 // of the bits, where a NaN is greatest
	for _, v := range x {
		largest = max(largest, math.Float32bits(v)&0x7fffffff)
	}
	var inv float32
	if largest >= tiny {
		m := math.Float32frombits(largest)
		scale, inv = m/127, 127/m
	}
	for i, v := range x {
		c := math.RoundToEven(float64(float32(v * inv)))
		if !(c >= -128) { // a NaN, whose scale says so
			c = -128
		}
		codes[i] = int8(c)
		sum += int32(codes[i])
	}
	return scale, sum
}

// quantize fills the workspace with rows of k values, ldx apart.
func (s *Scratch) quantize(fam family, id formID, x []float32, ldx, rows, k int) {
	if k == 0 {
		return
	}
	if fam != plain {
		s.quantizeFast(fam, id, x, ldx, rows, k)
		return
	}
	f := &forms[id]
	for r := range rows {
		row := x[r*ldx:][:k]
		for g, o := 0, r; g < k; g, o = g+f.group, o+s.rows {
			n := min(f.group, k-g)
			codes := s.a[r*s.lda+g:][:f.group]
			clear(codes[n:])
			d, sum := quantizeGroup(codes[:n], row[g:g+n])
			s.scale[o] = d
			if f.min {
				s.aux[o] = d * float32(sum)
			} else {
				s.aux[o] = math.Float32frombits(uint32(-128 * sum))
			}
		}
	}
}

// quantizer regroups weights.
type quantizer struct {
	w     []float32 // [NR][128], decoded
	codes []int8    // [128]
}

func newQuantizer() *quantizer {
	return &quantizer{make([]float32, NR*128), make([]int8, 128)}
}

// fill makes panel i of w.
func (q *quantizer) fill(p *Packed, w *gemm.Stored, i int) {
	f := &forms[g128]
	panel := p.panel(i)
	rows := min(NR, p.N-i*NR)
	flip := uint32(p.offset) * 0x01010101
	fam := familyOf(cpu.Active())
	for g := range f.groups(p.K) {
		k0 := g * f.group
		cols := min(f.group, p.K-k0)
		if cols < f.group {
			clear(q.w)
		}
		w.Decode(q.w, f.group, i*NR, rows, k0, cols)
		at := panel[f.at(g):min(f.at(g+1), len(panel))]
		for n := range rows {
			var d float32
			x := q.w[n*f.group:][:f.group]
			if fam == plain {
				d, _ = quantizeGroup(q.codes, x)
			} else {
				d = quantize128(fam, q.codes, x)
			}
			binary.LittleEndian.PutUint32(at[4*n:], math.Float32bits(d))
			for c := range (len(at) - f.header) / (4 * NR) {
				v := q.codes[4*c:][:4]
				u := uint32(uint8(v[0])) | uint32(uint8(v[1]))<<8 | uint32(uint8(v[2]))<<16 | uint32(uint8(v[3]))<<24
				binary.LittleEndian.PutUint32(at[f.header+c*4*NR+4*n:], u^flip)
			}
		}
	}
}
