package gemm

import "hotpath/internal/tensor"

// RoundBF16 rounds values to bf16 and keeps them as f32. What is no number stays
// none, and which one is the kernel's.
func RoundBF16(v []float32) {
	for i := roundFast(v); i < len(v); i++ {
		v[i] = tensor.BF16ToF32(tensor.F32ToBF16(v[i]))
	}
}
