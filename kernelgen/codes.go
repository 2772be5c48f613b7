package main

import "fmt"

// genCodes writes the products of up to 8 activation rows with weights that
// are codes of at most 8 bits with a scale per 32, by the dot products of bytes.
// 16 weight rows are multiplied at a time, 32 values of each: dwords of their
// codes are transposed, so that a lane is a weight row, and meet dwords of the
// activations, which are integers of 16 bits with a scale per 32, as two bytes.
// Scales and minima are brought in afterwards, on one register a row:
//
//	sum += scale * x's scale * (256 * upper bytes + lower bytes) + minimum * sum of x
//
// One call makes groups of 16 weight rows:
//
//	name(t *codeArgs)
func genCodes(g *asm) {
	for _, s := range codeStorages {
		for _, rows := range codeRows {
			g.codes(s, rows)
		}
	}
	g.packCodes("packCodes", false)
	g.packCodes("packCodes16", true)
}

// codeRows are the numbers of rows that have kernels.
var codeRows = []int{1, 2, 3, 4, 6, 8}

// Offsets in codeArgs.
const (
	codeW        = 0
	codeRowBytes = 8
	codeX        = 16
	codeSteps    = 24
	codeY        = 32
	codeStrideY  = 40
	codeCount    = 48
	codeBias     = 56
	codeNextBias = 64
	codeGroups   = 72
	codeTables   = 80
	codeBehind   = 88
)

// Offsets in codeTables.
const (
	tabOffsets = 0   // of the weight rows, 16 dwords
	tabSplit   = 64  // even words, then odd ones
	tabBits    = 128 // of a code, or the one that is turned, in each byte
	tabExcess  = 192 // what the codes are too large by, as f32, less than nothing
	tabOnes    = 196 // two words of 1
	codeSix    = 200 // the lowest 6 bits of each byte
	codeHigh   = 204 // bits 4 and 5 of each byte
	codeByte   = 208 // the lowest byte
	codeSign   = 212 // the sign
	tabScales  = 216 // room for what scales become: with AVX2 from here, for several panels from the next multiple of 64
)

// codeAhead is how far beyond the next group L2 is filled. Half and twice of it
// do as well; without it one row of Q4_1 takes 1.3 times as long.
const codeAhead = 16 << 10

// codeStorage is a block format: 32 values in so many bytes.
type codeStorage struct {
	name    string
	bytes   int
	minimum bool // behind the scale
	wide    bool // codes of 8 bits, signed
}

var codeStorages = []codeStorage{
	{"Q4_1", 20, true, false},
	{"Q4_0", 18, false, false},
	{"Q8_0", 34, false, true},
}

// codes writes the kernel for so many rows, whose sums are in Z16 and up.
//
// Registers: SI is the first of 16 weight rows, DX their distance, R9 three
// times it; AX the activations; R12 counts steps, R11 groups; R10 is y, R13 what
// to prefetch, R14 the bias, R15 the tables.
func (g *asm) codes(s codeStorage, rows int) {
	g.codeHead(fmt.Sprintf("codes%sx%d", s.name, rows))
	g.f("MOVQ %d(R8), DX", codeRowBytes)
	g.f("LEAQ (DX)(DX*2), R9")
	g.f("MOVQ DX, R13")
	g.f("SHLQ $4, R13")
	g.f("ADDQ SI, R13") // the next group
	g.f("VMOVDQU64 %d(R15), Z31", tabOffsets)
	g.f("VMOVDQU64 %d(R15), Z30", tabSplit)
	g.codeGroups(rows, func() {
		g.codeStep(s)
		g.allDots(rows)
	}, func() {
		// Back to the first row, then on to the next group.
		g.f("MOVQ %d(R8), BX", codeSteps)
		g.f("IMULQ $%d, BX", s.bytes)
		g.f("SUBQ BX, SI")
		g.f("MOVQ DX, BX")
		g.f("SHLQ $4, BX")
		g.f("ADDQ BX, SI")
	})
	g.ret()
}

// codeHead begins a kernel and loads what all have.
func (g *asm) codeHead(name string) {
	g.text(name, name+"(t *codeArgs)", 32, 8)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ %d(R8), SI", codeW)
	g.f("MOVQ %d(R8), R10", codeY)
	g.f("MOVQ %d(R8), R11", codeGroups)
	g.f("MOVQ %d(R8), R14", codeBias)
	g.f("MOVQ %d(R8), R15", codeTables)
	g.f("VMOVDQU64 %d(R15), Z29", tabBits)
	g.f("VBROADCASTSS %d(R15), Z28", tabExcess)
}

// codeGroups makes groups of 16 weight rows: step adds the products of the
// columns that are counted as one, end moves SI to the next group.
func (g *asm) codeGroups(rows int, step, end func()) {
	group, loop, done := g.fresh("group"), g.fresh("loop"), g.fresh("done")
	g.label(group)
	for m := range rows {
		g.f("VMOVUPS (R14), Z%d", 16+m)
	}
	g.f("MOVQ %d(R8), AX", codeX)
	g.f("MOVQ %d(R8), R12", codeSteps)
	g.label(loop)
	step()
	g.f("DECQ R12")
	g.f("JNZ %s", loop)
	end()
	g.f("MOVQ %d(R8), R12", codeStrideY)
	g.f("MOVQ %d(R8), AX", codeCount)
	g.f("MOVQ R10, BX")
	for m := range rows {
		g.f("VMOVUPS Z%d, (BX)", 16+m)
		if m == rows-1 {
			break
		}
		g.f("DECQ AX")
		g.f("JZ %s", done)
		g.f("ADDQ R12, BX")
	}
	g.label(done)
	g.f("ADDQ $64, R10")
	g.f("ADDQ %d(R8), R14", codeNextBias)
	g.f("DECQ R11")
	g.f("JNZ %s", group)
}

// allDots adds the products of 32 columns to the sums of all rows.
func (g *asm) allDots(rows int) {
	g.someDots(rows, 0, 8, 0)
	g.f("ADDQ $%d, AX", 64*rows+64)
}

// someDots adds the products with quads [q0,q1) to the sums of all rows. The sums
// of x over their columns are sum bytes behind those of 32 columns.
func (g *asm) someDots(rows, q0, q1, sum int) {
	for m := 0; m < rows; m += 4 {
		g.codeDots(rows, m, min(rows, m+4), q0, q1, sum)
	}
}

// codeStep leaves the codes of 32 columns in Z0 to Z7, four of each row in a
// register, the scales of the rows in Z25, and what the sums of x are multiplied
// with in Z24.
func (g *asm) codeStep(s codeStorage) {
	g.f("KXNORW K1, K1, K1")
	g.f("VPGATHERDD (SI)(Z31*1), K1, Z24")
	if s.minimum {
		g.f("VPERMW Z24, Z30, Z24")
		g.f("VCVTPH2PS Y24, Z25")
		g.f("VEXTRACTI64X4 $1, Z24, Y24")
		g.f("VCVTPH2PS Y24, Z24")
	} else {
		g.f("VPMOVDW Z24, Y24")
		g.f("VCVTPH2PS Y24, Z25")
		g.f("VMULPS Z28, Z25, Z24")
	}
	if s.wide {
		g.dwords(2 + 16)
		for q := range 4 {
			g.f("VPXORD Z29, Z%d, Z%d", q, 4+q)
		}
		g.dwords(2)
		for q := range 4 {
			g.f("VPXORD Z29, Z%d, Z%d", q, q)
		}
	} else {
		offset := 2
		if s.minimum {
			offset = 4
		}
		g.dwords(offset)
		for q := range 4 {
			g.f("VPSRLD $4, Z%d, Z%d", q, 4+q)
			g.f("VPANDD Z29, Z%d, Z%d", q, q)
			g.f("VPANDD Z29, Z%d, Z%d", 4+q, 4+q)
		}
	}
	// As much of the next group, which lies behind this one, is asked for, and
	// of what lies further on: memory takes longer than a group.
	for line := 0; line < 16*s.bytes; line += 64 {
		g.f("PREFETCHT1 %d(R13)", line+codeAhead)
		g.f("PREFETCHT0 %d(R13)", line)
	}
	g.f("ADDQ $%d, R13", 16*s.bytes)
	g.f("ADDQ $%d, SI", s.bytes)
}

// codeDots is someDots for rows [m0,m1).
func (g *asm) codeDots(rows, m0, m1, q0, q1, sum int) {
	reg := func(m, upper int) int { return 8 + 2*(m-m0) + upper }
	for m := m0; m < m1; m++ {
		g.zero(avx512, reg(m, 0))
		g.zero(avx512, reg(m, 1))
	}
	for q := q0; q < q1; q++ {
		for m := m0; m < m1; m++ {
			for upper := range 2 {
				g.f("VPDPBUSD.BCST %d(AX), Z%d, Z%d", 64*m+32*upper+4*q, q, reg(m, upper))
			}
		}
	}
	for m := m0; m < m1; m++ {
		g.codeSum(reg(m, 0), reg(m, 1), 64*rows+4*m, 64*rows+32+sum+4*m, 16+m)
	}
}

// codeSum adds the products with lower and upper bytes, in lo and hi, to sums. The
// scale of x and its sum are at these offsets.
func (g *asm) codeSum(lo, hi, scale, sum, to int) {
	g.f("VPSLLD $8, Z%d, Z%d", hi, hi)
	g.f("VPADDD Z%d, Z%d, Z%d", lo, hi, hi)
	g.f("VCVTDQ2PS Z%d, Z%d", hi, hi)
	g.f("VMULPS.BCST %d(AX), Z%d, Z%d", scale, hi, hi)
	g.f("VFMADD231PS.BCST %d(AX), Z24, Z%d", sum, to)
	g.f("VFMADD231PS Z25, Z%d, Z%d", hi, to)
}

// packCodes makes integers of steps x 32 values: their lower bytes, then their
// upper ones, both in an order by 16, at dst, the scale at sums and the sum of what they stand for 32
// bytes on; the next step is stride bytes on. What is no number, or infinite,
// makes its scale so. With sums by 16, those of the second 16 values are 32 bytes
// behind those of the first.
func (g *asm) packCodes(name string, by16 bool) {
	g.text(name, name+"(dst, sums *byte, x *float32, stride, steps int, constants *[5]float32, order *codeOrder)", 48, 56)
	g.ftz()
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ sums+8(FP), R8")
	g.f("MOVQ x+16(FP), SI")
	g.f("MOVQ stride+24(FP), DX")
	g.f("MOVQ steps+32(FP), CX")
	g.f("MOVQ constants+40(FP), AX")
	g.f("VPBROADCASTD (AX), Z31")  // all bits but the sign
	g.f("VBROADCASTSS 4(AX), X30") // the largest integer
	g.f("VBROADCASTSS 8(AX), X29") // its inverse
	g.f("VPBROADCASTD 12(AX), Z28")
	g.f("MOVQ order+48(FP), AX")
	g.f("VMOVDQU32 (AX), Z27")
	loop, end := g.fresh("loop"), g.fresh("end")
	g.packFour(by16, loop)
	g.f("TESTQ CX, CX")
	g.f("JZ %s", end)
	g.label(loop)
	g.f("VMOVUPS (SI), Z0")
	g.f("VMOVUPS 64(SI), Z1")
	g.f("VPANDD Z31, Z0, Z2")
	g.f("VPANDD Z31, Z1, Z3")
	g.f("VPMAXUD Z3, Z2, Z2")
	reduce := func(op string, z int) {
		g.f("VEXTRACTI64X4 $1, Z%d, Y3", z)
		g.f("%s Y3, Y%d, Y%d", op, z, z)
		g.f("VEXTRACTI128 $1, Y%d, X3", z)
		g.f("%s X3, X%d, X%d", op, z, z)
		g.f("VPSHUFD $0x4e, X%d, X3", z)
		g.f("%s X3, X%d, X%d", op, z, z)
		g.f("VPSHUFD $0xb1, X%d, X3", z)
		g.f("%s X3, X%d, X%d", op, z, z)
	}
	reduce("VPMAXUD", 2)
	g.f("VMULSS X29, X2, X4") // the scale
	g.f("VDIVSS X2, X30, X2")
	g.f("VBROADCASTSS X2, Z2")
	for z := range 2 {
		g.f("VMULPS Z2, Z%d, Z%d", z, z)
		g.f("VCVTPS2DQ Z%d, Z%d", z, z)
		g.f("VPERMD Z%d, Z27, Z%d", z, z)
		g.f("VPMOVDB Z%d, %d(DI)", z, 16*z)
	}
	if by16 {
		g.f("VMOVDQU32 Z0, Z2")
		g.f("VMOVDQU32 Z1, Z5")
	} else {
		g.f("VPADDD Z0, Z1, Z2")
	}
	for z := range 2 {
		g.f("VPADDD Z28, Z%d, Z%d", z, z)
		g.f("VPSRAD $8, Z%d, Z%d", z, z)
		g.f("VPMOVDB Z%d, %d(DI)", z, 32+16*z)
	}
	g.f("VMOVSS X4, (R8)")
	for i, z := range []int{2, 5}[:1+map[bool]int{true: 1}[by16]] {
		reduce("VPADDD", z)
		g.f("VCVTDQ2PS X%d, X%d", z, z)
		g.f("VMULSS X4, X%d, X%d", z, z)
		g.f("VMOVSS X%d, %d(R8)", z, 32+32*i)
	}
	g.f("ADDQ $128, SI")
	g.f("ADDQ DX, DI")
	g.f("ADDQ DX, R8")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.label(end)
	g.ret()
}

// packFour is packCodes for four steps at a time while there are so many, then it goes on
// at less. One step alone takes twice as long: shuffles, of which the processor makes one
// per cycle, fold each step's maximum and sum, and narrow each byte.
func (g *asm) packFour(by16 bool, less string) {
	const first, bytes, turn, low, round = 14, 26, 25, 23, 24
	g.f("CMPQ CX, $4")
	g.f("JLT %s", less)
	g.f("VPMOVDB Z27, X%d", bytes) // the order of 16 bytes
	g.f("VSHUFI32X4 $0, Z%d, Z%d, Z%d", bytes, bytes, bytes)
	g.f("MOVQ $0x0d0905010c080400, AX")
	g.f("VMOVQ AX, X%d", turn)
	g.f("MOVQ $0x0f0b07030e0a0602, AX")
	g.f("VPINSRQ $1, AX, X%d, X%d", turn, turn)
	g.f("VPMOVZXBD X%d, Z%d", turn, turn)
	g.f("VPTERNLOGD $0xff, Z%d, Z%d, Z%d", low, low, low)
	g.f("VPSRLW $8, Z%d, Z%d", low, low)
	g.f("VPBROADCASTW X28, Z%d", round)
	// Z8 to Z11, and X8 in the end, are what is folded.
	fold := func(op string, of [4]int) {
		for i := 0; i < 4; i += 2 {
			g.f("VPUNPCKLDQ Z%d, Z%d, Z12", of[i+1], of[i])
			g.f("VPUNPCKHDQ Z%d, Z%d, Z13", of[i+1], of[i])
			g.f("%s Z13, Z12, Z%d", op, 8+i)
		}
		g.f("VPUNPCKLQDQ Z10, Z8, Z12")
		g.f("VPUNPCKHQDQ Z10, Z8, Z13")
		g.f("%s Z13, Z12, Z8", op)
		g.f("VEXTRACTI64X4 $1, Z8, Y12")
		g.f("%s Y12, Y8, Y8", op)
		g.f("VEXTRACTI128 $1, Y8, X12")
		g.f("%s X12, X8, X8", op)
	}
	steps := []string{"", "(DX*1)", "(DX*2)", "(R9*1)"}
	scatter := func(at int) { // X8
		g.f("VMOVUPS X8, four-48(SP)")
		for b, step := range steps {
			g.f("MOVL four-%d(SP), AX", 48-4*b)
			g.f("MOVL AX, %d(R8)%s", at, step)
		}
	}
	loop := g.fresh("four")
	g.f("LEAQ (DX)(DX*2), R9")
	g.label(loop)
	for z := range 8 {
		g.f("VMOVUPS %d(SI), Z%d", 64*z, z)
	}
	for b := range 4 {
		g.f("VPANDD Z31, Z%d, Z%d", 2*b, 8+b)
		g.f("VPANDD Z31, Z%d, Z12", 2*b+1)
		g.f("VPMAXUD Z12, Z%d, Z%d", 8+b, 8+b)
	}
	fold("VPMAXUD", [4]int{8, 9, 10, 11})
	g.f("VDIVPS X8, X30, X12")
	g.f("VMOVUPS X12, inverse-32(SP)")
	g.f("VMULPS X29, X8, X8") // the scales
	g.f("VMOVUPS X8, X%d", first)
	scatter(0)
	for z := range 8 {
		g.f("VMULPS.BCST inverse-%d(SP), Z%d, Z%d", 32-4*(z/2), z, z)
		g.f("VCVTPS2DQ Z%d, Z%d", z, z)
	}
	sums := [][4]int{{8, 9, 10, 11}}
	if by16 {
		sums = [][4]int{{0, 2, 4, 6}, {1, 3, 5, 7}}
	} else {
		for b := range 4 {
			g.f("VPADDD Z%d, Z%d, Z%d", 2*b, 2*b+1, 8+b)
		}
	}
	for i, of := range sums {
		fold("VPADDD", of)
		g.f("VCVTDQ2PS X8, X8")
		g.f("VMULPS X%d, X8, X8", first)
		scatter(32 + 32*i)
	}
	for b, step := range steps {
		g.f("VPACKSSDW Z%d, Z%d, Z8", 2*b+1, 2*b)
		g.f("VPANDD Z%d, Z8, Z9", low)
		g.f("VPADDW Z%d, Z8, Z8", round)
		g.f("VPSRLW $8, Z8, Z8")
		g.f("VPACKUSWB Z8, Z9, Z8")
		g.f("VPERMD Z8, Z%d, Z8", turn)
		g.f("VPSHUFB Z%d, Z8, Z8", bytes)
		g.f("VMOVDQU64 Z8, (DI)%s", step)
	}
	g.f("ADDQ $512, SI")
	g.f("LEAQ (DI)(DX*4), DI")
	g.f("LEAQ (R8)(DX*4), R8")
	g.f("SUBQ $4, CX")
	g.f("CMPQ CX, $4")
	g.f("JGE %s", loop)
}
