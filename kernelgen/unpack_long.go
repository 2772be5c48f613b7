package main

// Long blocks have 256 values, eight steps, which share a scale. What all steps
// need is taken out of the 16 rows by the first one and kept in the job.

// unpackQ4K is of Q4_K: f16 factors of scales and of minima, 12 bytes with 6
// bits of both for each step, then 32 bytes for every two steps: low halves
// are the first one's codes. Codes, scales and minima are so short that only
// the difference is rounded.
func unpackQ4K(g *asm) {
	g.scalesK(g.fileScalesK)
	g.stepPair(16)
	g.bytePairs(func(z int, _ string) { g.shifted(z) }, g.lessMinimum)
}

// unpackQ5K is of Q5_K: 32 bytes stand between, whose bit n is the fifth one of
// a code of step n.
func unpackQ5K(g *asm) {
	g.scalesK(g.fileScalesK)
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
		g.keepScales()
		// The factor with what is before it, because the row may end there.
		g.gather(206, 8)
		g.keepFactor(8, 0)
	})
	g.halfScales()
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
	g.bytePairs(g.joined, g.timesHalf)
}

// unpackQ3K is of Q3_K: 32 bytes, whose bit n is the third one of a code of step
// n; 32 bytes with two bits of codes of four steps, and of the other four; then
// 6 bits of a scale for each half of a step, less 32: eight bytes with the low
// four, of the first half of them and of the second, four bytes with the high
// two; then their f16 factor. Codes stand for 4 less.
func unpackQ3K(g *asm) {
	g.first(func() {
		for n, at := range []int{96, 100, 104, 106} {
			g.gather(at, 4+n)
		}
		g.keepFactor(7, 0)
		g.f("VPBROADCASTD %d(AX), Z9", tabHigh)
		g.f("VPBROADCASTD %d(AX), Z10", tabNibble)
		g.f("VPBROADCASTD %d(AX), Z11", tabHalf6)
		g.f("VPSLLD $4, Z6, Z0")
		g.f("VPSLLD $2, Z6, Z1")
		g.f("VMOVDQA64 Z6, Z2")
		g.f("VPSRLD $2, Z6, Z3")
		for n := range 4 {
			low := 4 + n%2
			if n >= 2 {
				g.f("VPSRLD $4, Z%d, Z%d", low, low)
			}
			g.f("VPANDD Z9, Z%d, Z%d", n, n)
			g.f("VPTERNLOGD $0xf8, Z10, Z%d, Z%d", low, n) // or what is in both
			g.f("VPSUBB Z11, Z%d, Z%d", n, n)
		}
		g.keepScales()
	})
	g.halfScales()
	g.f("VPBROADCASTD %d(AX), Z26", tabMiddle3)
	g.f("VPBROADCASTD %d(AX), Z14", tabFour)
	g.f("LEAQ -2(CX), R8")
	g.f("VPBROADCASTD R8, Z13")
	g.stepFour(32)
	g.bytePairs(g.joined, g.timesHalf)
}

// unpackQ2K is of Q2_K: 16 bytes with four bits of a scale and of a minimum for
// each half of a step, 32 bytes with the codes of four steps, and of the other
// four, and the f16 factors of scales and of minima.
func unpackQ2K(g *asm) {
	g.first(func() {
		g.dwords(0)
		g.keepScales()
		g.gather(80, 8)
		g.f("VPSLLD $16, Z8, Z9")
		g.keepFactor(9, 0)
		g.keepFactor(8, 320)
	})
	g.ofStep()
	g.f("VPBROADCASTD %d(AX), Z31", tabLow)
	g.f("VPSRLVD Z10, Z8, Z8")
	scales, minima := [2][2]int{{16, 17}, {18, 15}}, [2][2]int{{19, 14}, {25, 24}}
	for half := range 2 {
		for n, to := range [][2]int{scales[half], minima[half]} {
			g.f("VPANDD Z31, Z8, Z9")
			g.f("VCVTDQ2PS Z9, Z9")
			g.f("VMULPS %d(R10), Z9, Z9", jobScales+320*n)
			g.f("VPERMPS Z9, Z25, Z%d", to[0])
			g.f("VPERMPS Z9, Z24, Z%d", to[1])
			if half == 0 || n == 0 {
				g.f("VPSRLD $4, Z8, Z8")
			}
		}
	}
	g.f("VPBROADCASTD %d(AX), Z26", tabFloat)
	g.stepFour(16)
	g.bytePairs(func(z int, _ string) { g.shifted(z) }, func(f, scale, _, dst, half int) {
		side := scale - scales[0][0]
		g.lessMinimum(f, scales[half][side], minima[half][side], dst, half)
	})
}

// unpackIQ4XS is of IQ4_XS: an f16 factor, two high bits of a scale for each
// step, four bytes with the low four, less 32, then 16 bytes of codes a step,
// as IQ4_NL has them.
func unpackIQ4XS(g *asm) {
	g.first(func() {
		g.gather(0, 8)
		g.gather(4, 9)
		g.f("VMOVDQU64 Z8, %d(R10)", jobScales+64)
		g.f("VMOVDQU64 Z9, %d(R10)", jobScales+128)
		g.f("VPSLLD $16, Z8, Z8")
		g.keepFactor(8, 0)
	})
	g.twice()
	g.f("LEAQ 12(CX)(CX*1), R8")
	g.f("VPBROADCASTD R8, Z12")
	g.f("MOVQ CX, R8")
	g.f("SHLQ $2, R8")
	g.f("VPBROADCASTD R8, Z13")
	g.f("VPBROADCASTD %d(AX), Z9", tabHigh)
	g.f("VPBROADCASTD %d(AX), Z10", tabNibble)
	g.f("VPBROADCASTD %d(AX), Z11", tabHalf6)
	g.f("VMOVDQU64 %d(R10), Z8", jobScales+64)
	g.f("VPSRLVD Z12, Z8, Z8")
	g.f("VPANDD Z9, Z8, Z8")
	g.f("VMOVDQU64 %d(R10), Z12", jobScales+128)
	g.f("VPSRLVD Z13, Z12, Z12")
	g.f("VPTERNLOGD $0xf8, Z10, Z12, Z8") // or what is in both
	g.f("VPSUBB Z11, Z8, Z8")
	g.f("VPSLLD $24, Z8, Z8")
	g.signedScale(8, 16, 17)
	g.f("SHLQ $4, CX")
	g.f("ADDQ CX, SI")
	g.levels(8, 0)
}

// keepFactor keeps the f16 that are the high halves of Z(z), so many bytes into
// the job's scales.
func (g *asm) keepFactor(z, at int) {
	g.f("VPSRLD $16, Z%d, Z%d", z, z)
	g.f("VPMOVDW Z%d, Y%d", z, z)
	g.f("VCVTPH2PS Y%d, Z%d", z, z)
	g.f("VMOVUPS Z%d, %d(R10)", z, jobScales+at)
}

// keepScales keeps the bytes in Z0 to Z3, two for each step.
func (g *asm) keepScales() {
	for q := range 4 {
		g.f("VMOVDQU64 Z%d, %d(R10)", q, jobScales+64+64*q)
	}
}

// ofStep leaves the dwords that have both bytes of the step in Z8, in Z10 how
// far to the left they are, and the two permutations in Z25 and Z24.
func (g *asm) ofStep() {
	g.twice()
	g.f("MOVQ CX, R8")
	g.f("SHRQ $1, R8")
	g.f("SHLQ $6, R8")
	g.f("VMOVDQU64 %d(R10)(R8*1), Z8", jobScales+64)
	g.f("MOVQ CX, R8")
	g.f("ANDQ $1, R8")
	g.f("SHLQ $4, R8")
	g.f("VPBROADCASTD R8, Z10")
}

// halfScales leaves the scales of the first half of the step in Z16 and Z17, of
// rows 0 to 7 and 8 to 15, each twice, and those of the second in Z18 and Z15.
func (g *asm) halfScales() {
	g.ofStep()
	g.f("VPSRLVD Z10, Z8, Z8")
	g.f("VPSLLD $16, Z8, Z9")
	g.f("VPSLLD $24, Z8, Z8")
	g.signedScale(8, 16, 17)
	g.signedScale(9, 18, 15)
}

// signedScale leaves the bytes at the top of Z(z), times the factors, in Z(lo)
// and Z(hi).
func (g *asm) signedScale(z, lo, hi int) {
	g.f("VPSRAD $24, Z%d, Z%d", z, z)
	g.f("VCVTDQ2PS Z%d, Z%d", z, z)
	g.f("VMULPS %d(R10), Z%d, Z%d", jobScales, z, z)
	g.f("VPERMPS Z%d, Z25, Z%d", z, lo)
	g.f("VPERMPS Z%d, Z24, Z%d", z, hi)
}

// timesHalf is a value of bytePairs: the scale of its half times what the code
// is beyond Z26.
func (g *asm) timesHalf(f, scale, other, dst, half int) {
	if half == 1 {
		scale = other
	}
	g.times(f, scale, other, dst)
}

// stepFour leaves in BX where the 32 bytes of this step and its three neighbours
// lie, in Z12 how far its codes are to be shifted, and in Z31 their two bits.
func (g *asm) stepFour(offset int) {
	g.f("VPBROADCASTD %d(AX), Z31", tabThree)
	g.f("MOVQ CX, R8")
	g.f("ANDQ $3, R8")
	g.f("SHLQ $1, R8")
	g.f("VPBROADCASTD R8, Z12")
	g.f("SHRQ $2, CX")
	g.f("SHLQ $5, CX")
	g.f("LEAQ %d(SI)(CX*1), BX", offset)
}

// first does what the first step of a block does for all.
func (g *asm) first(do func()) {
	known := g.fresh("known")
	g.f("TESTQ CX, CX")
	g.f("JNZ %s", known)
	do()
	g.label(known)
}

// fileScalesK keeps the factors of scales and of minima of 16 rows, and leaves
// the 12 bytes of both in Z1 to Z3.
func (g *asm) fileScalesK() {
	g.dwords(0)
	g.f("VPSLLD $16, Z0, Z4")
	g.keepFactor(4, 0)
	g.keepFactor(0, 64)
}

// scalesK leaves the scales of the step in Z16 and Z17 and its minima in Z18
// and Z15, of rows 0 to 7 and 8 to 15, each twice. load is fileScalesK, or does
// the same with panels.
func (g *asm) scalesK(load func()) {
	g.first(func() {
		load()
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
	g.twice()
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

// shifted leaves the codes, those bits that Z31 has, Z12 to the left, of
// register z.
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
