//go:build amd64 || arm64

package gemm

import "hotpath/internal/kernel/isa"

// callBytes bounds the weights that one assembly call reads, so that it ends
// within about 50 us even from memory.
const callBytes = 512 << 10

// gemvFast runs the range as four streams a quarter of it apart. Rows that
// are left over run as four equal streams, so that they are summed alike.
func gemvFast(dst []float32, w *Stored, x, xsums []float32, n0, n1 int) bool {
	tier := isa.Vector()
	length := max(32, w.DType.Info().BlockLen) // floats go by 32 too
	blocks := w.K / length
	if tier == isa.Generic || blocks == 0 || !direct(w.DType) {
		return rowsFast(dst, len(dst), w, x, w.K, 1, n0, n1)
	}
	q := (n1 - n0) / 4
	most := max(1, callBytes/(4*w.RowBytes))
	for g := 0; g < q; g += most {
		gemv4(tier, &dst[n0+g], w, n0+g, x, xsums, q, q, blocks, min(most, q-g))
	}
	var tmp [4]float32
	for n := n0 + 4*q; n < n1; n++ {
		gemv4(tier, &tmp[0], w, n, x, xsums, 1, 0, blocks, 1)
		dst[n] = tmp[0]
	}
	if w.K%length != 0 {
		for n := n0; n < n1; n++ {
			dst[n] += gemvTail(w, x, n, length*blocks)
		}
	}
	return true
}
