package main

import "fmt"

// Offsets in package int8's quantArgs.
const (
	quantCodes  = 0
	quantX      = 8
	quantScale  = 16
	quantAux    = 24
	quantLDA    = 32
	quantLDX    = 40
	quantLDS    = 48
	quantRows   = 56
	quantBlocks = 64
	quantTail   = 72
	quantMasks  = 80
	quantMin    = 96
)

// int8Quantizer writes a quantizer of rows of activations:
//
//	name(t *quantArgs)
//
// scale = max|x|/127, code = x·(127/max) to the nearest; aux is -128·sum of
// codes or, with a minimum, scale·sum of codes, and is left out where it is
// nil. A maximum below 2^-100 counts as zero, whose inverse would overflow.
// Maxima are taken of the bits, where a NaN is greatest and so reaches the
// scale.
//
// R8 args, R9 and R10 the row's codes and values, DI and SI where it stands in
// them, R11 and R12 scale and aux, BX blocks, CX rows, DX the distance of
// scales. Registers 4-6: the maxima, then scales and inverses; 14 the choice
// of aux, 15 the mask of signs.
type int8Quantizer struct {
	*vkernel
}

func genQuantize(g *asm, c *constants, i isa) {
	q := &int8Quantizer{&vkernel{asm: g, isa: i, consts: c}}
	name := "quantize" + i.name
	g.text(name, name+"(t *quantArgs)", 16, 8)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ %d(R8), R9", quantCodes)
	g.f("MOVQ %d(R8), R10", quantX)
	g.f("MOVQ %d(R8), R13", quantScale)
	g.f("MOVQ %d(R8), R14", quantAux)
	g.f("MOVQ %d(R8), DX", quantLDS)
	g.f("MOVQ %d(R8), CX", quantRows)
	g.f("VBROADCASTSS %d(R8), X14", quantMin)
	row, loop, tail, next := g.fresh("row"), g.fresh("block"), g.fresh("tail"), g.fresh("next")
	g.label(row)
	g.f("MOVQ R9, DI")
	g.f("MOVQ R10, SI")
	g.f("MOVQ R13, R11")
	g.f("MOVQ R14, R12")
	g.f("MOVQ %d(R8), BX", quantBlocks)
	g.f("TESTQ BX, BX")
	g.f("JZ %s", tail)
	g.label(loop)
	if i == avx512 {
		q.wide(false)
	} else {
		q.narrow()
	}
	g.f("DECQ BX")
	g.f("JNZ %s", loop)
	g.label(tail)
	if i == avx512 {
		g.f("CMPQ %d(R8), $0", quantTail)
		g.f("JEQ %s", next)
		q.wide(true)
	}
	g.label(next)
	g.f("ADDQ %d(R8), R9", quantLDA)
	g.f("ADDQ %d(R8), R10", quantLDX)
	g.f("ADDQ $4, R13")
	g.f("LEAQ 4(R14), AX")
	g.f("TESTQ R14, R14")
	g.f("CMOVQNE AX, R14")
	g.f("DECQ CX")
	g.f("JNZ %s", row)
	g.ret()
}

// invert makes scales (X6) and inverses (X7) of maxima (X0).
func (q *int8Quantizer) invert() {
	q.f("VMOVUPS %s, X4", q.consts.bits(0x42fe0000)) // 127
	q.f("VPCMPGTD %s, X0, X5", q.consts.bits(0x0d800000-1))
	q.f("VDIVPS X4, X0, X6")
	q.f("VDIVPS X0, X4, X7")
	q.f("VPAND X5, X6, X6")
	q.f("VPAND X5, X7, X7")
}

// sums makes aux (X8) of sums of codes (X8).
func (q *int8Quantizer) sums() {
	q.f("VCVTDQ2PS X8, X9")
	q.f("VMULPS X6, X9, X9")
	q.f("VPXOR X5, X5, X5")
	q.f("VPSUBD X8, X5, X8")
	q.f("VPSLLD $7, X8, X8")
	q.f("VBLENDVPS X14, X9, X8, X8")
}

// store writes lanes of a register to groups of the workspace.
func (q *int8Quantizer) store(x int, ptr string, groups int) {
	for n := range groups {
		q.f("VEXTRACTPS $%d, X%d, (%s)", n, x, ptr)
		q.f("ADDQ DX, %s", ptr)
	}
}

// fold reduces register v to one value in all lanes of its lower half.
func (q *int8Quantizer) fold(op string, v, tmp int) {
	q.f("VEXTRACTI128 $1, Y%d, X%d", v, tmp)
	q.f("%s X%d, X%d, X%d", op, tmp, v, v)
	for _, s := range []string{"$0x4e", "$0xb1"} {
		q.f("VPSHUFD %s, X%d, X%d", s, v, tmp)
		q.f("%s X%d, X%d, X%d", op, tmp, v, v)
	}
}

// fold4 reduces registers v to v+3 to one value each, in the lanes of X0.
func (q *int8Quantizer) fold4(op string, v int) {
	for p := range 2 {
		q.f("VPUNPCKLDQ Z%d, Z%d, Z%d", v+2*p+1, v+2*p, 4+p)
		q.f("VPUNPCKHDQ Z%d, Z%d, Z%d", v+2*p+1, v+2*p, 6+p)
		q.f("%s Z%d, Z%d, Z%d", op, 6+p, 4+p, 4+p)
	}
	q.f("VPUNPCKLQDQ Z5, Z4, Z6")
	q.f("VPUNPCKHQDQ Z5, Z4, Z7")
	q.f("%s Z7, Z6, Z0", op)
	q.f("VEXTRACTI64X4 $1, Z0, Y1")
	q.f("%s Y1, Y0, Y0", op)
	q.f("VEXTRACTI128 $1, Y0, X1")
	q.f("%s X1, X0, X0", op)
}

// wide quantizes four groups, or what a row has left.
func (q *int8Quantizer) wide(masked bool) {
	const x, acc, groups = 16, 24, 4
	q.f("VPBROADCASTD %s, Z15", q.consts.bits(0x7fffffff))
	for v := range 8 {
		if masked {
			q.f("KMOVW %d(R8), K1", quantMasks+2*v)
			q.f("VMOVUPS.Z %d(SI), K1, Z%d", 64*v, x+v)
		} else {
			q.f("VMOVUPS %d(SI), Z%d", 64*v, x+v)
		}
		q.f("VPANDD Z15, Z%d, Z%d", x+v, acc+v)
	}
	for v := range groups {
		q.f("VPMAXUD Z%d, Z%d, Z%d", acc+2*v+1, acc+2*v, acc+v)
	}
	q.fold4("VPMAXUD", acc)
	q.invert()
	q.store(6, "R11", groups)
	for n := range groups {
		if n > 0 {
			q.f("VPSHUFD $%#x, X7, X%d", n*0x55, 10)
			q.f("VBROADCASTSS X10, Z%d", acc+n)
		} else {
			q.f("VBROADCASTSS X7, Z%d", acc)
		}
	}
	for v := range 8 {
		q.f("VMULPS Z%d, Z%d, Z%d", acc+v/2, x+v, x+v)
		q.f("VCVTPS2DQ Z%d, Z%d", x+v, x+v)
	}
	// Lanes come out of the packs four dwords at a time.
	q.f("VMOVDQU64 int8Wide<>(SB), Z12")
	for h := range 2 {
		r := x + 4*h
		q.f("VPACKSSDW Z%d, Z%d, Z10", r+1, r)
		q.f("VPACKSSDW Z%d, Z%d, Z11", r+3, r+2)
		q.f("VPACKSSWB Z11, Z10, Z10")
		q.f("VPERMD Z10, Z12, Z10")
		q.f("VMOVDQU64 Z10, %d(DI)", 64*h)
	}
	skip := q.fresh("skip")
	q.f("TESTQ R12, R12")
	q.f("JZ %s", skip)
	for v := range groups {
		q.f("VPADDD Z%d, Z%d, Z%d", x+2*v+1, x+2*v, acc+v)
	}
	q.f("VMOVAPS X6, X13")
	q.fold4("VPADDD", acc)
	q.f("VMOVAPS X0, X8")
	q.f("VMOVAPS X13, X6")
	q.sums()
	q.store(8, "R12", groups)
	q.label(skip)
	q.f("ADDQ $%d, DI", groups*int8Group)
	q.f("ADDQ $%d, SI", 4*groups*int8Group)
}

// narrow quantizes one group in registers of 256 bits.
func (q *int8Quantizer) narrow() {
	q.f("VMOVUPS %s, Y15", q.consts.bits(0x7fffffff))
	for v := range 4 {
		if v < 2 {
			q.f("VPAND %d(SI), Y15, Y%d", v*32, v)
			continue
		}
		q.f("VPAND %d(SI), Y15, Y%d", v*32, 2+v%2)
		q.op("VPMAXUD", 2+v%2, v%2, v%2)
	}
	q.op("VPMAXUD", 1, 0, 0)
	q.fold("VPMAXUD", 0, 1)
	q.invert()
	q.store(6, "R11", 1)
	q.f("VBROADCASTSS X7, Y7")
	for v := range 4 {
		t := 10 + v
		q.f("VMULPS %d(SI), Y7, Y%d", v*32, t)
		q.op("VCVTPS2DQ", t, t)
		if v == 0 {
			q.f("VMOVDQA Y%d, Y8", t)
		} else {
			q.op("VPADDD", t, 8, 8)
		}
	}
	// Lanes come out of the packs in pairs.
	q.f("VPACKSSDW Y11, Y10, Y10")
	q.f("VPACKSSDW Y13, Y12, Y12")
	q.f("VPACKSSWB Y12, Y10, Y10")
	q.f("VMOVDQU int8Lanes<>(SB), Y11")
	q.f("VPERMD Y10, Y11, Y10")
	q.f("VMOVDQU Y10, 0(DI)")
	skip := q.fresh("skip")
	q.f("TESTQ R12, R12")
	q.f("JZ %s", skip)
	q.fold("VPADDD", 8, 9)
	q.sums()
	q.store(8, "R12", 1)
	q.label(skip)
	q.f("ADDQ $%d, DI", int8Group)
	q.f("ADDQ $%d, SI", 4*int8Group)
}

// genInt8Lanes writes the permutations that put packed bytes in order.
func genInt8Lanes(g *asm) {
	for _, t := range []struct {
		name  string
		lanes int
	}{{"int8Lanes", 2}, {"int8Wide", 4}} {
		g.raw("\n")
		for n := range 4 * t.lanes {
			g.raw(fmt.Sprintf("DATA %s<>+%d(SB)/4, $%d\n", t.name, 4*n, n%t.lanes*4+n/t.lanes))
		}
		g.raw(fmt.Sprintf("GLOBL %s<>(SB), RODATA|NOPTR, $%d\n", t.name, 16*t.lanes))
	}
}

// genUnpackQ4 makes whole bytes of the codes of a Q4 panel, for the tiles; the
// headers stay in place.
func genUnpackQ4(g *asm, c *constants) {
	g.text("unpackQ4AVX512", "unpackQ4AVX512(dst, src *byte, groups int)", 0, 24)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ groups+16(FP), CX")
	g.f("VMOVDQU64 %s, Z31", c.bits(0x0f0f0f0f))
	loop := g.fresh("loop")
	g.label(loop)
	for n := range 2 {
		g.f("VMOVDQU64 %d(SI), Z%d", 64*n, n)
		g.f("VMOVDQU64 Z%d, %d(DI)", n, 64*n)
	}
	for n := range 8 {
		g.f("VMOVDQU64 %d(SI), Z%d", 128+64*n, n)
		g.f("VPSRLW $4, Z%d, Z%d", n, 8+n)
		g.f("VPANDD Z31, Z%d, Z%d", n, n)
		g.f("VPANDD Z31, Z%d, Z%d", 8+n, 8+n)
		g.f("VMOVDQU64 Z%d, %d(DI)", n, 128+64*n)
		g.f("VMOVDQU64 Z%d, %d(DI)", 8+n, 128+512+64*n)
		g.f("PREFETCHT0 %d(SI)", 2048+64*n)
	}
	g.f("ADDQ $640, SI")
	g.f("ADDQ $1152, DI")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}
