package gemm

import (
	"unsafe"

	"hotpath/internal/kernel/cpu"
	"hotpath/internal/tensor"
)

//go:noescape
func rowsF32AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsF32AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsF16AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsF16AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsBF16AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsBF16AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ8_0AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ8_0AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ4_1AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ4_1AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ4_0AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ4_0AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ5_0AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ5_0AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ5_1AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ5_1AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

// rowsFast multiplies up to four rows of x, ldx apart, with weight rows
// [n0, n1); missing rows repeat the last one, which writes the same result
// twice.
func rowsFast(dst []float32, ldd int, w *Stored, x []float32, ldx, m, n0, n1 int) bool {
	tier := cpu.Vector()
	blocks := w.K / 32
	if tier == cpu.Generic || blocks == 0 {
		return false
	}
	if !few(w.DType) {
		decodedRows(tier, dst, ldd, w, x, ldx, m, n0, n1)
		return true
	}
	height := 2
	if tier == cpu.AVX512 {
		height = 4
	}
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
func decodedRows(tier cpu.Tier, dst []float32, ldd int, w *Stored, x []float32, ldx, m, n0, n1 int) {
	buf := decoded.Get().(*decodedBuf)
	defer decoded.Put(buf)
	part := Stored{Data: bytesOf(buf[:]), DType: tensor.F32, N: 4, K: decodedCols, RowBytes: 4 * decodedCols}
	height := 2
	if tier == cpu.AVX512 {
		height = 4
	}
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

func rows4(tier cpu.Tier, w *Stored, n int, x, d *[4]*float32, rowBytes, blocks, groups int) {
	p := &w.Data[n*w.RowBytes]
	wide := tier == cpu.AVX512
	switch w.DType {
	case tensor.F32:
		if wide {
			rowsF32AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsF32AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.F16:
		if wide {
			rowsF16AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsF16AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.BF16:
		if wide {
			rowsBF16AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsBF16AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.Q8_0:
		if wide {
			rowsQ8_0AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsQ8_0AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.Q4_1:
		if wide {
			rowsQ4_1AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsQ4_1AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.Q4_0:
		if wide {
			rowsQ4_0AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsQ4_0AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.Q5_0:
		if wide {
			rowsQ5_0AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsQ5_0AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.Q5_1:
		if wide {
			rowsQ5_1AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsQ5_1AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	}
}
