package hotpath

import "math"

// QuantizeInt8 writes v as signed bytes and returns the scale: v[i] is about
// scale*dst[i]. The element that is largest in magnitude becomes 127 or -127,
// so the cosine of two such vectors needs no scale. NaN becomes 0, an infinity
// 127 or -127 whatever the scale. If dst is shorter than v, the rest of v is left
// out.
func QuantizeInt8(dst []int8, v []float32) (scale float32) {
	v = v[:min(len(v), len(dst))]
	var top float32
	for _, x := range v {
		if size := max(x, -x); size <= math.MaxFloat32 { // NaN is not
			top = max(top, size)
		}
	}
	inverse := 0.0
	if top > 0 {
		inverse = 127 / float64(top)
	}
	for i, x := range v {
		switch y := float64(x); {
		case y != y:
			dst[i] = 0
		case math.IsInf(y, 1):
			dst[i] = 127
		case math.IsInf(y, -1):
			dst[i] = -127
		default:
			dst[i] = int8(math.RoundToEven(y * inverse))
		}
	}
	return top / 127
}

// QuantizeBinary writes one bit an element, set where it is above zero, the
// first element being the highest bit of the first byte; missing elements of
// the last byte count as zero. It writes (len(v)+7)/8 bytes, or as many as dst
// has. These are the bits
// of sentence-transformers' "ubinary"; its "binary" is the same less 128.
func QuantizeBinary(dst []byte, v []float32) {
	if (len(v)+7)/8 > len(dst) {
		v = v[:8*len(dst)]
	}
	clear(dst[:(len(v)+7)/8])
	for i, x := range v {
		if x > 0 {
			dst[i/8] |= 0x80 >> (i % 8)
		}
	}
}
