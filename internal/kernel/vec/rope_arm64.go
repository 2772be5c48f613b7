package vec

import "hotpath/internal/kernel/isa"

// A half that is no whole number of vectors is rare enough to stay in Go.

func ropeSplit(x, cos, sin []float32, inverse bool) {
	sign, bits := signOf(inverse)
	if half := len(cos); half > 0 && half%4 == 0 && isa.Vector() != isa.Generic {
		ropeSplitNEON(&x[0], &cos[0], &sin[0], half, bits)
		return
	}
	ropeSplitGeneric(x, cos, sin, sign)
}

func ropePairs(x, cos, sin []float32, inverse bool) {
	sign, bits := signOf(inverse)
	if half := len(cos); half > 0 && half%4 == 0 && isa.Vector() != isa.Generic {
		ropePairsNEON(&x[0], &cos[0], &sin[0], half, bits)
		return
	}
	ropePairsGeneric(x, cos, sin, sign)
}
