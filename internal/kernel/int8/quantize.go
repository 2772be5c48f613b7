package int8

import "math"

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
		for g, o := 0, r; g < k; g, o = g+group, o+s.rows {
			d, sum := quantizeGroup(s.a[r*s.lda+g:][:group], row[g:][:group])
			s.scale[o] = d
			if f.min {
				s.aux[o] = d * float32(sum)
			} else {
				s.aux[o] = math.Float32frombits(uint32(-128 * sum))
			}
		}
	}
}
