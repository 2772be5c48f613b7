package ceiling

import "hotpath/internal/kernel/isa"

//go:noescape
func fmaNEON(n int)

//go:noescape
func dotSDOT(n int)

//go:noescape
func readNEON(p *byte, n int)

// fma makes n rounds of multiply-adds and says how many FLOPs they were.
func fma(t isa.Tier, n int) (flops float64) {
	if t == isa.Generic {
		return fmaGeneric(n)
	}
	fmaNEON(n)
	return float64(n) * 24 * 4 * 2
}

// dot makes n rounds of int8 dot products and says how many operations they
// were; NEON alone has no kernels for bytes.
func dot(t isa.Tier, n int) (ops float64) {
	if t != isa.DotProd {
		return dotGeneric(n)
	}
	dotSDOT(n)
	return float64(n) * 24 * 16 * 2
}

// pairs has no kernels here.
func pairs(_ isa.Tier, n int) (ops float64) { return dotGeneric(n) }

func tiles(string, int) (ops float64) { return 0 }

// read loads every byte of b, whose length is a multiple of 1024.
func read(t isa.Tier, b []byte) {
	if t == isa.Generic {
		readGeneric(b)
		return
	}
	readNEON(&b[0], len(b))
}

func stream(t isa.Tier, b []byte) { read(t, b) }
func wide(t isa.Tier, b []byte)   { read(t, b) }
