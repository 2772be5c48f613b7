//go:build !amd64 && !arm64

package vec

func ropeSplit(x, cos, sin []float32, inverse bool) {
	sign, _ := signOf(inverse)
	ropeSplitGeneric(x, cos, sin, sign)
}

func ropePairs(x, cos, sin []float32, inverse bool) {
	sign, _ := signOf(inverse)
	ropePairsGeneric(x, cos, sin, sign)
}
