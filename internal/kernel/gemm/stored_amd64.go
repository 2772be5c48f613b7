package gemm

import (
	"hotpath/internal/kernel/cpu"
	"hotpath/internal/tensor"
)

//go:noescape
func dequantF16AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantF16AVX512(dst *float32, src *byte, blocks int)

//go:noescape
func dequantBF16AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantBF16AVX512(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ8_0AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ8_0AVX512(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ4_1AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ4_1AVX512(dst *float32, src *byte, blocks int)

// dequantBlocks decodes the whole blocks of 32 values and says how many
// values those were.
func dequantBlocks(dst []float32, d tensor.DType, src []byte) int {
	n := len(dst) / 32
	if n == 0 {
		return 0
	}
	wide := cpu.Active() == cpu.AVX512
	switch d {
	case tensor.F32:
		v, ok := floats(src)
		if !ok {
			return 0
		}
		return copy(dst, v)
	case tensor.F16:
		if wide {
			dequantF16AVX512(&dst[0], &src[0], n)
		} else {
			dequantF16AVX2(&dst[0], &src[0], n)
		}
	case tensor.BF16:
		if wide {
			dequantBF16AVX512(&dst[0], &src[0], n)
		} else {
			dequantBF16AVX2(&dst[0], &src[0], n)
		}
	case tensor.Q8_0:
		if wide {
			dequantQ8_0AVX512(&dst[0], &src[0], n)
		} else {
			dequantQ8_0AVX2(&dst[0], &src[0], n)
		}
	case tensor.Q4_1:
		if wide {
			dequantQ4_1AVX512(&dst[0], &src[0], n)
		} else {
			dequantQ4_1AVX2(&dst[0], &src[0], n)
		}
	default:
		return 0
	}
	return 32 * n
}
