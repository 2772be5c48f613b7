package main

import "math"

// headPoly is 2^f for f in [-1/2,1/2], good to 1e-7.
var headPoly = []float32{1.0000001192092896, 0.6931469440460205, 0.24022120237350464, 0.05550713092088699, 0.009675540961325169, 0.001327647129073739}

// headRound rounds to an integer when added, with the bias of an exponent in
// the low bits.
const headRound = expRound + 127

// genHead writes what attention in f32 does between its two products and after
// them, several rows a call.
func genHead(g *asm) {
	consts := &constants{}
	for _, i := range []isa{avx2, avx512} {
		k := &vkernel{asm: g, isa: i, consts: consts}
		k.softmaxStrips()
		k.copyPanel()
	}
	(&vkernel{asm: g, isa: avx2, consts: consts}).divideHead()
	consts.write(g)
}

// softmaxStrips writes strips of h rows of n scores, n apart and a multiple of
// two vectors, as the A operand of a product, [n/4][h][4]:
//
//	name(dst, src *float32, n, h, strips int, c, low float32, sums, tops *float32)
//
// dst = 2^(c·max(x - top, low)), with the largest score and the sum of dst of
// each row beside it. low is what c makes -127, where a power of two is 0.
//
// Registers: 0 c, 1 low, 2 top, 3 and 4 sums, 5 the rounder, 6 on the vectors;
// R8 is the distance of chunks of four.
func (k *vkernel) softmaxStrips() {
	name := "softmaxStrips" + k.name
	const c, low, top, sum, rounder, first = 0, 1, 2, 3, 5, 6
	k.text(name, name+"(dst, src *float32, n, h, strips int, c, low float32, sums, tops *float32)", 16, 64)
	k.ftz()
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ src+8(FP), SI")
	k.f("MOVQ n+16(FP), R9")
	k.f("MOVQ h+24(FP), R8")
	k.f("SHLQ $4, R8")
	k.f("LEAQ (R8)(R8*2), R14")
	k.f("MOVQ strips+32(FP), R11")
	k.f("VBROADCASTSS c+40(FP), %s", k.v(c))
	k.f("VBROADCASTSS low+44(FP), %s", k.v(low))
	k.f("MOVQ sums+48(FP), R12")
	k.f("MOVQ tops+56(FP), R13")
	k.op("VMOVUPS", k.c(headRound), rounder)
	strip, high, most, row, exps := k.fresh("strip"), k.fresh("high"), k.fresh("most"), k.fresh("row"), k.fresh("exps")
	k.label(strip)
	// The largest of all rows first: exponentials need not wait for them.
	k.f("MOVQ h+24(FP), R10")
	k.f("MOVQ SI, BX")
	k.label(high)
	k.f("MOVQ R9, CX")
	k.op("VMOVUPS", k.c(-math.MaxFloat32), top)
	k.op("VMOVAPS", top, sum)
	k.label(most)
	k.f("VMAXPS (BX), %s, %s", k.v(top), k.v(top))
	k.f("VMAXPS %d(BX), %s, %s", k.width(), k.v(sum), k.v(sum))
	k.f("ADDQ $%d, BX", 2*k.width())
	k.f("SUBQ $%d, CX", 2*k.lanes)
	k.f("JNZ %s", most)
	k.op("VMAXPS", sum, top, top)
	k.fold("VMAXPS", top, sum)
	k.f("VMOVSS X%d, (R13)", top)
	k.f("ADDQ $4, R13")
	k.f("DECQ R10")
	k.f("JNZ %s", high)
	k.f("MOVQ h+24(FP), R10")
	k.f("MOVQ R10, AX")
	k.f("SHLQ $2, AX")
	k.f("SUBQ AX, R13")
	k.label(row)
	k.f("VBROADCASTSS (R13), %s", k.v(top))
	k.zero(k.isa, sum)
	k.zero(k.isa, sum+1)
	k.f("MOVQ DI, DX")
	k.f("MOVQ R9, CX")
	k.label(exps)
	slot := func(o int) func() {
		return func() {
			x, m, f, p := first+4*o, first+4*o+1, first+4*o+2, first+4*o+3
			k.f("VMOVUPS %d(SI), %s", o*k.width(), k.v(x))
			k.op("VSUBPS", top, x, x)
			k.op("VMAXPS", x, low, x) // this order keeps NaN
			k.op("VMOVAPS", rounder, m)
			k.op("VFMADD231PS", c, x, m)
			k.op("VSUBPS", rounder, m, f)
			k.op("VFMSUB213PS", f, c, x) // what rounding left
			k.op("VMOVUPS", k.c(headPoly[len(headPoly)-1]), p)
			for n := len(headPoly) - 2; n >= 0; n-- {
				k.op("VFMADD213PS", k.c(headPoly[n]), x, p)
			}
			k.op("VPSLLD", "$23", m, m)
			k.op("VMULPS", m, p, p)
			k.op("VADDPS", p, sum+o, sum+o)
		}
	}
	k.weave(slot(0), slot(1))
	for o := range 2 {
		p := first + 4*o + 3
		at := []string{"(DX)", "(DX)(R8*1)", "(DX)(R8*2)", "(DX)(R14*1)"}
		k.f("VMOVUPS X%d, %s", p, at[o*k.lanes/4%4])
		for n := 1; n < k.lanes/4; n++ {
			if k.lanes == 8 {
				k.f("VEXTRACTF128 $%d, Y%d, %s", n, p, at[2*o+n])
			} else {
				k.f("VEXTRACTF32X4 $%d, Z%d, %s", n, p, at[n])
			}
		}
		if k.lanes == 16 || o == 1 {
			k.f("LEAQ (DX)(R8*4), DX")
		}
	}
	k.f("ADDQ $%d, SI", 2*k.width())
	k.f("SUBQ $%d, CX", 2*k.lanes)
	k.f("JNZ %s", exps)
	k.op("VADDPS", sum+1, sum, sum)
	k.fold("VADDPS", sum, sum+1)
	k.f("VMOVSS X%d, (R12)", sum)
	k.f("ADDQ $4, R12")
	k.f("ADDQ $4, R13")
	k.f("ADDQ $16, DI")
	k.f("DECQ R10")
	k.f("JNZ %s", row)
	k.f("SUBQ R8, DI") // back to the first row, and on to the next strip
	k.f("MOVQ R9, AX")
	k.f("SHRQ $2, AX")
	k.f("IMULQ R8, AX")
	k.f("ADDQ AX, DI")
	k.f("DECQ R11")
	k.f("JNZ %s", strip)
	k.ret()
}

// divideHead writes dst = src / sum for rows of n values, a multiple of 8; a sum
// of 0 gives zeros.
func (k *vkernel) divideHead() {
	k.text("divideHeadAVX2", "divideHeadAVX2(dst, src *float32, ldd, lds, n, rows int, sums *float32)", 0, 56)
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ src+8(FP), SI")
	k.f("MOVQ ldd+16(FP), R8")
	k.f("SHLQ $2, R8")
	k.f("MOVQ lds+24(FP), R9")
	k.f("SHLQ $2, R9")
	k.f("MOVQ n+32(FP), R10")
	k.f("SHLQ $2, R10")
	k.f("MOVQ rows+40(FP), R11")
	k.f("MOVQ sums+48(FP), R12")
	k.zero(k.isa, 2)
	row, loop := k.fresh("row"), k.fresh("loop")
	k.label(row)
	k.f("VBROADCASTSS (R12), Y1")
	k.op("VCMPPS", "$4", 2, 1, 3)
	k.op("VMOVUPS", k.c(1), 0)
	k.op("VDIVPS", 1, 0, 1)
	k.op("VANDPS", 3, 1, 1)
	k.f("XORQ CX, CX")
	k.label(loop)
	k.f("VMULPS (SI)(CX*1), Y1, Y0")
	k.f("VMOVUPS Y0, (DI)(CX*1)")
	k.f("ADDQ $32, CX")
	k.f("CMPQ CX, R10")
	k.f("JLT %s", loop)
	k.f("ADDQ $4, R12")
	k.f("ADDQ R8, DI")
	k.f("ADDQ R9, SI")
	k.f("DECQ R11")
	k.f("JNZ %s", row)
	k.f("VZEROUPPER")
	k.f("RET")
}

// copyPanel writes rows of two vectors, ld apart, one behind the other.
func (k *vkernel) copyPanel() {
	name := "copyPanel" + k.name
	k.text(name, name+"(dst, src *float32, ld, rows int)", 0, 32)
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ src+8(FP), SI")
	k.f("MOVQ ld+16(FP), R8")
	k.f("SHLQ $2, R8")
	k.f("MOVQ rows+24(FP), CX")
	loop := k.fresh("loop")
	k.label(loop)
	k.f("VMOVUPS (SI), %s", k.v(0))
	k.f("VMOVUPS %d(SI), %s", k.width(), k.v(1))
	k.f("VMOVUPS %s, (DI)", k.v(0))
	k.f("VMOVUPS %s, %d(DI)", k.v(1), k.width())
	k.f("ADDQ R8, SI")
	k.f("ADDQ $%d, DI", 2*k.width())
	k.f("DECQ CX")
	k.f("JNZ %s", loop)
	k.f("VZEROUPPER")
	k.f("RET")
}
