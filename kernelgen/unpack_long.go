package main

// Long blocks have 256 values, eight steps, which share a scale. What all steps
// need is taken out of the 16 rows by the first one and kept in the job.

// unpackQ4K is of Q4_K: f16 factors of scales and of minima, 12 bytes with 6
// bits of both for each step, then 32 bytes for every two steps: low halves
// are the first one's codes. Codes, scales and minima are so short that only
// the difference is rounded.
func unpackQ4K(g *asm) {
	g.scalesK()
	g.stepPair(16)
	g.bytePairs(func(z int, _ string) { g.shifted(z) }, g.lessMinimum)
}

// unpackQ5K is of Q5_K: 32 bytes stand between, whose bit n is the fifth one of
// a code of step n.
func unpackQ5K(g *asm) {
	g.scalesK()
	g.f("LEAQ -4(CX), R8")
	g.f("VPBROADCASTD R8, Z13")
	g.f("VPBROADCASTD %d(AX), Z14", tabFifth)
	g.stepPair(48)
	g.f("ADDQ $16, SI")
	g.bytePairs(g.joined, g.lessMinimum)
}

// unpackQ6K is of Q6_K: for each half of the steps 64 bytes of low codes, of its
// first and third step and of its second and fourth; then for each half 32 bytes
// with the two high bits of its steps; then 16 signed bytes, scales of half a
// step, and their f16 factor. Codes stand for 32 less. All products are exact.
func unpackQ6K(g *asm) {
	g.first(func() {
		g.dwords(192)
		for q := range 4 {
			g.f("VMOVDQU64 Z%d, %d(R10)", q, jobScales+64+64*q)
		}
		// The factor with what is before it, because the row may end there.
		g.f("VMOVDQU64 %d(R10), Z19", jobRows)
		g.f("KXNORW K2, K2, K2")
		g.f("VPGATHERDD 206(SI)(Z19*1), K2, Z8")
		g.f("VPSRLD $16, Z8, Z8")
		g.f("VPMOVDW Z8, Y8")
		g.f("VCVTPH2PS Y8, Z8")
		g.f("VMOVUPS Z8, %d(R10)", jobScales)
	})
	// The scales of both halves of the step, which move to the left.
	g.f("MOVQ CX, R8")
	g.f("SHRQ $1, R8")
	g.f("SHLQ $6, R8")
	g.f("VMOVDQU64 %d(R10)(R8*1), Z8", jobScales+64)
	g.f("MOVQ CX, R8")
	g.f("ANDQ $1, R8")
	g.f("XORQ $1, R8")
	g.f("SHLQ $4, R8")
	g.f("VPBROADCASTD R8, Z10")
	g.f("VPSLLVD Z10, Z8, Z9")
	g.f("VPSLLD $8, Z9, Z8")
	g.f("VMOVDQU64 %d(AX), Z25", tabTwice)
	g.f("VMOVDQU64 %d(AX), Z24", tabTwice+64)
	for n, to := range [][2]int{{16, 17}, {18, 15}} {
		g.f("VPSRAD $24, Z%d, Z%d", 8+n, 8+n)
		g.f("VCVTDQ2PS Z%d, Z%d", 8+n, 8+n)
		g.f("VMULPS %d(R10), Z%d, Z%d", jobScales, 8+n, 8+n)
		g.f("VPERMPS Z%d, Z25, Z%d", 8+n, to[0])
		g.f("VPERMPS Z%d, Z24, Z%d", 8+n, to[1])
	}
	g.f("VPBROADCASTD %d(AX), Z31", tabNibble)
	g.f("VPBROADCASTD %d(AX), Z26", tabMiddle)
	g.f("VPBROADCASTD %d(AX), Z14", tabHigh)
	g.f("MOVQ CX, R8")
	g.f("ANDQ $3, R8")
	g.f("LEAQ -4(R8)(R8*1), R8")
	g.f("VPBROADCASTD R8, Z13")
	g.f("MOVQ CX, R8")
	g.f("ANDQ $2, R8")
	g.f("SHLQ $1, R8")
	g.f("VPBROADCASTD R8, Z12")
	g.f("MOVQ CX, BX")
	g.f("ANDQ $1, BX")
	g.f("SHRQ $2, CX")
	g.f("LEAQ (BX)(CX*2), BX")
	g.f("SHLQ $5, BX")
	g.f("ADDQ SI, BX")
	g.f("SHLQ $5, CX")
	g.f("LEAQ 128(SI)(CX*1), SI")
	g.bytePairs(g.joined, func(f, scale, other, dst, half int) {
		if half == 1 {
			scale = other
		}
		g.f("VSUBPS Z26, Z%d, Z%d", f, dst)
		g.f("VMULPS Z%d, Z%d, Z%d", scale, dst, dst)
	})
}

// first does what the first step of a block does for all.
func (g *asm) first(do func()) {
	known := g.fresh("known")
	g.f("TESTQ CX, CX")
	g.f("JNZ %s", known)
	do()
	g.label(known)
}

// scalesK leaves the scales of the step in Z16 and Z17 and its minima in Z18
// and Z15, of rows 0 to 7 and 8 to 15, each twice.
func (g *asm) scalesK() {
	g.first(func() {
		g.dwords(0)
		g.f("VPSRLD $16, Z0, Z4")
		for n, z := range []int{0, 4} {
			g.f("VPMOVDW Z%d, Y%d", z, z)
			g.f("VCVTPH2PS Y%d, Z%d", z, z)
			g.f("VMOVUPS Z%d, %d(R10)", z, jobScales+64*n)
		}
		// Six bits each of the first four steps, in Z1 and Z2; above them the
		// high two of the others, whose low four are in Z3.
		g.f("VPBROADCASTD %d(AX), Z8", tabSix)
		g.f("VPBROADCASTD %d(AX), Z9", tabHigh)
		g.f("VPBROADCASTD %d(AX), Z10", tabNibble)
		g.f("VPSRLD $4, Z3, Z4")
		for n, z := range []int{3, 4} {
			g.f("VPANDD Z8, Z%d, Z%d", 1+n, 5)
			g.f("VMOVDQU64 Z5, %d(R10)", jobScales+128+128*n)
			g.f("VPSRLD $2, Z%d, Z%d", 1+n, 6)
			g.f("VPANDD Z10, Z%d, Z%d", z, z)
			g.f("VPTERNLOGD $0xf8, Z9, Z6, Z%d", z) // or what is in both
			g.f("VMOVDQU64 Z%d, %d(R10)", z, jobScales+192+128*n)
		}
	})
	g.f("MOVQ CX, R8")
	g.f("ANDQ $3, R8")
	g.f("SHLQ $3, R8")
	g.f("VPBROADCASTD R8, Z12")
	g.f("MOVQ CX, R8")
	g.f("SHRQ $2, R8")
	g.f("SHLQ $6, R8")
	g.f("VPBROADCASTD %d(AX), Z31", tabByte)
	g.f("VMOVDQU64 %d(AX), Z25", tabTwice)
	g.f("VMOVDQU64 %d(AX), Z24", tabTwice+64)
	for n, to := range [][2]int{{16, 17}, {18, 15}} {
		g.f("VMOVDQU64 %d(R10)(R8*1), Z%d", jobScales+128+128*n, 8+n)
		g.f("VPSRLVD Z12, Z%d, Z%d", 8+n, 8+n)
		g.f("VPANDD Z31, Z%d, Z%d", 8+n, 8+n)
		g.f("VCVTDQ2PS Z%d, Z%d", 8+n, 8+n)
		g.f("VMULPS %d(R10), Z%d, Z%d", jobScales+64*n, 8+n, 8+n)
		g.f("VPERMPS Z%d, Z25, Z%d", 8+n, to[0])
		g.f("VPERMPS Z%d, Z24, Z%d", 8+n, to[1])
	}
	g.f("VPBROADCASTD %d(AX), Z31", tabNibble)
	g.f("VPBROADCASTD %d(AX), Z26", tabFloat)
}

// stepPair leaves in BX where the 32 bytes of this step and its neighbour lie,
// and in Z12 how far its codes are to be shifted.
func (g *asm) stepPair(offset int) {
	g.f("MOVQ CX, R8")
	g.f("ANDQ $1, R8")
	g.f("SHLQ $2, R8")
	g.f("VPBROADCASTD R8, Z12")
	g.f("SHRQ $1, CX")
	g.f("SHLQ $5, CX")
	g.f("LEAQ %d(SI)(CX*1), BX", offset)
}

// shifted leaves the codes of 4 bits, Z12 bits to the left, of register z.
func (g *asm) shifted(z int) {
	g.f("VPSRLVD Z12, Z%d, Z%d", z, z)
	g.f("VPANDD Z31, Z%d, Z%d", z, z)
}

// joined is shifted, plus those bits that Z14 has of rows of SI, turned by Z13
// to the right.
func (g *asm) joined(z int, at string) {
	t := 8 + z%4
	g.shifted(z)
	g.f("VMOVDQU (SI)%s, Y%d", at, t)
	g.f("VINSERTI64X4 $1, (CX)%s, Z%d, Z%d", at, t, t)
	g.f("VPRORVD Z13, Z%d, Z%d", t, t)
	g.f("VPTERNLOGD $0xf8, Z14, Z%d, Z%d", t, z) // or what is in both
}

// lessMinimum is a value of bytePairs: scale times code less minimum.
func (g *asm) lessMinimum(f, scale, least, dst, _ int) {
	g.f("VSUBPS Z26, Z%d, Z%d", f, dst)
	g.f("VFMSUB213PS Z%d, Z%d, Z%d", least, scale, dst)
}
