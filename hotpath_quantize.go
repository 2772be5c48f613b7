package hotpath

import "math"

// QuantizeInt8 writes v as signed bytes and returns the scale: v[i] is about
// scale*dst[i]. The element that is largest in magnitude becomes 127 or -127,
// so the cosine of two such vectors needs no scale.
func QuantizeInt8(dst []int8, v []float32) (scale float32) {
	var top float32
	for _, x := range v {
		top = max(top, x, -x)
	}
	if top == 0 {
		clear(dst[:len(v)])
		return 0
	}
	inverse := 127 / float64(top)
	for i, x := range v {
		dst[i] = int8(math.RoundToEven(float64(x) * inverse))
	}
	return top / 127
}

// QuantizeBinary writes one bit an element, set where it is above zero, the
// first element being the highest bit of the first byte; missing elements of
// the last byte count as zero. It writes (len(v)+7)/8 bytes. These are the bits
// of sentence-transformers' "ubinary"; its "binary" is the same less 128.
func QuantizeBinary(dst []byte, v []float32) {
	clear(dst[:(len(v)+7)/8])
	for i, x := range v {
		if x > 0 {
			dst[i/8] |= 0x80 >> (i % 8)
		}
	}
}
