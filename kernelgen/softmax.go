package main

import "strings"

// genSoftmaxBF16 writes rows of scores as unnormalised probabilities in bf16:
// dst = e^(scale*(x - max)), and the sum of each row, which the caller divides
// by at the end. Scores that nobody may see are -Inf. n is a multiple of 32, of
// the last of which last count; the others become 0. The exponentials are as
// good as bf16 needs.
func genSoftmaxBF16(g *asm, consts *constants) {
	k := &outKernel{vkernel: &vkernel{asm: g, isa: avx512, consts: consts}}
	g.text("softmaxBF16", "softmaxBF16(dst *uint16, src *float32, ldd, lds, n, rows, last int, scale float32, sums *float32)", 16, 72)
	g.ftz()
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ldd+16(FP), R8") // bytes
	g.f("MOVQ lds+24(FP), R9") // bytes
	g.f("MOVQ n+32(FP), R10")
	g.f("MOVQ rows+40(FP), R11")
	g.f("MOVQ last+48(FP), CX")
	g.f("MOVL $-1, AX")
	g.f("BZHIL CX, AX, AX")
	g.f("KMOVW AX, K1")
	g.f("SHRL $16, AX")
	g.f("KMOVW AX, K2")
	g.f("SUBQ $32, R10") // the last 32 are apart
	g.f("VBROADCASTSS scale+56(FP), Z0")
	g.f("VMULPS %s, Z0, Z0", k.c(log2e)) // powers of two from here on
	for _, c := range exp2Poly {
		g.f("VMOVUPS %s, Z%d", k.c(c), k.hold(c))
	}
	g.f("MOVQ sums+64(FP), R12")
	high, most, whole := g.fresh("high"), g.fresh("most"), g.fresh("whole")
	row, exps, rest, done := g.fresh("row"), g.fresh("exps"), g.fresh("rest"), g.fresh("done")
	near, less := g.fresh("near"), g.fresh("less")

	// The largest of all rows first: exponentials need not wait for them.
	g.f("MOVQ SI, R13")
	g.label(high)
	g.f("MOVQ R13, BX")
	g.f("MOVQ R10, CX")
	k.op("VMOVUPS", k.consts.bits(0xff7fffff), 1) // lowest finite: a row of -Inf gives zeros
	k.op("VMOVAPS", 1, 2)
	g.f("TESTQ CX, CX")
	g.f("JZ %s", whole)
	g.label(most)
	g.f("VMAXPS (BX), Z1, Z1")
	g.f("VMAXPS 64(BX), Z2, Z2")
	g.f("ADDQ $128, BX")
	g.f("SUBQ $32, CX")
	g.f("JNZ %s", most)
	g.label(whole)
	g.f("VMAXPS (BX), Z1, K1, Z1")
	g.f("VMAXPS 64(BX), Z2, K2, Z2")
	g.f("VMAXPS Z2, Z1, Z1")
	k.fold("VMAXPS", 1, 2)
	g.f("VMOVSS X1, (R12)")
	g.f("ADDQ $4, R12")
	g.f("ADDQ R9, R13")
	g.f("DECQ R11")
	g.f("JNZ %s", high)
	g.f("MOVQ rows+40(FP), R11")
	g.f("MOVQ sums+64(FP), R12")

	g.label(row)
	g.f("VBROADCASTSS (R12), Z1")
	g.f("VMULPS Z0, Z1, Z4") // scale * max
	// Where that is so large that rounding it is off by whole powers, the largest
	// is taken off the scores before they are scaled; src is scratch.
	g.f("VMOVD X4, AX")
	g.f("ANDL $0x7fffffff, AX")
	g.f("CMPL AX, $0x4b000000") // 2^23
	g.f("JLT %s", near)
	g.f("MOVQ SI, BX")
	g.f("LEAQ 32(R10), CX")
	g.label(less)
	g.f("VMOVUPS (BX), Z5")
	g.f("VSUBPS Z1, Z5, Z5")
	g.f("VMOVUPS Z5, (BX)")
	g.f("ADDQ $64, BX")
	g.f("SUBQ $16, CX")
	g.f("JNZ %s", less)
	g.zero(avx512, 4)
	g.label(near)
	g.f("VMOVAPS Z4, Z1")

	g.zero(avx512, 2)
	g.zero(avx512, 3)
	g.f("MOVQ SI, BX")
	g.f("MOVQ DI, DX")
	g.f("MOVQ R10, CX")
	// u vectors at a time, interleaved: one exponential is a long chain.
	round := func(u int, masked bool) {
		slots := make([][]string, u)
		for o := range u {
			v := &outKernel{&vkernel{asm: &asm{}, isa: avx512, consts: consts}, k.held}
			x, e := 4+3*o, 5+3*o
			if masked {
				v.f("VMOVUPS.Z %d(BX), K%d, Z%d", 64*o, 1+o, x)
			} else {
				v.f("VMOVUPS %d(BX), Z%d", 64*o, x)
			}
			v.f("VFMSUB213PS Z1, Z0, Z%d", x)
			v.exp2(x, x+2, e)
			if masked {
				v.f("VMOVUPS.Z Z%d, K%d, Z%d", e, 1+o, e)
			}
			v.f("VADDPS Z%d, Z%d, Z%d", e, 2+o%2, 2+o%2)
			slots[o] = strings.SplitAfter(strings.TrimSuffix(v.String(), "\n"), "\n")
		}
		for n := range slots[0] {
			for _, lines := range slots {
				g.raw(strings.TrimSuffix(lines[n], "\n") + "\n")
			}
		}
		for o := 0; o < u; o += 2 {
			lo, hi := byte(5+3*o), byte(8+3*o)
			g.cvtne2(lo, hi, lo)
			g.f("VMOVDQU64 Z%d, %d(DX)", lo, 32*o)
		}
		g.f("ADDQ $%d, BX", 64*u)
		g.f("ADDQ $%d, DX", 32*u)
	}
	g.label(exps)
	g.f("CMPQ CX, $64")
	g.f("JLT %s", rest)
	round(4, false)
	g.f("SUBQ $64, CX")
	g.f("JMP %s", exps)
	g.label(rest)
	g.f("TESTQ CX, CX")
	g.f("JZ %s", done)
	round(2, false)
	g.label(done)
	round(2, true)
	g.f("VADDPS Z3, Z2, Z2")
	k.fold("VADDPS", 2, 3)
	g.f("VMOVSS X2, (R12)")
	g.f("ADDQ $4, R12")
	g.f("ADDQ R8, DI")
	g.f("ADDQ R9, SI")
	g.f("DECQ R11")
	g.f("JNZ %s", row)
	g.ret()
}

// genRoundRows writes rows of f32 as bf16, steps x 32 values a row: rows 64
// bytes apart, steps ldd.
func genRoundRows(g *asm) {
	g.text("roundRowsBF16", "roundRowsBF16(dst *uint16, src *float32, ldd, lds, steps, rows int)", 0, 48)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ldd+16(FP), R8") // bytes
	g.f("MOVQ lds+24(FP), R9") // bytes
	g.f("MOVQ rows+40(FP), R11")
	row, loop := g.fresh("row"), g.fresh("loop")
	g.label(row)
	g.f("MOVQ steps+32(FP), CX")
	g.f("MOVQ SI, BX")
	g.f("MOVQ DI, DX")
	g.label(loop)
	g.f("VMOVUPS (BX), Z1")
	g.f("VMOVUPS 64(BX), Z2")
	g.cvtne2(1, 2, 0)
	g.f("VMOVDQU64 Z0, (DX)")
	g.f("ADDQ $128, BX")
	g.f("ADDQ R8, DX")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("ADDQ $64, DI")
	g.f("ADDQ R9, SI")
	g.f("DECQ R11")
	g.f("JNZ %s", row)
	g.f("VZEROUPPER")
	g.f("RET")
}

// genDivideRows writes dst = src / sum for rows of n values, a multiple of 16,
// or of 32 where they are rounded; a sum of 0 gives zeros.
func genDivideRows(g *asm, consts *constants, rounded bool) {
	name, dst := "divideRows", "dst, src *float32"
	if rounded {
		name, dst = "divideRowsBF16", "dst *uint16, src *float32"
	}
	step, size := "", 56
	if rounded {
		step, size = ", step int", 64
	}
	g.text(name, name+"("+dst+", ldd, lds, n, rows int, sums *float32"+step+")", 0, size)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ldd+16(FP), R8") // bytes
	g.f("MOVQ lds+24(FP), R9") // bytes
	g.f("MOVQ n+32(FP), R10")
	g.f("SHLQ $2, R10") // bytes
	g.f("MOVQ rows+40(FP), R11")
	g.f("MOVQ sums+48(FP), R12")
	if rounded {
		g.f("MOVQ step+56(FP), R13") // bytes from 32 values to the next
	}
	g.zero(avx512, 2)
	row, loop := g.fresh("row"), g.fresh("loop")
	g.label(row)
	g.f("VBROADCASTSS (R12), Z1")
	g.f("VCMPPS $4, Z2, Z1, K1")
	g.f("VMOVUPS %s, Z0", consts.bits(0x3f800000))
	g.f("VDIVPS.Z Z1, Z0, K1, Z1")
	g.f("XORQ CX, CX")
	if rounded {
		g.f("MOVQ DI, BX")
	}
	g.label(loop)
	g.f("VMULPS (SI)(CX*1), Z1, Z3")
	if rounded {
		g.f("VMULPS 64(SI)(CX*1), Z1, Z4")
		g.cvtne2(3, 4, 3)
		g.f("VMOVDQU64 Z3, (BX)")
		g.f("ADDQ R13, BX")
		g.f("ADDQ $64, CX")
	} else {
		g.f("VMOVUPS Z3, (DI)(CX*1)")
	}
	g.f("ADDQ $64, CX")
	g.f("CMPQ CX, R10")
	g.f("JLT %s", loop)
	g.f("ADDQ $4, R12")
	g.f("ADDQ R8, DI")
	g.f("ADDQ R9, SI")
	g.f("DECQ R11")
	g.f("JNZ %s", row)
	g.f("VZEROUPPER")
	g.f("RET")
}
