package main

// genUnpackBF16 writes the ways of quantized rows into B tiles: 16 rows of
// steps blocks of 32, rowBytes apart, decoded, rounded and transposed without
// leaving registers.
func genUnpackBF16(g *asm) {
	genUnpackQ8(g)
	open := func(name string) string {
		g.text(name, name+"(dst *uint16, src *byte, rowBytes, steps int)", 0, 32)
		g.f("MOVQ dst+0(FP), DI")
		g.f("MOVQ src+8(FP), SI")
		g.f("MOVQ rowBytes+16(FP), DX")
		g.f("MOVQ steps+24(FP), CX")
		loop := g.fresh("loop")
		g.label(loop)
		g.f("MOVQ SI, BX")
		return loop
	}
	done := func(loop string, block int) {
		g.storeTile()
		g.f("ADDQ $%d, SI", block)
		g.f("ADDQ $2048, DI")
		g.f("DECQ CX")
		g.f("JNZ %s", loop)
		g.f("VZEROUPPER")
		g.f("RET")
	}

	// A block of Q4_1 is an f16 scale, an f16 minimum and 16 bytes: the low
	// halves are elements 0 to 15, the high ones 16 to 31.
	loop := open("unpackQ4")
	for r := byte(0); r < 16; r++ {
		lo, hi, scale, least := 16+r%4*4, 17+r%4*4, 18+r%4*4, 19+r%4*4
		g.f("VPBROADCASTW (BX), Y%d", scale)
		g.f("VPBROADCASTW 2(BX), Y%d", least)
		g.f("VCVTPH2PS Y%d, Z%d", scale, scale)
		g.f("VCVTPH2PS Y%d, Z%d", least, least)
		g.f("VPMOVZXBD 4(BX), Z%d", lo)
		g.f("VPSRLD $4, Z%d, Z%d", lo, hi)
		g.f("VPSLLD $28, Z%d, Z%d", lo, lo)
		g.f("VPSRLD $28, Z%d, Z%d", lo, lo)
		g.f("VCVTDQ2PS Z%d, Z%d", lo, lo)
		g.f("VCVTDQ2PS Z%d, Z%d", hi, hi)
		g.f("VFMADD213PS Z%d, Z%d, Z%d", least, scale, lo)
		g.f("VFMADD213PS Z%d, Z%d, Z%d", least, scale, hi)
		g.cvtne2(lo, hi, r)
		if r < 15 {
			g.f("ADDQ DX, BX")
		}
	}
	done(loop, 20)
}

// Offsets in unpackTables.
const (
	tabIota  = 0   // 0 to 15
	tabPairs = 64  // [2 rows of lanes][2 pairs]: where the bytes of a pair lie, for VPERMB
	tabTwice = 320 // [2]: lanes 0 to 7, and 8 to 15, each twice
)

// genUnpackQ8 writes the way of Q8_0, whose block is an f16 scale and 32
// codes. Bytes are transposed before they are widened, a pair of k of 16 rows
// at a time, so that the scales of the rows lie across a register. A code
// with its sign turned, u, becomes a float as the second byte of 2^15+u:
// (2^15+u)·scale less (2^15+128)·scale is the exact product.
func genUnpackQ8(g *asm) {
	g.text("unpackQ8", "unpackQ8(dst *uint16, src *byte, rowBytes, steps int, tables *unpackTables)", 0, 40)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ rowBytes+16(FP), DX")
	g.f("MOVQ steps+24(FP), CX")
	g.f("MOVQ tables+32(FP), AX")
	g.f("VPBROADCASTD DX, Z19")
	g.f("VPMULLD %d(AX), Z19, Z19", tabIota) // where the rows begin
	for n := range 4 {
		g.f("VMOVDQU64 %d(AX), Z%d", tabPairs+64*n, 27+n)
	}
	g.f("VMOVDQU64 %d(AX), Z25", tabTwice)
	g.f("VMOVDQU64 %d(AX), Z24", tabTwice+64)
	for _, c := range []struct {
		bits uint32
		z    int
	}{{0x80808080, 31}, {0x47008000, 26}, {0x47000000, 20}, {0x47000000, 21}, {0x47000000, 22}, {0x47000000, 23}} {
		g.f("MOVL $0x%x, AX", c.bits)
		g.f("VPBROADCASTD AX, Z%d", c.z)
	}
	g.f("MOVQ $0x2222222222222222, AX")
	g.f("KMOVQ AX, K1")
	g.f("LEAQ (DX)(DX*2), R9")
	loop := g.fresh("loop")
	g.label(loop)
	// Scales, those of rows 0 to 7 in Z16 and of 8 to 15 in Z17, and what is
	// taken off in Z18 and Z15.
	g.f("KXNORW K2, K2, K2")
	g.f("VPGATHERDD (SI)(Z19*1), K2, Z8")
	g.f("VPMOVDW Z8, Y8")
	g.f("VCVTPH2PS Y8, Z8")
	g.f("VPERMPS Z8, Z25, Z16")
	g.f("VPERMPS Z8, Z24, Z17")
	g.f("VMULPS Z26, Z16, Z18")
	g.f("VMULPS Z26, Z17, Z15")
	// Codes of rows r and r+4 in one register.
	g.f("LEAQ 2(SI), BX")
	for half := range 2 {
		g.f("LEAQ (BX)(DX*4), R8")
		for r, at := range []string{"", "(DX*1)", "(DX*2)", "(R9*1)"} {
			z := 4*half + r
			g.f("VMOVDQU (BX)%s, Y%d", at, z)
			g.f("VINSERTI64X4 $1, (R8)%s, Z%d, Z%d", at, z, z)
		}
		if half == 0 {
			g.f("LEAQ (BX)(DX*8), BX")
		}
	}
	for half := range 2 {
		z := 4 * half
		g.f("VPUNPCKLDQ Z%d, Z%d, Z8", z+1, z)
		g.f("VPUNPCKHDQ Z%d, Z%d, Z9", z+1, z)
		g.f("VPUNPCKLDQ Z%d, Z%d, Z10", z+3, z+2)
		g.f("VPUNPCKHDQ Z%d, Z%d, Z11", z+3, z+2)
		for q := range 4 {
			g.f("VPUNPCK%sQDQ Z%d, Z%d, Z%d", []string{"L", "H"}[q%2], 10+q/2, 8+q/2, z+q)
			g.f("VPXORD Z31, Z%d, Z%d", z+q, z+q)
		}
	}
	// Z(q) has codes 4q.. and 16+4q.. of rows 0 to 7, Z(4+q) of rows 8 to 15.
	n := 0
	for q := range 4 {
		for pair := range 4 { // two of codes 4q.., two of codes 16+4q..
			lo, hi := 8+n%3*2, 9+n%3*2
			flo, fhi := 20+n%2*2, 21+n%2*2
			n++
			g.f("VPERMB Z%d, Z%d, K1, Z%d", q, 27+pair, flo)
			g.f("VPERMB Z%d, Z%d, K1, Z%d", 4+q, 27+pair, fhi)
			g.f("VMOVAPS Z16, Z%d", lo)
			g.f("VMOVAPS Z17, Z%d", hi)
			g.f("VFMSUB213PS Z18, Z%d, Z%d", flo, lo)
			g.f("VFMSUB213PS Z15, Z%d, Z%d", fhi, hi)
			g.cvtne2(byte(lo), byte(hi), byte(lo))
			g.f("VMOVDQU64 Z%d, %d(DI)", lo, 64*(pair/2*8+2*q+pair%2))
		}
	}
	g.f("ADDQ $34, SI")
	g.f("ADDQ $2048, DI")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}
