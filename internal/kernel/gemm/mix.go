package gemm

import (
	"fmt"

	"hotpath/internal/tensor"
)

// MixRows makes dst[i][c] = Σ p[i][r]·w[r][c] over rows r in [0, n) of w, for m
// rows of weights p, ldp apart, into rows of dst, ldd apart; where add is set,
// to what is there. It is what attention makes of a cache's values, which are
// decoded once for up to four i. w's columns are whole blocks of 32.
func MixRows(dst []float32, ldd int, p []float32, ldp, m int, w *Stored, n int, add bool) {
	if m == 0 || n == 0 && add {
		return
	}
	if n < 0 || n > w.N || w.K%32 != 0 || n > 0 && (n-1)*w.RowBytes+w.DType.RowBytes(w.K) > len(w.Data) || ldd < w.K || ldp < n ||
		len(p) < (m-1)*ldp+n || len(dst) < (m-1)*ldd+w.K {
		panic(fmt.Sprintf("gemm: MixRows of %d rows of weights (%d values, %d apart) over %d of [%d, %d] into %d values, %d apart",
			m, len(p), ldp, n, w.N, w.K, len(dst), ldd))
	}
	if n > 0 && w.K > 0 && mixFast(dst, ldd, p, ldp, m, w, n, add) {
		return
	}
	for i := range m {
		row := dst[i*ldd:][:w.K]
		if !add {
			clear(row)
		}
		for r := range n {
			mixRow(row, w, r, p[i*ldp+r])
		}
	}
}

// mixRow adds f times row r of w to dst.
func mixRow(dst []float32, w *Stored, r int, f float32) {
	buf := decoded.Get().(*decodedBuf)
	defer decoded.Put(buf)
	for k := 0; k < len(dst); k += len(buf) {
		v := buf[:min(len(buf), len(dst)-k)]
		if err := tensor.DequantizeFrom(v, w.DType, w.Data[r*w.RowBytes:][:w.DType.RowBytes(w.K)], k); err != nil {
			panic(err)
		}
		for i, x := range v {
			dst[k+i] += float32(f * x)
		}
	}
}
