package gemm

import (
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

//go:noescape
func dequantF32NEON(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func rowsF32NEON(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func gemvF32NEON(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func dequantF16NEON(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func rowsF16NEON(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func gemvF16NEON(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func dequantBF16NEON(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func rowsBF16NEON(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func gemvBF16NEON(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func dequantQ8_0NEON(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func rowsQ8_0NEON(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func gemvQ8_0NEON(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func dequantQ4_1NEON(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func rowsQ4_1NEON(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func gemvQ4_1NEON(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func dequantQ4_0NEON(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func rowsQ4_0NEON(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func gemvQ4_0NEON(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func dequantQ5_0NEON(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func rowsQ5_0NEON(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func gemvQ5_0NEON(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func dequantQ5_1NEON(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func rowsQ5_1NEON(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func gemvQ5_1NEON(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func dequantIQ4_NLNEON(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func rowsIQ4_NLNEON(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func gemvIQ4_NLNEON(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func dequantMXFP4NEON(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func rowsMXFP4NEON(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func gemvMXFP4NEON(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)

// dequantRows decodes rows of n values, of which it takes the whole blocks of
// 32, from src, rowBytes apart, to dst, ldd apart, and says how many values of
// each row those were.
func dequantRows(dst []float32, d tensor.DType, src []byte, ldd, rowBytes, n, rows int) int {
	blocks := n / 32
	if isa.Vector() == isa.Generic || blocks == 0 || rows == 0 || d.Info().BlockLen > 32 {
		return 0
	}
	_, _ = dst[(rows-1)*ldd+n-1], src[(rows-1)*rowBytes+d.RowBytes(32*blocks)-1]
	switch d {
	case tensor.F32:
		dequantF32NEON(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
	case tensor.F16:
		dequantF16NEON(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
	case tensor.BF16:
		dequantBF16NEON(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
	case tensor.Q8_0:
		dequantQ8_0NEON(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
	case tensor.Q4_1:
		dequantQ4_1NEON(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
	case tensor.Q4_0:
		dequantQ4_0NEON(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
	case tensor.Q5_0:
		dequantQ5_0NEON(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
	case tensor.Q5_1:
		dequantQ5_1NEON(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
	case tensor.IQ4_NL:
		dequantIQ4_NLNEON(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
	case tensor.MXFP4:
		dequantMXFP4NEON(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
	default:
		return 0
	}
	return 32 * blocks
}

// prepared is false, because gemv takes x as it is.
func prepared(tensor.DType) bool { return false }

func prepare(_, _ []float32, _ tensor.DType) {}

// direct says whether there are kernels that multiply one row with rows of a
// type as they lie: the same as for few rows.
func direct(d tensor.DType) bool { return few(d) }

// oneByOne says whether several rows take the kernels for one in turn.
func oneByOne(tensor.DType) bool { return false }

// rowHeight is the number of weight rows that a kernel takes at a time.
func rowHeight(isa.Tier) int { return 2 }

func rows4(_ isa.Tier, w *Stored, n int, x, d *[4]*float32, rowBytes, blocks, groups int) {
	p := &w.Data[n*w.RowBytes]
	switch w.DType {
	case tensor.F32:
		rowsF32NEON(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
	case tensor.F16:
		rowsF16NEON(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
	case tensor.BF16:
		rowsBF16NEON(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
	case tensor.Q8_0:
		rowsQ8_0NEON(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
	case tensor.Q4_1:
		rowsQ4_1NEON(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
	case tensor.Q4_0:
		rowsQ4_0NEON(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
	case tensor.Q5_0:
		rowsQ5_0NEON(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
	case tensor.Q5_1:
		rowsQ5_1NEON(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
	case tensor.IQ4_NL:
		rowsIQ4_NLNEON(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
	case tensor.MXFP4:
		rowsMXFP4NEON(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
	}
}

func gemv4(_ isa.Tier, dst *float32, w *Stored, n int, x, _ []float32, dstStride, rowStride, blocks, groups int) {
	p, ws, rb := &w.Data[n*w.RowBytes], rowStride*w.RowBytes, w.RowBytes
	switch w.DType {
	case tensor.F32:
		gemvF32NEON(dst, p, &x[0], dstStride, ws, rb, blocks, groups)
	case tensor.F16:
		gemvF16NEON(dst, p, &x[0], dstStride, ws, rb, blocks, groups)
	case tensor.BF16:
		gemvBF16NEON(dst, p, &x[0], dstStride, ws, rb, blocks, groups)
	case tensor.Q8_0:
		gemvQ8_0NEON(dst, p, &x[0], dstStride, ws, rb, blocks, groups)
	case tensor.Q4_1:
		gemvQ4_1NEON(dst, p, &x[0], dstStride, ws, rb, blocks, groups)
	case tensor.Q4_0:
		gemvQ4_0NEON(dst, p, &x[0], dstStride, ws, rb, blocks, groups)
	case tensor.Q5_0:
		gemvQ5_0NEON(dst, p, &x[0], dstStride, ws, rb, blocks, groups)
	case tensor.Q5_1:
		gemvQ5_1NEON(dst, p, &x[0], dstStride, ws, rb, blocks, groups)
	case tensor.IQ4_NL:
		gemvIQ4_NLNEON(dst, p, &x[0], dstStride, ws, rb, blocks, groups)
	case tensor.MXFP4:
		gemvMXFP4NEON(dst, p, &x[0], dstStride, ws, rb, blocks, groups)
	}
}
