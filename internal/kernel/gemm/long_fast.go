//go:build amd64 || arm64

package gemm

import (
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// decodeLong is Decode of whole spans of blocks of 256; false where there is no
// kernel.
func (w *Stored) decodeLong(dst []float32, ld, n0, rows, k, cols int) bool {
	tier := isa.Vector()
	if tier == isa.Generic || rows == 0 || cols == 0 {
		return false
	}
	var decode func(dst []float32, block []byte, first, spans int, tier isa.Tier)
	switch w.DType {
	case tensor.Q4_K:
		decode = spansQ4
	case tensor.Q5_K:
		decode = spansQ5
	case tensor.Q6_K:
		decode = spansQ6
	case tensor.Q2_K:
		decode = spansQ2
	case tensor.Q3_K:
		decode = spansQ3
	case tensor.IQ4_XS:
		decode = spansIQ4
	default:
		return false
	}
	size := w.DType.Info().BlockBytes
	for r := range rows {
		row, out := w.part(n0+r, 0, w.K), dst[r*ld:][:cols]
		for at := k; at < k+cols; {
			first := at % 256 / span
			spans := min(4-first, (k+cols-at)/span)
			decode(out[at-k:][:spans*span], row[at/256*size:][:size], first, spans, tier)
			at += spans * span
		}
	}
	return true
}

func spansQ4(dst []float32, block []byte, first, spans int, tier isa.Tier) {
	var s [8][2]float32
	tensor.ScalesK(&s, block)
	longQ4(tier, &dst[0], &block[16+32*first], &s[2*first][0], spans)
}

func spansQ5(dst []float32, block []byte, first, spans int, tier isa.Tier) {
	var s [8][2]float32
	tensor.ScalesK(&s, block)
	longQ5(tier, &dst[0], &block[48+32*first], &block[16], &s[2*first][0], first, spans)
}

// spansQ6 goes by halves of the block, which have their own bytes.
func spansQ6(dst []float32, block []byte, first, spans int, tier isa.Tier) {
	var s [16]float32
	tensor.ScalesQ6_K(&s, block)
	for spans > 0 {
		half, at := first/2, first%2
		n := min(2-at, spans)
		low, high, scales := &block[64*half], &block[128+32*half], &s[4*first]
		longQ6(tier, &dst[0], low, high, scales, at, n)
		dst, first, spans = dst[n*span:], first+n, spans-n
	}
}

// spansQ2 and spansQ3 go by halves too.
func spansQ2(dst []float32, block []byte, first, spans int, tier isa.Tier) {
	var s [16][2]float32
	tensor.ScalesQ2_K(&s, block)
	for spans > 0 {
		half, at := first/2, first%2
		n := min(2-at, spans)
		longQ2(tier, &dst[0], &block[16+32*half], &s[4*first][0], at, n)
		dst, first, spans = dst[n*span:], first+n, spans-n
	}
}

func spansQ3(dst []float32, block []byte, first, spans int, tier isa.Tier) {
	var s [16]float32
	tensor.ScalesQ3_K(&s, block)
	for spans > 0 {
		n := min(2-first%2, spans)
		longQ3(tier, &dst[0], &block[32+32*(first/2)], &block[0], &s[4*first], first, n)
		dst, first, spans = dst[n*span:], first+n, spans-n
	}
}

func spansIQ4(dst []float32, block []byte, first, spans int, tier isa.Tier) {
	var s [16]float32
	tensor.ScalesIQ4_XS(&s, block)
	longIQ4(tier, &dst[0], &block[8+32*first], &s[4*first], spans)
}
