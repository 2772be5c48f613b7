package main

import "fmt"

// Panels of types whose blocks are 256 columns. A step of codeGroups is a block,
// of which DX is the beginning; R9 counts what is left of it. Z26 has d.

// streamQ4_K writes the kernels for Q4_K. Z27 has -dmin, Z28 scales and Z30 minima
// of four times 32 columns, a byte each, the first lowest.
func (g *asm) streamQ4_K(rows int) {
	g.codeHead(fmt.Sprintf("streamQ4_Kx%d", rows))
	g.codeGroups(rows, func() {
		inner, done := g.fresh("inner"), g.fresh("done")
		g.f("MOVQ SI, DX")
		g.streamFetch(256)
		g.f("VCVTPH2PS (DX), Z26")
		g.f("VCVTPH2PS 32(DX), Z27")
		g.f("VPXORD.BCST %d(R15), Z27, Z27", codeSign)
		g.f("VMOVDQU64 64(DX), Z28")
		g.f("VPANDD.BCST %d(R15), Z28, Z28", codeSix)
		g.f("VMOVDQU64 128(DX), Z30")
		g.f("VPANDD.BCST %d(R15), Z30, Z30", codeSix)
		g.f("ADDQ $256, SI")
		g.f("MOVQ $8, R9")
		g.label(inner)
		for _, v := range [][3]int{{28, 25, 26}, {30, 24, 27}} {
			g.f("VPANDD.BCST %d(R15), Z%d, Z%d", codeByte, v[0], v[1])
			g.f("VPSRLD $8, Z%d, Z%d", v[0], v[0])
			g.f("VCVTDQ2PS Z%d, Z%d", v[1], v[1])
			g.f("VMULPS Z%d, Z%d, Z%d", v[2], v[1], v[1])
		}
		g.streamNibbles(0)
		g.streamFetch(256)
		g.f("ADDQ $256, SI")
		g.allDots(rows)
		g.f("DECQ R9")
		g.f("JZ %s", done)
		g.f("CMPQ R9, $4")
		g.f("JNE %s", inner)
		// Of the other four, 4 bits are in the third vector and 2 on top of the
		// first two.
		g.f("VMOVDQU64 192(DX), Z30")
		g.f("VPANDD Z29, Z30, Z28")
		g.f("VPSRLD $4, Z30, Z30")
		g.f("VPANDD Z29, Z30, Z30")
		g.f("VPBROADCASTD %d(R15), Z0", codeHigh)
		for i, v := range []int{28, 30} {
			g.f("VMOVDQU64 %d(DX), Z1", 64+64*i)
			g.f("VPSRLD $2, Z1, Z1")
			g.f("VPTERNLOGD $0xf8, Z0, Z1, Z%d", v) // or what is in both
		}
		g.f("JMP %s", inner)
		g.label(done)
	}, func() {})
	g.ret()
}

// streamQ6_K writes the kernels for Q6_K, which have a scale per 16 columns. R9
// counts vectors of scales, which DX points to.
func (g *asm) streamQ6_K(rows int) {
	g.codeHead(fmt.Sprintf("streamQ6_Kx%d", rows))
	g.f("VPBROADCASTD %d(R15), Z30", codeHigh)
	g.codeGroups(rows, func() {
		inner := g.fresh("inner")
		g.streamFetch(288)
		g.f("VCVTPH2PS (SI), Z26")
		g.f("LEAQ 32(SI), DX")
		g.f("ADDQ $288, SI")
		g.f("MOVQ $4, R9")
		g.label(inner)
		for part := range 2 {
			g.streamNibbles(0)
			for h := range 2 {
				g.f("VMOVDQU64 %d(SI), Z31", 256+64*h)
				g.highBits(4 * h)
			}
			for h := range 2 {
				g.f("VMOVDQU64 (DX), Z25")
				if at := 2*part + h; at < 3 {
					g.f("VPSLLD $%d, Z25, Z25", 24-8*at)
				}
				g.f("VPSRAD $24, Z25, Z25")
				g.f("VCVTDQ2PS Z25, Z25")
				g.f("VMULPS Z26, Z25, Z25")
				g.f("VMULPS Z28, Z25, Z24")
				g.someDots(rows, 4*h, 4*h+4, 32*h)
			}
			g.streamFetch(384)
			g.f("ADDQ $384, SI")
			g.f("ADDQ $%d, AX", 64*rows+128)
		}
		g.f("ADDQ $64, DX")
		g.f("DECQ R9")
		g.f("JNZ %s", inner)
	}, func() {})
	g.ret()
}

// highBits adds the upper 2 of 6 bits, which are in Z31, to four quads.
func (g *asm) highBits(first int) {
	for q, shift := range []string{"VPSLLD $4", "VPSLLD $2", "", "VPSRLD $2"} {
		from := 31
		if shift != "" {
			from = 25
			g.f("%s, Z31, Z25", shift)
		}
		g.f("VPTERNLOGD $0xf8, Z30, Z%d, Z%d", from, first+q) // or what is in both
	}
}
