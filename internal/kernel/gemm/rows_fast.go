//go:build amd64 || arm64

package gemm

import (
	"unsafe"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// few says whether there are kernels that multiply few rows with rows of a type
// as they lie.
func few(d tensor.DType) bool {
	switch d {
	case tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_1, tensor.Q4_0, tensor.Q5_0, tensor.Q5_1,
		tensor.IQ4_NL, tensor.MXFP4:
		return true
	}
	return false
}

// rowsFast multiplies up to four rows of x, ldx apart, with weight rows
// [n0, n1); missing rows repeat the last one, which writes the same result
// twice.
func rowsFast(dst []float32, ldd int, w *Stored, x []float32, ldx, m, n0, n1 int) bool {
	tier := isa.Vector()
	blocks := w.K / 32
	if tier == isa.Generic || blocks == 0 {
		return false
	}
	if !few(w.DType) {
		decodedRows(tier, dst, ldd, w, x, ldx, m, n0, n1)
		return true
	}
	height := rowHeight(tier)
	var xs, ds [4]*float32
	for j := range xs {
		r := min(j, m-1)
		xs[j], ds[j] = &x[r*ldx], &dst[r*ldd+n0]
	}
	if n := n1 - n0; n < height {
		var tmp [4][4]float32
		for r := n0; r < n1; r++ {
			rows4(tier, w, r, &xs, &[4]*float32{&tmp[0][0], &tmp[1][0], &tmp[2][0], &tmp[3][0]}, 0, blocks, 1)
			for j := range m {
				dst[j*ldd+r] = tmp[j][0]
			}
		}
	} else {
		most := max(1, callBytes/4/(height*w.RowBytes))
		for g := 0; g < n/height; g += most {
			rows4(tier, w, n0+g*height, &xs, &ds, w.RowBytes, blocks, min(most, n/height-g))
			for j := range ds {
				ds[j] = &dst[min(j, m-1)*ldd+min(n0+(g+most)*height, n1-1)]
			}
		}
		if n%height != 0 { // the last rows again, as a whole group
			for j := range ds {
				ds[j] = &dst[min(j, m-1)*ldd+n1-height]
			}
			rows4(tier, w, n1-height, &xs, &ds, w.RowBytes, blocks, 1)
		}
	}
	if w.K%32 != 0 {
		for j := range m {
			for n := n0; n < n1; n++ {
				dst[j*ldd+n] += gemvTail(w, x[j*ldx:][:w.K], n, 32*blocks)
			}
		}
	}
	return true
}

// decodedRows is rowsFast for types without kernels of their own: parts of four
// weight rows are decoded and multiplied as F32.
func decodedRows(tier isa.Tier, dst []float32, ldd int, w *Stored, x []float32, ldx, m, n0, n1 int) {
	buf := decoded.Get().(*decodedBuf)
	defer decoded.Put(buf)
	part := Stored{Data: bytesOf(buf[:]), DType: tensor.F32, N: 4, K: decodedCols, RowBytes: 4 * decodedCols}
	height := rowHeight(tier)
	for n := n0; n < n1; n += 4 {
		rows := min(4, n1-n)
		for k := 0; k < w.K; k += decodedCols {
			cols := min(decodedCols, w.K-k)
			w.Decode(buf[:], decodedCols, n, rows, k, cols)
			var out [4][4]float32
			var xs, ds [4]*float32
			for j := range xs {
				r := min(j, m-1)
				xs[j], ds[j] = &x[r*ldx+k], &out[r][0]
			}
			rows4(tier, &part, 0, &xs, &ds, part.RowBytes, cols/32, 4/height)
			for j := range m {
				d := dst[j*ldd+n:][:rows]
				for i := range d {
					if k == 0 {
						d[i] = out[j][i]
					} else {
						d[i] += out[j][i]
					}
				}
			}
		}
	}
}

func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// first is the address of s[0], nil for an empty slice.
func first(s []float32) *float32 {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}
