package gemm

import "hotpath/internal/kernel/isa"

//go:noescape
func roundAVX2(v *float32, n int)

// roundFast rounds what whole vectors hold and returns how many that were.
func roundFast(v []float32) int {
	n := len(v) &^ 7
	if n == 0 || isa.Vector() == isa.Generic {
		return 0
	}
	roundAVX2(&v[0], n)
	return n
}
