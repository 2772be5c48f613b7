package main

import "fmt"

// Panels of types whose blocks are 256 columns, for genStreamAVX2. A step of
// groups8 is a block. Its scales and minima become f32 at R15 first, 16 weight
// rows of each, which DX walks through; R9 counts what is left of the block.

// stream8Q4_K writes the kernels for Q4_K: per 32 columns scales, then minima with
// their sign turned.
func (g *asm) stream8Q4_K(rows int, vnni bool) {
	tier := "AVX2"
	if vnni {
		tier = "AVXVNNI"
	}
	g.head8(fmt.Sprintf("streamQ4_Kx%d%s", rows, tier))
	g.f("VPBROADCASTD %d(R15), Y13", codeSix)
	g.f("VPBROADCASTD %d(R15), Y12", codeByte)
	g.groups8(rows, func() {
		for half := range 2 {
			g.f("VCVTPH2PS %d(SI), Y4", 16*half)
			g.f("VCVTPH2PS %d(SI), Y5", 32+16*half)
			g.f("VBROADCASTSS %d(R15), Y6", codeSign)
			g.f("VXORPS Y6, Y5, Y5")
			for i := range 3 {
				g.f("VMOVDQU %d(SI), Y%d", 64+64*i+32*half, i)
			}
			// Of the first four, 6 bits are in the first two vectors.
			for i := range 2 {
				g.f("VPAND Y13, Y%d, Y3", i)
				g.scales8(3, 4+i, 4, tabScales+64*i+32*half, 128)
			}
			// Of the other four, 4 bits are in the third vector and 2 on top of the
			// first two.
			g.f("VPBROADCASTD %d(R15), Y6", codeHigh)
			for i := range 2 {
				g.f("VPSRLD $2, Y%d, Y%d", i, i)
				g.f("VPAND Y6, Y%d, Y%d", i, i)
				if i == 1 {
					g.f("VPSRLD $4, Y2, Y2")
				}
				g.f("VPAND Y15, Y2, Y3")
				g.f("VPOR Y%d, Y3, Y3", i)
				g.scales8(3, 4+i, 4, tabScales+4*128+64*i+32*half, 128)
			}
		}
		g.streamFetch(256)
		g.f("ADDQ $256, SI")
		g.inner8(8, func() {
			for half := range 2 {
				for i := range 2 * rows {
					g.zero(avx2, i)
				}
				g.nibbles8(32*half, rows, vnni)
				g.f("VMOVUPS %d(DX), Y4", 32*half)
				g.f("VMOVUPS %d(DX), Y5", 64+32*half)
				g.byteSums8(rows, half, vnni)
			}
			g.streamFetch(256)
			g.f("ADDQ $256, SI")
			g.f("ADDQ $%d, AX", 64*rows+64)
		})
	})
}

// scales8 makes f32 of bytes of the dwords in a register, the lowest first: times
// those of another register they go to at(R15) and so many bytes on. Y7 is lost.
func (g *asm) scales8(from, times, bytes, at, stride int) {
	for i := range bytes {
		g.f("VPAND Y12, Y%d, Y7", from)
		if i+1 < bytes {
			g.f("VPSRLD $8, Y%d, Y%d", from, from)
		}
		g.f("VCVTDQ2PS Y7, Y7")
		g.f("VMULPS Y%d, Y7, Y7", times)
		g.f("VMOVUPS Y7, %d(R15)", at+i*stride)
	}
}

// inner8 does so many parts of a block, each of which has 128 bytes of scales.
func (g *asm) inner8(parts int, part func()) {
	inner := g.fresh("inner")
	g.f("LEAQ %d(R15), DX", tabScales)
	g.f("MOVQ $%d, R9", parts)
	g.label(inner)
	part()
	g.f("ADDQ $128, DX")
	g.f("DECQ R9")
	g.f("JNZ %s", inner)
}

// stream8Q6_K writes the kernels for Q6_K, which have a scale per 16 columns. Codes
// multiply as words, with activations that are words too; sums begin with what
// codes are too large by.
func (g *asm) stream8Q6_K(rows int) {
	g.head8(fmt.Sprintf("streamQ6_Kx%dAVX2", rows))
	g.f("VPBROADCASTD %d(R15), Y13", codeHigh)
	g.f("VPCMPEQW Y12, Y12, Y12")
	g.f("VPSRLW $8, Y12, Y12")
	g.groups8(rows, func() {
		for half := range 2 {
			g.f("VCVTPH2PS %d(SI), Y4", 16*half)
			for v := range 4 {
				g.f("VMOVDQU %d(SI), Y3", 32+64*v+32*half)
				for i := range 4 {
					from := 3
					if i < 3 {
						from = 7
						g.f("VPSLLD $%d, Y3, Y7", 24-8*i)
					}
					g.f("VPSRAD $24, Y%d, Y7", from)
					g.f("VCVTDQ2PS Y7, Y7")
					g.f("VMULPS Y4, Y7, Y7")
					g.f("VMOVUPS Y7, %d(R15)", tabScales+64*(4*v+i)+32*half)
				}
			}
		}
		g.streamFetch(288)
		g.f("ADDQ $288, SI")
		g.inner8(8, func() {
			for half := range 2 {
				for h := range 2 {
					for m := range rows {
						g.f("VPBROADCASTD %d(AX), Y%d", 64*rows+32+32*h+4*m, 2*m)
					}
					g.sixths8(32*half, h, rows)
					g.f("VMOVUPS %d(DX), Y4", 64*h+32*half)
					g.wordSums8(rows, half)
				}
			}
			g.streamFetch(384)
			g.f("ADDQ $384, SI")
			g.f("ADDQ $%d, AX", 64*rows+128)
		})
	})
}

// sixths8 adds the products of 16 columns, the first or the second of 32, of 8
// weight rows to registers 2m. Y12 has the lower bytes of words.
func (g *asm) sixths8(at, h, rows int) {
	g.f("VMOVDQU %d(SI), Y1", at+256+64*h)
	for v := 2 * h; v < 2*h+2; v++ {
		g.f("VMOVDQU %d(SI), Y5", at+64*v)
		g.f("VPAND Y15, Y5, Y4")
		g.f("VPSRLW $4, Y5, Y5")
		g.f("VPAND Y15, Y5, Y5")
		for n := range 2 {
			shift := []string{"VPSLLW $4", "VPSLLW $2", "", "VPSRLW $2"}[2*(v%2)+n]
			from := 1
			if shift != "" {
				from = 6
				g.f("%s, Y1, Y6", shift)
			}
			g.f("VPAND Y13, Y%d, Y6", from)
			g.f("VPOR Y6, Y%d, Y%d", 4+n, 4+n)
			for odd := range 2 {
				if odd == 0 {
					g.f("VPAND Y12, Y%d, Y6", 4+n)
				} else {
					g.f("VPSRLW $8, Y%d, Y6", 4+n)
				}
				for m := range rows {
					g.f("VPBROADCASTD %d(AX), Y7", 64*m+16*v+4*(2*n+odd))
					g.f("VPMADDWD Y7, Y6, Y7")
					g.f("VPADDD Y7, Y%d, Y%d", 2*m, 2*m)
				}
			}
		}
	}
}
