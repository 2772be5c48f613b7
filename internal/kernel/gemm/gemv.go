package gemm

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"hotpath/internal/tensor"
)

// XSumsLen is the number of values that XSums makes for k values.
func XSumsLen(k int) int { return k/16 + k }

// XSums prepares an activation row for products with weights of type d, where
// their kernels take another form than x as it is: sums of x by groups, which
// the weights' offsets multiply, then x in an order, or mixed so, that spares
// taking bytes apart. One row needs it once, however many weights of that type
// it meets. x is whole blocks.
func XSums(dst, x []float32, d tensor.DType) {
	if prepared(d) && len(x) > 0 {
		prepare(dst[:XSumsLen(len(x))], x, d)
	}
}

// GemvRows makes dst[n] = w[n]·x for rows n in [n0, n1). xsums comes from
// XSums for the type of w. A row's sum does not depend on the range it was
// asked for in. A row with a scale or minimum that is infinite or no number
// gives one of those, and which one is the kernel's: some take a code's offset
// off the sum and not off the code.
func GemvRows(dst []float32, w *Stored, x, xsums []float32, n0, n1 int) {
	if w.InPanels || n0 < 0 || n1 > w.N || len(dst) < n1 || len(x) != w.K || n1*w.RowBytes > len(w.Data) {
		panic(fmt.Sprintf("gemm: GemvRows of rows %d..%d of [%d, %d] with %d inputs and %d outputs", n0, n1, w.N, w.K, len(x), len(dst)))
	}
	if prepared(w.DType) && len(xsums) < XSumsLen(w.K) {
		panic(fmt.Sprintf("gemm: GemvRows with %d prepared values, expected %d", len(xsums), XSumsLen(w.K)))
	}
	if n0 >= n1 || gemvFast(dst, w, x, xsums, n0, n1) {
		return
	}
	for n := n0; n < n1; n++ {
		dst[n] = gemvTail(w, x, n, 0)
	}
}

// gemvTail is the product of row n and x from column k0 on, in plain Go.
func gemvTail(w *Stored, x []float32, n, k0 int) float32 {
	row := w.part(n, k0, w.K)
	if dot := dots[w.DType]; dot != nil {
		return dot(row, x[k0:])
	}
	return dotDecoded(w.DType, row, x[k0:])
}

// dots holds the generic inner products of stored values with x; encodings
// that are not here are decoded first.
var dots = [...]func(w []byte, x []float32) float32{
	tensor.F32:   dotF32,
	tensor.F16:   dotF16,
	tensor.BF16:  dotBF16,
	tensor.Q8_0:  dotQ8_0,
	tensor.Q4_1:  dotQ4_1,
	tensor.MXFP4: nil, // the last one that weights have
}

// decodedCols is how much of four weight rows is decoded at a time: 8 KiB.
const decodedCols = 512

type decodedBuf [4 * decodedCols]float32

// decoded lends buffers for decoded weights: decoders are called through a
// table, so that a buffer of a caller's own would move to the heap each time.
var decoded = sync.Pool{New: func() any { return new(decodedBuf) }}

// dotDecoded is the inner product by way of decoded values.
func dotDecoded(d tensor.DType, w []byte, x []float32) (s float32) {
	buf := decoded.Get().(*decodedBuf)
	defer decoded.Put(buf)
	for k := 0; k < len(x); k += len(buf) {
		v := buf[:min(len(buf), len(x)-k)]
		Dequantize(v, d, w[d.RowBytes(k):d.RowBytes(k+len(v))])
		for i, a := range v {
			s += float32(a * x[k+i])
		}
	}
	return s
}

func dotF32(w []byte, x []float32) (s float32) {
	for i, v := range x {
		s += float32(math.Float32frombits(binary.LittleEndian.Uint32(w[4*i:])) * v)
	}
	return s
}

func dotF16(w []byte, x []float32) (s float32) {
	for i, v := range x {
		s += float32(tensor.F16ToF32(binary.LittleEndian.Uint16(w[2*i:])) * v)
	}
	return s
}

func dotBF16(w []byte, x []float32) (s float32) {
	for i, v := range x {
		s += float32(tensor.BF16ToF32(binary.LittleEndian.Uint16(w[2*i:])) * v)
	}
	return s
}

func dotQ8_0(w []byte, x []float32) (s float32) {
	for ; len(x) > 0; x, w = x[32:], w[34:] {
		var t float32
		for i, q := range w[2:34] {
			t += float32(float32(int8(q)) * x[i])
		}
		s += float32(tensor.F16ToF32(binary.LittleEndian.Uint16(w)) * t)
	}
	return s
}

func dotQ4_1(w []byte, x []float32) (s float32) {
	for ; len(x) > 0; x, w = x[32:], w[20:] {
		var t, sum float32
		for i, q := range w[4:20] {
			t += float32(float32(q&15)*x[i]) + float32(float32(q>>4)*x[i+16])
			sum += x[i] + x[i+16]
		}
		d := tensor.F16ToF32(binary.LittleEndian.Uint16(w))
		m := tensor.F16ToF32(binary.LittleEndian.Uint16(w[2:]))
		s += float32(d*t) + float32(m*sum)
	}
	return s
}
