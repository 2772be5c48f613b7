package gemm

import "hotpath/internal/kernel/isa"

//go:noescape
func softmaxStripsAVX2(dst, src *float32, n, h, strips int, c, low float32, sums, tops *float32)

//go:noescape
func softmaxStripsAVX512(dst, src *float32, n, h, strips int, c, low float32, sums, tops *float32)

//go:noescape
func divideHeadAVX2(dst, src *float32, ldd, lds, n, rows int, sums *float32)

//go:noescape
func copyPanelAVX2(dst, src *float32, ld, rows int)

//go:noescape
func copyPanelAVX512(dst, src *float32, ld, rows int)

// copyFast is copyPanel where the tier has a kernel.
func copyFast(tier isa.Tier, dst, src []float32, ld, rows int) bool {
	if tier == isa.Generic || rows == 0 {
		return false
	}
	nr := shapes[tier].nr
	_, _ = dst[rows*nr-1], src[(rows-1)*ld+nr-1]
	if tier == isa.AVX512 {
		copyPanelAVX512(&dst[0], &src[0], ld, rows)
	} else {
		copyPanelAVX2(&dst[0], &src[0], ld, rows)
	}
	return true
}

// softmaxFast is softmax where the tier has a kernel.
func softmaxFast(tier isa.Tier, dst, src []float32, n, h, strips int, scale float32, sums, tops []float32) bool {
	if tier == isa.Generic {
		return false
	}
	rows := h * strips
	_, _, _, _ = dst[rows*n-1], src[rows*n-1], sums[rows-1], tops[rows-1]
	c := scale * log2e
	if tier == isa.AVX512 {
		softmaxStripsAVX512(&dst[0], &src[0], n, h, strips, c, -127/c, &sums[0], &tops[0])
	} else {
		softmaxStripsAVX2(&dst[0], &src[0], n, h, strips, c, -127/c, &sums[0], &tops[0])
	}
	return true
}

// divideFast is divide where there is a kernel.
func divideFast(dst []float32, ldd int, src []float32, lds, n, rows int, sums []float32) bool {
	if isa.Vector() == isa.Generic || n%8 != 0 {
		return false
	}
	_, _, _ = dst[(rows-1)*ldd+n-1], src[(rows-1)*lds+n-1], sums[rows-1]
	divideHeadAVX2(&dst[0], &src[0], ldd, lds, n, rows, &sums[0])
	return true
}
