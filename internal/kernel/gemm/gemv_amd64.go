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
func prepareQ4_1AVX2(sums, dst, x *float32, blocks int)

func prepareFast(sums, form, x []float32) bool {
	if cpu.Vector() == cpu.Generic {
		return false
	}
	prepareQ4_1AVX2(&sums[0], &form[0], &x[0], len(sums))
	return true
}

// few says whether there are kernels that multiply few rows with rows of a type
// as they lie.
func few(d tensor.DType) bool {
	return direct(d) || d == tensor.Q4_0 || d == tensor.Q5_0 || d == tensor.Q5_1
}

// direct says whether there are kernels that multiply one row with rows of a
// type as they lie.
func direct(d tensor.DType) bool {
	switch d {
	case tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_1:
		return true
	}
	return false
}

// callBytes bounds the weights that one assembly call reads, so that it ends
// within about 50 us even from memory.
const callBytes = 512 << 10

// gemvFast runs the range as four streams a quarter of it apart. Rows that
// are left over run as four equal streams, so that they are summed alike.
func gemvFast(dst []float32, w *Stored, x, xsums []float32, n0, n1 int) bool {
	tier := cpu.Vector()
	blocks := w.K / 32
	if tier == cpu.Generic || blocks == 0 || !direct(w.DType) {
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
	if w.K%32 != 0 {
		for n := n0; n < n1; n++ {
			dst[n] += gemvTail(w, x, n, 32*blocks)
		}
	}
	return true
}

func gemv4(tier cpu.Tier, dst *float32, w *Stored, n int, x, xsums []float32, dstStride, rowStride, blocks, groups int) {
	p, ws, rb := &w.Data[n*w.RowBytes], rowStride*w.RowBytes, w.RowBytes
	var xs *float32
	if w.DType == tensor.Q4_1 {
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
	case tensor.Q4_1:
		if wide {
			gemvQ4_1AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ4_1AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	}
}
