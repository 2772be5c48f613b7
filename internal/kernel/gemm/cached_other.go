//go:build !amd64

package gemm

type cachedArgs struct{}

func (*Cached) scoresFast([]float32, int, []float32, int) int { return 0 }

func (*Cached) mixFast([]float32, int, []float32, int, int, bool) bool { return false }
