package vec

import "hotpath/internal/kernel/isa"

//go:noescape
func toF16NEON(dst *byte, src *float32, n int)

// toF16Fast converts what whole vectors hold and returns how many that were.
func toF16Fast(dst []byte, src []float32) int {
	n := len(src) &^ 7
	if n == 0 || isa.Vector() == isa.Generic {
		return 0
	}
	_ = dst[2*n-1]
	toF16NEON(&dst[0], &src[0], n)
	return n
}
