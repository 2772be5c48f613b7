//go:build !amd64 && !arm64

package vec

func adamwFast(w, m, v, g []float32, h *AdamWStep) bool { return false }
