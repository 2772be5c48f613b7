package main

// genUnpackBF16 writes the ways of quantized rows into B tiles: 16 rows of
// steps blocks of 32, rowBytes apart, decoded, rounded and transposed without
// leaving registers.
func genUnpackBF16(g *asm) {
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

	// A block of Q8_0 is an f16 scale and 32 codes.
	loop := open("unpackQ8")
	for r := byte(0); r < 16; r++ {
		lo, hi, scale := 16+r%4*4, 17+r%4*4, 18+r%4*4
		g.f("VPBROADCASTW (BX), Y%d", scale)
		g.f("VCVTPH2PS Y%d, Z%d", scale, scale)
		g.f("VPMOVSXBD 2(BX), Z%d", lo)
		g.f("VPMOVSXBD 18(BX), Z%d", hi)
		g.f("VCVTDQ2PS Z%d, Z%d", lo, lo)
		g.f("VCVTDQ2PS Z%d, Z%d", hi, hi)
		g.f("VMULPS Z%d, Z%d, Z%d", scale, lo, lo)
		g.f("VMULPS Z%d, Z%d, Z%d", scale, hi, hi)
		g.cvtne2(lo, hi, r)
		if r < 15 {
			g.f("ADDQ DX, BX")
		}
	}
	done(loop, 34)

	// A block of Q4_1 is an f16 scale, an f16 minimum and 16 bytes: the low
	// halves are elements 0 to 15, the high ones 16 to 31.
	loop = open("unpackQ4")
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
