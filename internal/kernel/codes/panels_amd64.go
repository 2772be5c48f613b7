package codes

import (
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

//go:noescape
func packQ4_0AVX2(t *panelArgs)

//go:noescape
func unpackQ4_0AVX2(t *panelArgs)

//go:noescape
func packQ4_1AVX2(t *panelArgs)

//go:noescape
func unpackQ4_1AVX2(t *panelArgs)

//go:noescape
func packQ8_0AVX2(t *panelArgs)

//go:noescape
func unpackQ8_0AVX2(t *panelArgs)

//go:noescape
func packQ4_KAVX2(t *panelArgs)

//go:noescape
func unpackQ4_KAVX2(t *panelArgs)

//go:noescape
func packQ6_KAVX2(t *panelArgs)

//go:noescape
func unpackQ6_KAVX2(t *panelArgs)

// panelArgs are the operands of the assembly kernels, in its order.
type panelArgs struct {
	rows     *byte // the first of 16
	rowBytes int
	panel    *byte
	blocks   int
	masks    *[5][32]byte
}

// panelMasks are a nibble, the order in which codes of 16 columns lie in a panel,
// the inverse, two bits, and how far the quads of high bits are shifted. The
// second half of each repeats the first.
var panelMasks = func() (m [5][32]byte) {
	for i := range 32 {
		m[0][i], m[3][i] = 15, 3
		at := [16]byte{0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15}[i%16]
		m[1][i], m[2][i&16|int(at)] = at, byte(i%16)
	}
	for i := range 8 {
		m[4][4*i] = [4]byte{0, 4, 2, 6}[i%4]
	}
	return m
}()

// fast moves whole blocks of 16 rows, rowBytes apart, into a panel or out of it;
// false where there is no kernel for it.
func fast(d tensor.DType, pack bool, rows []byte, rowBytes int, panel []byte, blocks int) bool {
	if isa.Vector() < isa.AVX2 || blocks == 0 {
		return false
	}
	_, _ = rows[(Rows-1)*rowBytes+blocks*layouts[d].file-1], panel[blocks*layouts[d].bytes-1]
	t := panelArgs{&rows[0], rowBytes, &panel[0], blocks, &panelMasks}
	switch {
	case d == tensor.Q4_0 && pack:
		packQ4_0AVX2(&t)
	case d == tensor.Q4_0:
		unpackQ4_0AVX2(&t)
	case d == tensor.Q4_1 && pack:
		packQ4_1AVX2(&t)
	case d == tensor.Q4_1:
		unpackQ4_1AVX2(&t)
	case d == tensor.Q8_0 && pack:
		packQ8_0AVX2(&t)
	case d == tensor.Q8_0:
		unpackQ8_0AVX2(&t)
	case d == tensor.Q4_K && pack:
		packQ4_KAVX2(&t)
	case d == tensor.Q4_K:
		unpackQ4_KAVX2(&t)
	case d == tensor.Q6_K && pack:
		packQ6_KAVX2(&t)
	case d == tensor.Q6_K:
		unpackQ6_KAVX2(&t)
	default:
		return false
	}
	return true
}
