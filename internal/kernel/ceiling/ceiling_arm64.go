package ceiling

import "hotpath/internal/kernel/cpu"

//go:noescape
func fmaNEON(n int)

//go:noescape
func dotSDOT(n int)

//go:noescape
func readNEON(p *byte, n int)

// fma makes n rounds of multiply-adds and says how many FLOPs they were.
func fma(t cpu.Tier, n int) (flops float64) {
	if t == cpu.Generic {
		return fmaGeneric(n)
	}
	fmaNEON(n)
	return float64(n) * 24 * 4 * 2
}

// dot makes n rounds of int8 dot products and says how many operations they
// were; NEON alone has no kernels for bytes.
func dot(t cpu.Tier, n int) (ops float64) {
	if t != cpu.DotProd {
		return dotGeneric(n)
	}
	dotSDOT(n)
	return float64(n) * 24 * 16 * 2
}

// pairs has no kernels here.
func pairs(_ cpu.Tier, n int) (ops float64) { return dotGeneric(n) }

func tiles(string, int) (ops float64) { return 0 }

// read loads every byte of b, whose length is a multiple of 1024.
func read(t cpu.Tier, b []byte) {
	if t == cpu.Generic {
		readGeneric(b)
		return
	}
	readNEON(&b[0], len(b))
}
