package main

// genOuter writes the packing of A for products over rows: 16 columns of A in its
// natural order, steps x 32 rows of K, become the rows of tiles. Two rows become
// one row of pairs, and a 16x16 transpose of pairs is a tile. skip bytes lie
// between the last of 32 rows and the first of the next.
func genOuter(g *asm) {
	g.text("packAcrossBF16", "packAcrossBF16(dst *uint16, src *float32, ld, steps, next, skip int, interleave *uint16)", 0, 56)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ld+16(FP), DX") // bytes
	g.f("MOVQ steps+24(FP), CX")
	g.f("MOVQ next+32(FP), BX") // bytes from one tile to the next
	g.f("MOVQ skip+40(FP), R8")
	g.f("MOVQ interleave+48(FP), AX")
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
	g.f("ADDQ R8, SI")
	g.f("ADDQ BX, DI")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")

	genRoundedTiles(g)
	consts := &constants{}
	genScoreGrad(g, consts)
	consts.write(g)
}

// genRoundedTiles writes the packing of operands that are rounded already: tiles of
// 32 rows of 32 words, one behind the other, which become tiles that lie next bytes
// apart. pairTilesBF16 makes panels of B, turnTilesBF16 blocks of A.
func genRoundedTiles(g *asm) {
	for _, turn := range []bool{false, true} {
		name := "pairTilesBF16"
		if turn {
			name = "turnTilesBF16"
		}
		g.text(name, name+"(dst, src *uint16, tiles, next int, interleave *uint16)", 0, 40)
		g.f("MOVQ dst+0(FP), DI")
		g.f("MOVQ src+8(FP), SI")
		g.f("MOVQ tiles+16(FP), CX")
		g.f("MOVQ next+24(FP), BX") // bytes
		g.f("MOVQ interleave+32(FP), AX")
		loop := g.fresh("loop")
		g.label(loop)
		for half := range 2 {
			g.f("VMOVDQU64 (AX), Z31")
			for p := range 16 { // two rows of 16 words become one row of pairs
				at := p*128 + half*32
				g.f("VMOVDQU64 %d(SI), Y%d", at, p)
				g.f("VINSERTI64X4 $1, %d(SI), Z%d, Z%d", at+64, p, p)
				g.f("VPERMW Z%d, Z31, Z%d", p, p)
				if !turn {
					g.f("VMOVDQU64 Z%d, %d(DI)", p, half*1024+p*64)
				}
			}
			if turn {
				if half == 1 {
					g.f("ADDQ $1024, DI")
				}
				g.storeTile()
			}
		}
		if turn {
			g.f("SUBQ $1024, DI")
		}
		g.f("ADDQ $2048, SI")
		g.f("ADDQ BX, DI")
		g.f("DECQ CX")
		g.f("JNZ %s", loop)
		g.f("VZEROUPPER")
		g.f("RET")
	}
}

// genScoreGrad turns rows of scores into probabilities, p = e^(scale*p - lse), and
// the gradients of probabilities into those of scores before they are scaled,
// d = p*(d - mean)*scale, where mean is that of d by p: what rounding did to d
// cancels. n is a multiple of 32. Scores that nobody may see are -Inf. The
// exponentials are as good as bf16 needs.
func genScoreGrad(g *asm, consts *constants) {
	k := &outKernel{vkernel: &vkernel{asm: g, isa: avx512, consts: consts}}
	g.text("scoreGradBF16", "scoreGradBF16(p, d *float32, ld, n, rows int, scale float32, lse *float32)", 16, 56)
	g.ftz()
	g.f("MOVQ p+0(FP), DI")
	g.f("MOVQ d+8(FP), SI")
	g.f("MOVQ ld+16(FP), R8") // bytes
	g.f("MOVQ n+24(FP), R10")
	g.f("SHLQ $2, R10") // bytes
	g.f("MOVQ rows+32(FP), R11")
	g.f("MOVQ lse+48(FP), R12")
	g.f("VBROADCASTSS scale+40(FP), Z3")
	g.f("VMULPS %s, Z3, Z0", k.c(log2e)) // powers of two from here on
	for _, c := range exp2Poly {
		g.f("VMOVUPS %s, Z%d", k.c(c), k.hold(c))
	}
	row, exps, none, rest := g.fresh("row"), g.fresh("exps"), g.fresh("none"), g.fresh("rest")
	g.label(row)
	g.f("VBROADCASTSS (R12), Z1")
	g.f("VMULPS %s, Z1, Z1", k.c(log2e))
	for z := 20; z < 24; z++ { // sums of p, and of p*d
		g.zero(avx512, z)
	}
	g.f("XORQ CX, CX")
	g.label(exps)
	both := func(part func(o int)) {
		g.weave(func() { part(0) }, func() { part(1) })
	}
	both(func(o int) {
		x, e, f := 4+4*o, 5+4*o, 6+4*o
		g.f("VMOVUPS %d(DI)(CX*1), Z%d", 64*o, x)
		g.f("VFMSUB213PS Z1, Z0, Z%d", x)
		k.exp2(x, f, e)
		g.f("VMOVUPS Z%d, %d(DI)(CX*1)", e, 64*o)
		g.f("VADDPS Z%d, Z%d, Z%d", e, 20+o, 20+o)
		g.f("VFMADD231PS %d(SI)(CX*1), Z%d, Z%d", 64*o, e, 22+o)
	})
	g.f("ADDQ $128, CX")
	g.f("CMPQ CX, R10")
	g.f("JLT %s", exps)
	g.f("VADDPS Z21, Z20, Z4")
	g.f("VADDPS Z23, Z22, Z5")
	k.fold("VADDPS", 4, 6)
	k.fold("VADDPS", 5, 6)
	g.zero(avx512, 2)
	g.zero(avx512, 6)
	g.f("VUCOMISS X6, X4")
	g.f("JEQ %s", none) // of a query that sees nothing
	g.f("VDIVSS X4, X5, X5")
	g.f("VBROADCASTSS X5, Z2")
	g.label(none)
	g.f("XORQ CX, CX")
	g.label(rest)
	both(func(o int) {
		d := 4 + o
		g.f("VMOVUPS %d(SI)(CX*1), Z%d", 64*o, d)
		g.f("VSUBPS Z2, Z%d, Z%d", d, d)
		g.f("VMULPS Z3, Z%d, Z%d", d, d)
		g.f("VMULPS %d(DI)(CX*1), Z%d, Z%d", 64*o, d, d)
		g.f("VMOVUPS Z%d, %d(SI)(CX*1)", d, 64*o)
	})
	g.f("ADDQ $128, CX")
	g.f("CMPQ CX, R10")
	g.f("JLT %s", rest)
	g.f("ADDQ $4, R12")
	g.f("ADDQ R8, DI")
	g.f("ADDQ R8, SI")
	g.f("DECQ R11")
	g.f("JNZ %s", row)
	g.ret()
}
