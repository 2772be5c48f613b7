//go:build !amd64 && !arm64

package vec

func toF16Fast([]byte, []float32) int { return 0 }
