package gemm

import "hotpath/internal/kernel/isa"

//go:noescape
func roundNEON(v *float32, n int)

// roundFast rounds what whole vectors hold and returns how many that were.
func roundFast(v []float32) int {
	n := len(v) &^ 3
	if n == 0 || isa.Vector() == isa.Generic {
		return 0
	}
	roundNEON(&v[0], n)
	return n
}
