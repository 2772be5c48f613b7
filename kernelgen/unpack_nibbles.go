package main

// unpackQ41 is of Q4_1, whose block is an f16 scale, an f16 minimum and 16
// bytes: the low halves are elements 0 to 15, the high ones 16 to 31.
func unpackQ41(g *asm) {
	g.scalePairs()
	g.minimumPairs()
	g.nibbles(4, tabFloat, nil, g.plusMinimum)
}

// unpackQ40 is of Q4_0: an f16 scale and 16 bytes of such halves, less 8.
func unpackQ40(g *asm) {
	g.scalePairs()
	g.codeScales(tabEight)
	g.nibbles(2, tabEight, nil, func(f, scale, off, dst int) { g.scaledCode(f, scale, off, dst, 0) })
}

// unpackQ50 is of Q5_0: an f16 scale, 32 fifth bits and 16 bytes of halves, less
// 16.
func unpackQ50(g *asm) {
	g.scalePairs()
	g.fifths(2)
	g.nibbles(6, tabMiddle5, g.withFifth, g.times)
}

// unpackQ51 is of Q5_1: an f16 scale, an f16 minimum, then what Q5_0 has.
func unpackQ51(g *asm) {
	g.scalePairs()
	g.minimumPairs()
	g.fifths(4)
	g.nibbles(8, tabFloat, g.withFifth, g.plusMinimum)
}

// unpackIQ4 is of IQ4_NL: Q4_0 with codes that stand for levels of a table.
func unpackIQ4(g *asm) {
	g.scalePairs()
	g.levels(2, 0)
}

// unpackMXFP4 is of MXFP4: a byte that is the exponent of the scale, 128 more,
// and 16 bytes of codes of levels. The two least scales are subnormal.
func unpackMXFP4(g *asm) {
	g.twice()
	g.gather(0, 8)
	g.f("VPBROADCASTD %d(AX), Z9", tabByte)
	g.f("VPANDD Z9, Z8, Z8")
	g.f("VPBROADCASTD %d(AX), Z9", tabOne)
	g.f("VPCMPUD $2, Z9, Z8, K2") // not above 1
	g.f("VPSUBD Z9, Z8, Z10")
	g.f("VPSLLD $23, Z10, Z10")
	g.f("VPBROADCASTD %d(AX), Z9", tabTiny)
	g.f("VPSLLVD Z8, Z9, K2, Z10")
	g.f("VPERMPS Z10, Z25, Z16")
	g.f("VPERMPS Z10, Z24, Z17")
	g.levels(1, 16)
}

// levels makes the tile of codes, offset bytes into the block, that stand for
// levels of the table that is so many bytes on, times the scales.
func (g *asm) levels(offset, table int) {
	g.f("VBROADCASTI32X4 %d(AX), Z14", tabLevels+table)
	g.nibbles(offset, tabBias, func(z int) { g.f("VPSHUFB Z%d, Z14, Z%d", z, z) }, g.times)
}

// twice leaves in Z25 and Z24 the permutations that bring what 16 rows have to
// the lanes of rows 0 to 7, and of rows 8 to 15.
func (g *asm) twice() {
	g.f("VMOVDQU64 %d(AX), Z25", tabTwice)
	g.f("VMOVDQU64 %d(AX), Z24", tabTwice+64)
}

// gather leaves the dwords offset bytes into the blocks of all rows in Z(z).
func (g *asm) gather(offset, z int) {
	g.f("VMOVDQU64 %d(R10), Z19", jobRows)
	g.f("KXNORW K2, K2, K2")
	g.f("VPGATHERDD %d(SI)(Z19*1), K2, Z%d", offset, z)
}

// scalePairs leaves the f16 at the beginning of each row as f32, those of rows
// 0 to 7 in Z16 and of 8 to 15 in Z17, each twice; the dwords that the rows
// begin with are in Z8, and the two permutations in Z25 and Z24.
func (g *asm) scalePairs() {
	g.twice()
	g.gather(0, 8)
	g.f("VPMOVDW Z8, Y10")
	g.f("VCVTPH2PS Y10, Z10")
	g.f("VPERMPS Z10, Z25, Z16")
	g.f("VPERMPS Z10, Z24, Z17")
}

// minimumPairs leaves the f16 behind the scales likewise, in Z18 and Z15.
func (g *asm) minimumPairs() {
	g.f("VPSRLD $16, Z8, Z9")
	g.f("VPMOVDW Z9, Y9")
	g.f("VCVTPH2PS Y9, Z9")
	g.f("VPERMPS Z9, Z25, Z18")
	g.f("VPERMPS Z9, Z24, Z15")
}

// fifths leaves what withFifth needs: the 32 bits of each row, offset bytes into
// the block, in Z14.
func (g *asm) fifths(offset int) {
	g.gather(offset, 14)
	g.f("VMOVDQU64 %d(AX), Z24", tabFifths)
	g.f("VPBROADCASTD %d(AX), Z25", tabFifth)
	g.f("VPBROADCASTD %d(AX), Z19", tabFour)
}

// withFifth adds their fifth bits to four codes of each row.
func (g *asm) withFifth(z int) {
	t := 8 + z%4
	g.f("VPMULTISHIFTQB Z14, Z24, Z%d", t)
	g.f("VPTERNLOGD $0xf8, Z25, Z%d, Z%d", t, z) // or what is in both
	g.f("VPADDB Z19, Z24, Z24")
}

// plusMinimum is a value of nibbles: scale times code plus minimum.
func (g *asm) plusMinimum(f, scale, least, dst int) {
	g.f("VSUBPS Z26, Z%d, Z%d", f, dst)
	g.f("VFMADD213PS Z%d, Z%d, Z%d", least, scale, dst)
}

// times is a value of nibbles: scale times what the code is beyond Z26.
func (g *asm) times(f, scale, _, dst int) {
	g.f("VSUBPS Z26, Z%d, Z%d", f, dst)
	g.f("VMULPS Z%d, Z%d, Z%d", scale, dst, dst)
}

// nibbles makes the tile of rows of 16 bytes, offset bytes into the block. code
// emits what makes of the dwords of nibbles in Z(z), which come in order, codes.
// value emits what makes of 2^15+code, and of the two vectors of its row, the
// weight; constant is what it finds in Z26.
func (g *asm) nibbles(offset, constant int, code func(z int), value func(f, scale, other, dst int)) {
	g.pairConstants(tabRows, constant)
	g.dwords(offset)
	g.splitNibbles()
	for z := range 8 {
		if code != nil {
			code(z)
		}
	}
	// Z(q) has elements 4q.. of all rows, Z(4+q) 16+4q...
	g.dwordPairs(func(z, pair int) int { return 2*z + pair }, func(f, scale, other, dst, _ int) { value(f, scale, other, dst) })
}

// pairConstants leaves what dwordPairs needs: the permutations at table, and the
// constant of a value in Z26.
func (g *asm) pairConstants(table, constant int) {
	for n := range 4 {
		g.f("VMOVDQU64 %d(AX), Z%d", table+64*n, 27+n)
		g.f("VPBROADCASTD %d(AX), Z%d", tabFloat, 20+n)
	}
	g.f("VPBROADCASTD %d(AX), Z31", tabNibble)
	g.f("VPBROADCASTD %d(AX), Z26", constant)
	g.f("KMOVQ %d(AX), K1", tabMask)
}

// splitNibbles leaves the low halves of the bytes in Z0 to Z3 there, and the high
// halves in Z4 to Z7.
func (g *asm) splitNibbles() {
	for q := range 4 {
		g.f("VPSRLD $4, Z%d, Z%d", q, 4+q)
		g.f("VPANDD Z31, Z%d, Z%d", q, q)
		g.f("VPANDD Z31, Z%d, Z%d", 4+q, 4+q)
	}
}

// dwordPairs makes the tile of codes that are the bytes of Z0 to Z7, a dword per
// row, two pairs each. row is that of a pair in the tile. value is one of
// bytePairs, where half is that of Z0 to Z3, or of Z4 to Z7, which z is in.
func (g *asm) dwordPairs(row func(z, pair int) int, value func(f, scale, other, dst, half int)) {
	n := 0
	for z := range 8 {
		for pair := range 2 {
			lo, hi := 8+n%3*2, 9+n%3*2
			flo, fhi := 20+n%2*2, 21+n%2*2
			g.cutPairs(n)
			n++
			g.f("VPERMB Z%d, Z%d, K1, Z%d", z, 27+pair, flo)
			g.f("VPERMB Z%d, Z%d, K1, Z%d", z, 29+pair, fhi)
			value(flo, 16, 18, lo, z%4/2)
			value(fhi, 17, 15, hi, z%4/2)
			g.cvtne2(byte(lo), byte(hi), byte(lo))
			g.f("VMOVDQU64 Z%d, %d(AX)", lo, 64*row(z, pair))
		}
	}
}

// dwords leaves the 16 bytes of each row, offset bytes into the block, in Z0 to
// Z3: a dword each of all rows.
func (g *asm) dwords(offset int) {
	// Rows r, r+4, r+8 and r+12 in one register.
	g.f("LEAQ %d(SI), BX", offset)
	for r := range 4 {
		g.f("VMOVDQU (BX), X%d", r)
		for l, at := range []string{"(DX*4)", "(DX*8)", "(R9*4)"} {
			g.f("VINSERTI32X4 $%d, (BX)%s, Z%d, Z%d", l+1, at, r, r)
		}
		g.f("ADDQ DX, BX")
	}
	g.f("VPUNPCKLDQ Z1, Z0, Z8")
	g.f("VPUNPCKHDQ Z1, Z0, Z9")
	g.f("VPUNPCKLDQ Z3, Z2, Z10")
	g.f("VPUNPCKHDQ Z3, Z2, Z11")
	for q := range 4 {
		g.f("VPUNPCK%sQDQ Z%d, Z%d, Z%d", []string{"L", "H"}[q%2], 10+q/2, 8+q/2, q)
	}
}
