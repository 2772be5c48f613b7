package tensor

import "math"

// An MXFP4 block is a byte e, which stands for the power of two 2^(e-127), and
// 16 bytes of 4-bit floats (sign, two bits of exponent, one of mantissa) in
// the order of Q4_0. The table has twice their values, so the scale is half.

var mxfp4Levels = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// LevelMXFP4 is what a code of MXFP4 stands for, times half the scale.
func LevelMXFP4(q int) float32 { return float32(mxfp4Levels[q&15]) }

// mxfp4Half is 2^(e-128), subnormal for the two smallest.
func mxfp4Half(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

func decodeMXFP4(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[17:] {
		decodeLevels((*[32]float32)(dst), src[1:17], mxfp4Half(src[0]), &mxfp4Levels)
	}
}

// encodeMXFP4 tries the power of two that puts the largest value on the top of
// the table, and its neighbours: the smaller one clips a lone large value.
func encodeMXFP4(dst []byte, src, weight []float32) error {
	var q, best [32]int8
	for block := 0; len(src) >= 32; block, dst, src = block+1, dst[17:], src[32:] {
		x, w := src[:32], weightsOf(weight, block, 32)
		largest, err := largestOf(MXFP4, block, x)
		if err != nil {
			return err
		}
		clear(dst[:17])
		if largest == 0 {
			continue
		}
		_, exp := math.Frexp(float64(largest)) // largest is 0.5 to 1 times 2^exp
		least := math.Inf(1)
		for e := exp + 123; e <= exp+125; e++ {
			e := byte(min(max(e, 0), 254))
			if err := nearestMXFP4(&q, x, w, mxfp4Half(e)); err < least {
				least, best, dst[0] = err, q, e
			}
		}
		packNibbles(dst[1:17], &best, 0)
	}
	return nil
}

// nearestMXFP4 picks the nearest codes and gives their error.
func nearestMXFP4(q *[32]int8, x, w []float32, d float32) (sum float64) {
	for i, v := range x {
		a := float64(v) / float64(d) // may be subnormal in float32
		code := int8(0)
		if a < 0 {
			code, a = 8, -a
		}
		k := int8(0)
		for k < 7 && a > float64(mxfp4Levels[k]+mxfp4Levels[k+1])/2 {
			k++
		}
		e := a - float64(mxfp4Levels[k])
		sum += float64(w[i]) * e * e * float64(d) * float64(d)
		q[i] = code | k
	}
	return sum
}
