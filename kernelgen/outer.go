package main

// genOuter writes the packing of A for products over rows: 16 columns of A in its
// natural order, steps x 32 rows of K, become the rows of tiles. Two rows become
// one row of pairs, and a 16x16 transpose of pairs is a tile.
func genOuter(g *asm) {
	g.text("packAcrossBF16", "packAcrossBF16(dst *uint16, src *float32, ld, steps, next int, interleave *uint16)", 0, 48)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ld+16(FP), DX") // bytes
	g.f("MOVQ steps+24(FP), CX")
	g.f("MOVQ next+32(FP), BX") // bytes from one tile to the next
	g.f("MOVQ interleave+40(FP), AX")
	loop := g.fresh("loop")
	g.label(loop)
	g.f("VMOVDQU64 (AX), Z31")
	for p := byte(0); p < 16; p++ {
		lo, hi := 16+p%4*2, 17+p%4*2
		g.f("VMOVUPS (SI), Z%d", lo)
		g.f("VMOVUPS (SI)(DX*1), Z%d", hi)
		g.cvtne2(lo, hi, 24+p%4)
		g.f("VPERMW Z%d, Z31, Z%d", 24+p%4, p)
		g.f("LEAQ (SI)(DX*2), SI")
	}
	g.storeTile()
	g.f("ADDQ BX, DI")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}
