package vec

//go:noescape
func adamwNEON(w, m, v, dw *float32, n int, h *AdamWStep)

// adamwVectors makes a step of n elements, whole vectors of the active tier.
func adamwVectors(w, m, v, dw *float32, n int, h *AdamWStep) { adamwNEON(w, m, v, dw, n, h) }
