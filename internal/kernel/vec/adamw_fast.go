//go:build amd64 || arm64

package vec

import "hotpath/internal/kernel/isa"

func adamwFast(w, m, v, g []float32, h *AdamWStep) bool {
	lane := lanes[isa.Vector()]
	if lane == 0 {
		return false
	}
	full := len(w) &^ (lane - 1)
	if full > 0 {
		adamwVectors(&w[0], &m[0], &v[0], &g[0], full, h)
	}
	if full < len(w) { // in padded copies, which treat all elements alike
		var wT, mT, vT, gT [16]float32
		copy(wT[:], w[full:])
		copy(mT[:], m[full:])
		copy(vT[:], v[full:])
		copy(gT[:], g[full:])
		adamwVectors(&wT[0], &mT[0], &vT[0], &gT[0], lane, h)
		copy(w[full:], wT[:])
		copy(m[full:], mT[:])
		copy(v[full:], vT[:])
	}
	return true
}
