package gemm

import (
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

//go:noescape
func dequantF32AVX2(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantF32AVX512(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantF16AVX2(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantF16AVX512(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantBF16AVX2(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantBF16AVX512(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantQ8_0AVX2(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantQ8_0AVX512(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantQ4_1AVX2(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantQ4_1AVX512(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantQ4_0AVX2(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantQ4_0AVX512(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantQ5_0AVX2(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantQ5_0AVX512(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantQ5_1AVX2(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantQ5_1AVX512(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantIQ4_NLAVX2(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantIQ4_NLAVX512(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantMXFP4AVX2(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

//go:noescape
func dequantMXFP4AVX512(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)

// dequantRows decodes rows of n values, of which it takes the whole blocks of
// 32, from src, rowBytes apart, to dst, ldd apart, and says how many values of
// each row those were.
func dequantRows(dst []float32, d tensor.DType, src []byte, ldd, rowBytes, n, rows int) int {
	blocks := n / 32
	tier := isa.Vector()
	if tier == isa.Generic || blocks == 0 || rows == 0 || d.Info().BlockLen > 32 {
		return 0
	}
	_, _ = dst[(rows-1)*ldd+n-1], src[(rows-1)*rowBytes+d.RowBytes(32*blocks)-1]
	wide := tier == isa.AVX512
	switch d {
	case tensor.F32:
		if wide {
			dequantF32AVX512(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		} else {
			dequantF32AVX2(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		}
	case tensor.F16:
		if wide {
			dequantF16AVX512(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		} else {
			dequantF16AVX2(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		}
	case tensor.BF16:
		if wide {
			dequantBF16AVX512(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		} else {
			dequantBF16AVX2(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		}
	case tensor.Q8_0:
		if wide {
			dequantQ8_0AVX512(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		} else {
			dequantQ8_0AVX2(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		}
	case tensor.Q4_1:
		if wide {
			dequantQ4_1AVX512(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		} else {
			dequantQ4_1AVX2(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		}
	case tensor.Q4_0:
		if wide {
			dequantQ4_0AVX512(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		} else {
			dequantQ4_0AVX2(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		}
	case tensor.Q5_0:
		if wide {
			dequantQ5_0AVX512(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		} else {
			dequantQ5_0AVX2(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		}
	case tensor.Q5_1:
		if wide {
			dequantQ5_1AVX512(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		} else {
			dequantQ5_1AVX2(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		}
	case tensor.IQ4_NL:
		if wide {
			dequantIQ4_NLAVX512(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		} else {
			dequantIQ4_NLAVX2(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		}
	case tensor.MXFP4:
		if wide {
			dequantMXFP4AVX512(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		} else {
			dequantMXFP4AVX2(&dst[0], &src[0], ldd, rowBytes, blocks, rows)
		}
	default:
		return 0
	}
	return 32 * blocks
}
