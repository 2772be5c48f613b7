package gemm

import (
	"fmt"
	"unsafe"
)

// TransposePairs writes rows x k 16-bit values as [k/2][rows][2]: pairs of k
// stay together.
func TransposePairs(dst, src []int16, rows, k int) {
	if k%2 != 0 || len(dst) < rows*k || len(src) < rows*k {
		panic(fmt.Sprintf("gemm: %d and %d values for pairs of [%d,%d]", len(dst), len(src), rows, k))
	}
	if rows*k > 0 {
		transpose(pairs(dst), pairs(src), rows, k/2, rows, k/2)
	}
}

// pairs views values two by two, as words that are only moved.
func pairs(v []int16) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(v))), len(v)/2)
}
