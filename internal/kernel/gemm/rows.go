package gemm

import "fmt"

// FewRows is the number of activation rows up to which Few beats Run on
// stored weights: beyond it, decoding a panel once pays for the transpose.
const FewRows = 10

// Few makes dst[i][n] = w[n]·x[i] for up to FewRows rows of x, ldx apart, and
// weight rows n in [n0, n1), by GemvRows where there is one row or where decoding
// in registers, again for each row, costs less than decoding once to memory, else
// by MulRows. xsums is room for XSumsLen(w.K) values.
func Few(dst []float32, ldd int, w *Stored, x []float32, ldx, m, n0, n1 int, xsums []float32) {
	if m > 1 && !oneByOne(w.DType) {
		MulRows(dst, ldd, w, x, ldx, m, n0, n1)
		return
	}
	for i := range m {
		row := x[i*ldx:][:w.K]
		XSums(xsums, row, w.DType)
		GemvRows(dst[i*ldd:], w, row, xsums, n0, n1)
	}
}

// MulRows makes dst[i][n] = w[n]·x[i] for m rows of x, ldx apart, and weight
// rows n in [n0, n1); rows of dst are ldd apart. It decodes a block of weights
// once for four rows of x. A result depends neither on m nor on the range,
// but its order of summation is not that of GemvRows.
func MulRows(dst []float32, ldd int, w *Stored, x []float32, ldx, m, n0, n1 int) {
	if m == 0 || n0 >= n1 {
		return
	}
	if w.InPanels || m < 0 || n0 < 0 || n1 > w.N || (n1-1)*w.RowBytes+w.DType.RowBytes(w.K) > len(w.Data) || ldx < w.K || ldd < n1 ||
		len(x) < (m-1)*ldx+w.K || len(dst) < (m-1)*ldd+n1 {
		panic(fmt.Sprintf("gemm: MulRows of %d rows (%d values, %d apart) with rows %d..%d of [%d, %d] into %d values, %d apart",
			m, len(x), ldx, n0, n1, w.N, w.K, len(dst), ldd))
	}
	for i := 0; i < m; i += 4 {
		h := min(4, m-i)
		d, in := dst[i*ldd:], x[i*ldx:]
		if rowsFast(d, ldd, w, in, ldx, h, n0, n1) {
			continue
		}
		for j := range h {
			for n := n0; n < n1; n++ {
				d[j*ldd+n] = gemvTail(w, in[j*ldx:][:w.K], n, 0)
			}
		}
	}
}
