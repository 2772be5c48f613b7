//go:build !amd64 && !arm64

package gemm

import "hotpath/internal/kernel/isa"

func tile(_ isa.Tier, a, b, c, bias []float32, k, ldc, h, strips int, load bool) {
	tileGeneric(a, b, c, bias, k, ldc, h, strips, load)
}

// tiles is tile for panels of b that are nextB values apart; bias only with one.
func tiles(tier isa.Tier, a, b, c, bias []float32, k, ldc, h, strips int, load bool, nextB, panels int) {
	for p := range panels {
		tile(tier, a, b[p*nextB:], c[8*p:], bias, k, ldc, h, strips, load)
	}
}

func packA(_ isa.Tier, dst []float32, t *Task, m, h, k0, kn int) {
	packAGeneric(dst, t, m, h, k0, kn)
}

func transpose(dst, src []float32, ldd, lds, rows, cols int) {
	transposeGeneric(dst, src, ldd, lds, rows, cols)
}
