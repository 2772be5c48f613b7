package main

// packLines rounds rows and makes left operands of them, 1 KB per step. order
// is where each value of 32 comes from.
func (g *asm) packLines() {
	g.text("packLines", "packLines(dst *uint16, src *float32, lds, steps, rows int, order *[32]uint16)", 0, 48)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ lds+16(FP), R9") // bytes
	g.f("MOVQ rows+32(FP), R11")
	g.f("MOVQ order+40(FP), DX")
	g.f("VMOVDQU64 (DX), Z31")
	row, loop := g.fresh("row"), g.fresh("loop")
	g.label(row)
	g.f("MOVQ steps+24(FP), CX")
	g.f("MOVQ SI, BX")
	g.f("MOVQ DI, DX")
	g.label(loop)
	g.f("VMOVUPS (BX), Z1")
	g.f("VMOVUPS 64(BX), Z2")
	g.cvtne2(1, 2, 0)
	g.f("VPERMW Z0, Z31, Z0")
	g.f("VMOVDQU64 Z0, (DX)")
	g.f("ADDQ $128, BX")
	g.f("ADDQ $1024, DX")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("ADDQ $64, DI")
	g.f("ADDQ R9, SI")
	g.f("DECQ R11")
	g.f("JNZ %s", row)
	g.f("VZEROUPPER")
	g.f("RET")
}

// sumLines adds up the values of each row of each step, [steps][16 rows] of them,
// on tiles: a step is multiplied with a column of ones, 16 steps with 16 columns.
// From one step to the next are next bytes, and turn says which bits of that are
// others from there to the one after. ones is 31 pairs, all zero but the one in
// the middle; out is a tile.
func (g *asm) sumLines() {
	g.text("sumLines", "sumLines(cfg *[64]byte, sums *float32, x *uint16, steps, next, turn int, ones *[31]uint32, out *float32)", 0, 64)
	g.f("MOVQ cfg+0(FP), AX")
	g.ldtilecfg()
	g.f("MOVQ sums+8(FP), DI")
	g.f("MOVQ x+16(FP), BX")
	g.f("MOVQ steps+24(FP), R12")
	g.f("MOVQ next+32(FP), R10")
	g.f("MOVQ turn+40(FP), R11")
	g.f("MOVQ out+56(FP), DX")
	g.f("MOVQ $64, CX")
	g.f("XORQ AX, AX")
	tile, loop, store := g.fresh("tile"), g.fresh("loop"), g.fresh("store")
	g.label(tile)
	g.f("MOVQ ones+48(FP), SI")
	g.f("LEAQ -4(SI), R9")
	g.f("ADDQ $60, SI")
	g.tilezero(0)
	g.label(loop)
	g.tileload(4, rBX, rCX, 0)
	g.tileload(6, rSI, rAX, 0)
	g.tdp("TDPBF16PS", 2, 0x5c, 0, 4, 6)
	g.f("ADDQ R10, BX")
	g.f("XORQ R11, R10")
	g.f("SUBQ $4, SI")
	g.f("DECQ R12")
	g.f("JZ %s", store)
	g.f("CMPQ SI, R9")
	g.f("JNE %s", loop)
	g.label(store)
	g.tilestore(0, rDX, rCX, 0)
	for r := range 16 {
		g.f("VMOVUPS %d(DX), Z%d", 64*r, r)
	}
	g.storeTile()
	g.f("ADDQ $1024, DI")
	g.f("TESTQ R12, R12")
	g.f("JNZ %s", tile)
	g.tilerelease()
	g.f("VZEROUPPER")
	g.f("RET")
}
