package vec

import "math"

// AdamWStep holds what one step of AdamW is the same for in all elements. The
// order of its fields is that in which the assembly reads them.
type AdamWStep struct {
	Clip         float32 // factor of gradients
	Beta1, Rest1 float32 // Rest1 is 1-Beta1
	Beta2, Rest2 float32 // Rest2 is 1-Beta2
	Keep         float32 // what decay leaves of a weight
	Step         float32 // learning rate, divided by the correction of the first moment
	Root         float32 // 1/sqrt of the correction of the second moment
	Eps          float32
}

// AdamW makes one step of the weights w and their moments m and v by the
// gradients g. Every product and sum is rounded by itself and the root and the
// division are exact, so that all tiers give the same bits, except that amd64
// makes denormals 0.
func AdamW(w, m, v, g []float32, h *AdamWStep) {
	m, v, g = m[:len(w)], v[:len(w)], g[:len(w)]
	if !adamwFast(w, m, v, g, h) {
		adamwGeneric(w, m, v, g, h)
	}
}

func adamwGeneric(w, m, v, g []float32, h *AdamWStep) {
	for i := range w {
		gc := float32(g[i] * h.Clip)
		m[i] = float32(h.Beta1*m[i]) + float32(h.Rest1*gc)
		v[i] = float32(h.Beta2*v[i]) + float32(float32(h.Rest2*gc)*gc)
		down := float32(float32(math.Sqrt(float64(v[i])))*h.Root) + h.Eps
		w[i] = float32(h.Keep*w[i]) - float32(h.Step*m[i])/down
	}
}
