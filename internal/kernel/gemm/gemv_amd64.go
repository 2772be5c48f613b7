package gemm

import (
	"hotpath/internal/kernel/isa"
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
func gemvQ5_1AVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ5_1AVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ5_0AVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ5_0AVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ4_KAVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ4_KAVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ5_KAVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ5_KAVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ6_KAVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ6_KAVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvIQ4_NLAVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvIQ4_NLAVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvMXFP4AVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvMXFP4AVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ2_KAVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ2_KAVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ3_KAVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvQ3_KAVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvIQ4_XSAVX2(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func gemvIQ4_XSAVX512(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)

//go:noescape
func prepareQ4_1AVX2(sums, dst, x *float32, blocks int)

//go:noescape
func prepareQ5_1AVX2(sums, dst, x *float32, blocks int)

//go:noescape
func prepareQ4_KAVX2(sums, dst, x *float32, spans int)

//go:noescape
func prepareQ6_KAVX2(sums, dst, x *float32, spans int)

// prepared says whether kernels take x in the form that prepare makes.
func prepared(d tensor.DType) bool {
	switch d {
	case tensor.Q4_1, tensor.Q4_0, tensor.Q5_1, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K, tensor.Q2_K, tensor.Q3_K:
		return isa.Vector() != isa.Generic
	case tensor.Q5_0:
		return isa.Vector() == isa.AVX2
	}
	return false
}

// sumsLen is how many sums stand before the form of k values.
func sumsLen(d tensor.DType, k int) int {
	if d.Info().BlockLen == 256 {
		return k / 16
	}
	return k / 32
}

func prepare(dst, x []float32, d tensor.DType) {
	form := &dst[sumsLen(d, len(x))]
	switch d {
	case tensor.Q4_1, tensor.Q4_0:
		prepareQ4_1AVX2(&dst[0], form, &x[0], len(x)/32)
	case tensor.Q5_1, tensor.Q5_0:
		prepareQ5_1AVX2(&dst[0], form, &x[0], len(x)/32)
	case tensor.Q4_K, tensor.Q5_K:
		prepareQ4_KAVX2(&dst[0], form, &x[0], len(x)/span)
	case tensor.Q6_K, tensor.Q2_K, tensor.Q3_K:
		prepareQ6_KAVX2(&dst[0], form, &x[0], len(x)/span)
	}
}

// direct says whether there are kernels that multiply one row with rows of a
// type as they lie.
func direct(d tensor.DType) bool {
	switch d {
	case tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_1, tensor.Q4_0, tensor.Q5_1, tensor.Q5_0, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K,
		tensor.Q2_K, tensor.Q3_K, tensor.IQ4_NL, tensor.IQ4_XS, tensor.MXFP4:
		return true
	}
	return false
}

// oneByOne says whether several rows take the kernels for one in turn: those
// that few has none for.
func oneByOne(d tensor.DType) bool {
	return isa.Vector() != isa.Generic && direct(d) && !few(d)
}

func gemv4(tier isa.Tier, dst *float32, w *Stored, n int, x, xsums []float32, dstStride, rowStride, blocks, groups int) {
	p, ws, rb := &w.Data[n*w.RowBytes], rowStride*w.RowBytes, w.RowBytes
	var xs *float32
	wide := tier == isa.AVX512
	if prepared(w.DType) {
		xs = &xsums[0]
		if !wide || w.DType != tensor.Q5_1 { // of which this kernel wants the sums only
			x = xsums[sumsLen(w.DType, w.K):]
		}
	}
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
	case tensor.Q5_1:
		if wide {
			gemvQ5_1AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ5_1AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.Q5_0:
		if wide {
			gemvQ5_0AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ5_0AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.Q4_K:
		if wide {
			gemvQ4_KAVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ4_KAVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.Q5_K:
		if wide {
			gemvQ5_KAVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ5_KAVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.Q6_K:
		if wide {
			gemvQ6_KAVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ6_KAVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.Q4_1:
		if wide {
			gemvQ4_1AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ4_1AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.IQ4_NL:
		if wide {
			gemvIQ4_NLAVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvIQ4_NLAVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.MXFP4:
		if wide {
			gemvMXFP4AVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvMXFP4AVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.Q2_K:
		if wide {
			gemvQ2_KAVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ2_KAVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.Q3_K:
		if wide {
			gemvQ3_KAVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvQ3_KAVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	case tensor.IQ4_XS:
		if wide {
			gemvIQ4_XSAVX512(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		} else {
			gemvIQ4_XSAVX2(dst, p, &x[0], xs, dstStride, ws, rb, blocks, groups)
		}
	}
}
