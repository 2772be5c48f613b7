package vec

import "hotpath/internal/kernel/isa"

//go:noescape
func adamwAVX2(w, m, v, dw *float32, n int, h *AdamWStep)

//go:noescape
func adamwAVX512(w, m, v, dw *float32, n int, h *AdamWStep)

// adamwVectors makes a step of n elements, whole vectors of the active tier.
func adamwVectors(w, m, v, dw *float32, n int, h *AdamWStep) {
	if isa.Vector() == isa.AVX512 {
		adamwAVX512(w, m, v, dw, n, h)
	} else {
		adamwAVX2(w, m, v, dw, n, h)
	}
}
