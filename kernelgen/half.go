package main

// genHalf writes the rounding of f32 values to bf16, in place: n values, a
// multiple of 8. Ties go to even, as in tensor.F32ToBF16; what is no number
// becomes the one with all bits set, which takes one instruction.
func genHalf(g *asm) {
	g.text("roundAVX2", "roundAVX2(v *float32, n int)", 0, 16)
	g.f("MOVQ v+0(FP), DI")
	g.f("MOVQ n+8(FP), CX")
	for n, c := range []string{"0xffff0000", "0x7fff", "1"} {
		g.f("MOVL $%s, AX", c)
		g.f("VMOVD AX, X%d", 13+n)
		g.f("VPBROADCASTD X%d, Y%d", 13+n, 13+n)
	}
	loop := g.fresh("loop")
	g.label(loop)
	g.f("VMOVUPS (DI), Y0")
	g.f("VPSRLD $16, Y0, Y1")
	g.f("VPADDD Y14, Y0, Y3")
	g.f("VPAND Y15, Y1, Y1")
	g.f("VCMPPS $3, Y0, Y0, Y2") // no number
	g.f("VPADDD Y3, Y1, Y1")
	g.f("VPOR Y2, Y1, Y1")
	g.f("VPAND Y13, Y1, Y1")
	g.f("VMOVUPS Y1, (DI)")
	g.f("ADDQ $32, DI")
	g.f("SUBQ $8, CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}

// genWide writes the widening of bf16 panels: 16 columns of tiles, a line of
// pairs of k each, become two rows of f32, ldd values apart. A tile has 16
// lines, and the next one of the same columns is a tile further.
func genWide(g *asm) {
	g.text("widenAVX2", "widenAVX2(dst *float32, src *uint16, ldd, pairs int)", 0, 32)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ldd+16(FP), R8")
	g.f("SHLQ $2, R8")
	g.f("MOVQ pairs+24(FP), CX")
	g.f("MOVL $0xffff0000, AX")
	g.f("VMOVD AX, X15")
	g.f("VPBROADCASTD X15, Y15")
	tile, line := g.fresh("tile"), g.fresh("line")
	g.label(tile)
	g.f("MOVQ $16, DX")
	g.label(line)
	for n := range 2 {
		g.f("VMOVDQU %d(SI), Y%d", 32*n, n)
		g.f("VPSLLD $16, Y%d, Y%d", n, 2+n)
		g.f("VPAND Y15, Y%d, Y%d", n, n)
		g.f("VMOVDQU Y%d, %d(DI)", 2+n, 32*n)
		g.f("VMOVDQU Y%d, %d(DI)(R8*1)", n, 32*n)
	}
	g.f("ADDQ $64, SI")
	g.f("LEAQ (DI)(R8*2), DI")
	done := g.fresh("done")
	g.f("DECQ CX")
	g.f("JZ %s", done)
	g.f("DECQ DX")
	g.f("JNZ %s", line)
	g.f("ADDQ $1024, SI")
	g.f("JMP %s", tile)
	g.label(done)
	g.f("VZEROUPPER")
	g.f("RET")
}
