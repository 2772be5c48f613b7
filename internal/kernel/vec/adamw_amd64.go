package vec

import "hotpath/internal/kernel/cpu"

//go:noescape
func adamwAVX2(w, m, v, dw *float32, n int, h *AdamWStep)

//go:noescape
func adamwAVX512(w, m, v, dw *float32, n int, h *AdamWStep)

// adamwVectors makes a step of n elements, whole vectors of the active tier.
func adamwVectors(w, m, v, dw *float32, n int, h *AdamWStep) {
	if cpu.Vector() == cpu.AVX512 {
		adamwAVX512(w, m, v, dw, n, h)
	} else {
		adamwAVX2(w, m, v, dw, n, h)
	}
}
