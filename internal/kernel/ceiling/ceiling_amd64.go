package ceiling

import "hotpath/internal/kernel/cpu"

//go:noescape
func fmaAVX2(n int)

//go:noescape
func fmaAVX512(n int)

//go:noescape
func readAVX2(p *byte, n int)

//go:noescape
func readAVX512(p *byte, n int)

// fma makes n rounds of multiply-adds and says how many FLOPs they were.
func fma(t cpu.Tier, n int) (flops float64) {
	switch t.Vector() {
	case cpu.AVX512:
		fmaAVX512(n)
		return float64(n) * 28 * 16 * 2
	case cpu.AVX2:
		fmaAVX2(n)
		return float64(n) * 12 * 8 * 2
	}
	return fmaGeneric(n)
}

// read loads every byte of b, whose length is a multiple of 1024.
func read(t cpu.Tier, b []byte) {
	switch t.Vector() {
	case cpu.AVX512:
		readAVX512(&b[0], len(b))
	case cpu.AVX2:
		readAVX2(&b[0], len(b))
	default:
		readGeneric(b)
	}
}
