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

// quantize makes row r of the workspace.
func (s *Scratch) quantize(fam family, id formID, x []float32, r int) {
	f := &forms[id]
	codes := s.a[r*s.lda:]
	whole := len(x) / f.group
	full := whole * f.group
	s.quantizeGroups(fam, f.group, codes, x[:full], 0, r)
	if full < len(x) {
		clear(s.tail)
		copy(s.tail, x[full:])
		s.quantizeGroups(fam, f.group, codes[full:], s.tail[:f.group], whole, r)
	}
}

// quantizeGroups makes whole groups, of which the first is number g.
func (s *Scratch) quantizeGroups(fam family, group int, codes []int8, x []float32, g, r int) {
	if len(x) == 0 {
		return
	}
	o := g*s.rows + r
	if fam != plain {
		_ = s.scale[o+(len(x)/group-1)*s.rows]
		quantizeFast(fam, group, codes[:len(x)], x, &s.scale[o], &s.comp[o], &s.xsum[o], s.rows*4)
		return
	}
	for ; len(x) > 0; codes, x, o = codes[group:], x[group:], o+s.rows {
		d, sum := quantizeGroup(codes[:group], x[:group])
		s.scale[o], s.comp[o], s.xsum[o] = d, -128*sum, d*float32(sum)
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
			var d, xsum float32
			var comp int32
			x := q.w[n*f.group:][:f.group]
			if fam == plain {
				d, _ = quantizeGroup(q.codes, x)
			} else {
				quantizeFast(fam, f.group, q.codes, x, &d, &comp, &xsum, 0)
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
