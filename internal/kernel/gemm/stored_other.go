//go:build !amd64

package gemm

import "hotpath/internal/tensor"

func dequantBlocks(_ []float32, _ tensor.DType, _ []byte) int { return 0 }

func gemvFast(_ []float32, _ *Stored, _, _ []float32, _, _ int) bool { return false }
