package gemm

import (
	"hotpath/internal/kernel/cpu"
	"hotpath/internal/tensor"
)

//go:noescape
func gemvF32AVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvF32AVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvF16AVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvF16AVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvBF16AVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvBF16AVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ8_0AVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ8_0AVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ4_1AVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ4_1AVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ4_0AVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ4_0AVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func prepareQ4_1AVX2(sums, dst, x *float32, blocks int)

func prepareFast(sums, form, x []float32) bool {
	if cpu.Vector() == cpu.Generic {
		return false
	}
	prepareQ4_1AVX2(&sums[0], &form[0], &x[0], len(sums))
	return true
}

// direct says whether there are kernels that multiply one row with rows of a
// type as they lie.
func direct(d tensor.DType) bool {
	switch d {
	case tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_1, tensor.Q4_0:
		return true
	}
	return false
}

func gemv4(tier cpu.Tier, dst *float32, w *Stored, n int, x, xsums []float32, dstStride, rowStride, blocks, groups int) {
	p, ws, rb := &w.Data[n*w.RowBytes], rowStride*w.RowBytes, w.RowBytes
	var xs *float32
	if w.DType == tensor.Q4_1 || w.DType == tensor.Q4_0 {
		xs, x = &xsums[0], xsums[blocks:]
	}
	wide := tier == cpu.AVX512
	switch w.DType {
	case tensor.F32:
		if wide {
			gemvF32AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvF32AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.F16:
		if wide {
			gemvF16AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvF16AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.BF16:
		if wide {
			gemvBF16AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvBF16AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.Q8_0:
		if wide {
			gemvQ8_0AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ8_0AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.Q4_0:
		if wide {
			gemvQ4_0AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ4_0AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.Q4_1:
		if wide {
			gemvQ4_1AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ4_1AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	}
}
