package main

// Panels of codes (package codes) have the dwords of 16 rows side by side, so
// nothing is gathered or transposed.

// panelScales leaves the 16 f16 values, offset bytes into the block, as f32, those
// of rows 0 to 7 in Z(lo) and of 8 to 15 in Z(hi), each twice.
func (g *asm) panelScales(offset, lo, hi int) {
	g.f("VCVTPH2PS %d(SI), Z10", offset)
	g.f("VPERMPS Z10, Z25, Z%d", lo)
	g.f("VPERMPS Z10, Z24, Z%d", hi)
}

// tileNibbles makes the tile of 32 columns of nibbles at SI, offset bytes on.
// code makes more of the bytes in Z0 to Z7.
func (g *asm) tileNibbles(offset, constant int, code func(), value func(f, scale, other, dst, half int)) {
	g.pairConstants(tabQuads, constant)
	for j := range 4 {
		g.f("VMOVDQU64 %d(SI), Z%d", offset+64*j, j)
	}
	g.splitNibbles()
	code()
	// Z(j) has codes 0, 4, 1 and 5 of eight, Z(4+j) codes 2, 6, 3 and 7.
	g.dwordPairs(func(z, pair int) int { return z%4*4 + 2*pair + z/4 }, value)
}

func unpackPanelQ41(g *asm) {
	g.twice()
	g.panelScales(0, 16, 17)
	g.panelScales(32, 18, 15)
	g.tileNibbles(64, tabFloat, func() {}, func(f, scale, least, dst, _ int) { g.plusMinimum(f, scale, least, dst) })
}

func unpackPanelQ40(g *asm) {
	g.twice()
	g.panelScales(0, 16, 17)
	g.codeScales(tabEight)
	g.tileNibbles(32, tabEight, func() {}, g.scaledCode)
}

func unpackPanelQ8(g *asm) {
	g.twice()
	g.panelScales(0, 16, 17)
	g.codeScales(tabBias)
	g.f("VPBROADCASTD %d(AX), Z9", tabSign)
	g.pairConstants(tabRows, tabBias)
	for j := range 8 {
		g.f("VPXORD %d(SI), Z9, Z%d", 32+64*j, j)
	}
	g.dwordPairs(func(z, pair int) int { return 2*z + pair }, g.scaledCode)
}

func unpackPanelQ4K(g *asm) {
	g.scalesK(func() {
		for n := range 2 {
			g.f("VCVTPH2PS %d(SI), Z4", 32*n)
			g.f("VMOVUPS Z4, %d(R10)", jobScales+64*n)
		}
		for n := range 3 {
			g.f("VMOVDQU64 %d(SI), Z%d", 64+64*n, 1+n)
		}
	})
	g.f("SHLQ $8, CX")
	g.f("ADDQ CX, SI")
	g.tileNibbles(256, tabFloat, func() {}, g.lessMinimum)
}

func unpackPanelQ6K(g *asm) {
	g.first(func() {
		for q := range 4 {
			g.f("VMOVDQU64 %d(SI), Z%d", 32+64*q, q)
		}
		g.keepScales()
		g.f("VCVTPH2PS (SI), Z4")
		g.f("VMOVUPS Z4, %d(R10)", jobScales)
	})
	g.halfScales()
	g.f("IMULQ $384, CX")
	g.f("ADDQ CX, SI")
	g.tileNibbles(288, tabMiddle, func() {
		// The high bits of 16 columns, of which each of four registers has some.
		g.f("VPBROADCASTD %d(AX), Z14", tabHigh)
		for h := range 2 {
			high := 8 + h
			g.f("VMOVDQU64 %d(SI), Z%d", 288+256+64*h, high)
			for q, shift := range []string{"VPSLLD $4", "VPSLLD $2", "", "VPSRLD $2"} {
				z, t := 2*h+q/2+q%2*4, high
				if shift != "" {
					t = 10 + q%2
					g.f("%s, Z%d, Z%d", shift, high, t)
				}
				g.f("VPTERNLOGD $0xf8, Z14, Z%d, Z%d", t, z) // or what is in both
			}
		}
	}, g.timesHalf)
}
