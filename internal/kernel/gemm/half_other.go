//go:build !amd64 && !arm64

package gemm

func roundFast([]float32) int { return 0 }
