package ceiling

import "hotpath/internal/kernel/isa"

//go:noescape
func fmaAVX2(n int)

//go:noescape
func fmaAVX512(n int)

//go:noescape
func readAVX2(p *byte, n int)

//go:noescape
func readAVX512(p *byte, n int)

//go:noescape
func streamAVX2(p *byte, n int)

//go:noescape
func streamAVX512(p *byte, n int)

//go:noescape
func wideAVX2(p *byte, n int)

//go:noescape
func wideAVX512(p *byte, n int)

//go:noescape
func dotAVX2(n int)

//go:noescape
func dotAVXVNNI(n int)

//go:noescape
func dotVNNI(n int)

//go:noescape
func pairsAVX2(n int)

//go:noescape
func pairsAVXVNNI(n int)

//go:noescape
func pairsVNNI(n int)

//go:noescape
func tilesInt8(cfg *[64]byte, data *[1024]byte, n int)

//go:noescape
func tilesBF16(cfg *[64]byte, data *[1024]byte, n int)

// dot makes n rounds of int8 dot products and says how many operations they
// were. AVX-512 without VNNI has nothing better than AVX2's.
func dot(t isa.Tier, n int) (ops float64) {
	switch {
	case t >= isa.VNNI:
		dotVNNI(n)
		return float64(n) * 28 * 64 * 2
	case t == isa.AVXVNNI:
		dotAVXVNNI(n)
		return float64(n) * 12 * 32 * 2
	case t >= isa.AVX2:
		dotAVX2(n)
		return float64(n) * 8 * 32 * 2
	}
	return dotGeneric(n)
}

// pairs makes n rounds of products of 16-bit pairs and says how many operations
// they were.
func pairs(t isa.Tier, n int) (ops float64) {
	switch {
	case t >= isa.VNNI:
		pairsVNNI(n)
		return float64(n) * 28 * 32 * 2
	case t == isa.AVXVNNI:
		pairsAVXVNNI(n)
		return float64(n) * 12 * 16 * 2
	case t >= isa.AVX2:
		pairsAVX2(n)
		return float64(n) * 10 * 16 * 2
	}
	return dotGeneric(n)
}

// full is the configuration of eight whole tiles: 16 rows of 64 bytes.
var full = func() (c [64]byte) {
	c[0] = 1 // palette
	for t := range 8 {
		c[16+2*t], c[48+t] = 64, 16
	}
	return c
}()

// noise fills a tile: bytes of either sign, and bf16 values near one.
var noise = func() (b [1024]byte) {
	x := uint32(1)
	for i := 0; i < len(b); i += 2 {
		x = x*1664525 + 1013904223
		b[i], b[i+1] = byte(x>>24), 0x3f|byte(x>>16)&0x80
	}
	return b
}()

// tiles makes n rounds of four tile products.
func tiles(kind string, n int) (ops float64) {
	if kind == "bf16" {
		tilesBF16(&full, &noise, n)
		return float64(n) * 4 * 16 * 16 * 32 * 2
	}
	tilesInt8(&full, &noise, n)
	return float64(n) * 4 * 16 * 16 * 64 * 2
}

// fma makes n rounds of multiply-adds and says how many FLOPs they were.
func fma(t isa.Tier, n int) (flops float64) {
	switch t.Vector() {
	case isa.AVX512:
		fmaAVX512(n)
		return float64(n) * 28 * 16 * 2
	case isa.AVX2:
		fmaAVX2(n)
		return float64(n) * 12 * 8 * 2
	}
	return fmaGeneric(n)
}

// read loads every byte of b, whose length is a multiple of 1024. stream is for memory
// beyond the caches.
func read(t isa.Tier, b []byte) {
	switch t.Vector() {
	case isa.AVX512:
		readAVX512(&b[0], len(b))
	case isa.AVX2:
		readAVX2(&b[0], len(b))
	default:
		readGeneric(b)
	}
}

func stream(t isa.Tier, b []byte) {
	switch t.Vector() {
	case isa.AVX512:
		streamAVX512(&b[0], len(b))
	case isa.AVX2:
		streamAVX2(&b[0], len(b))
	default:
		readGeneric(b)
	}
}

// wide is stream for a length that is a multiple of 2048, by twice as many streams.
func wide(t isa.Tier, b []byte) {
	switch t.Vector() {
	case isa.AVX512:
		wideAVX512(&b[0], len(b))
	case isa.AVX2:
		wideAVX2(&b[0], len(b))
	default:
		readGeneric(b)
	}
}
