package main

import (
	"fmt"
	"math"
)

// genLogits writes the kernels that walk the logits of a vocabulary. n is a
// positive multiple of 64; Go does the rest of a slice.
func genLogits(g *asm, consts *constants) {
	for _, i := range []isa{avx2, avx512} {
		genExpSum(&vkernel{asm: g, isa: i, consts: consts})
		genRoughExpSum(&vkernel{asm: g, isa: i, consts: consts})
	}
	genAboveAVX2(g)
	genAboveAVX512(g, consts)
}

// f64 is the operand of a float64 in every lane.
func (c *constants) f64(name string, x float64) string {
	b := math.Float64bits(x)
	return c.vector(name, 0, func(lane int) uint32 { return uint32(b >> (32 * (lane & 1))) })
}

// exp2Terms is 2^f for f of -0.5 to 0.5, from the constant term on: the
// polynomial through Chebyshev's nodes, off by 1.1e-12 at most.
var exp2Terms = []float64{1, 0.6931471805459335, 0.2402265069581299, 0.05550410941205933, 0.009618129159402558,
	0.0013333450568000645, 0.00015403455852453838, 1.5310079402249296e-05, 1.3255224878668817e-06}

// genExpSum writes the sum of 2^((a-shift)*scale), computed in f64.
func genExpSum(k *vkernel) {
	name := "expSum" + k.name
	k.text(name, name+"(a *float32, n int, shift, scale float64) (sum float64)", 0, 40)
	k.f("MOVQ a+0(FP), SI")
	k.f("MOVQ n+8(FP), CX")
	const shift, scale, round, low, acc = 0, 1, 2, 3, 4
	k.f("VBROADCASTSD shift+16(FP), %s", k.v(shift))
	k.f("VBROADCASTSD scale+24(FP), %s", k.v(scale))
	k.op("VMOVUPD", k.consts.f64("expRound64", 3<<51), round) // adding it rounds to an integer
	k.op("VMOVUPD", k.consts.f64("expLow64", -1000), low)     // what is smaller is next to nothing
	u := k.lanes / 4                                          // vectors per round
	next := acc + u
	term := func(n int) any { return k.consts.f64(fmt.Sprintf("exp2Term%d", n), exp2Terms[n]) }
	if k.lanes == 16 { // there are registers for the polynomial
		held := next
		for n := range exp2Terms {
			k.op("VMOVUPD", term(n), held+n)
		}
		term = func(n int) any { return held + n }
		next += len(exp2Terms)
	}
	for n := range u {
		k.zero(k.isa, acc+n)
	}
	loop := k.fresh("loop")
	k.label(loop)
	slots := make([]func(), u)
	for o := range u {
		x, t, p := next+3*o, next+3*o+1, next+3*o+2
		slots[o] = func() {
			k.op("VCVTPS2PD", fmt.Sprintf("%d(SI)", o*k.width()/2), x)
			k.op("VSUBPD", shift, x, x)
			k.op("VMULPD", scale, x, x)
			k.op("VMAXPD", low, x, x)
			k.op("VADDPD", round, x, t) // its low bits hold the exponent
			k.op("VSUBPD", round, t, p)
			k.op("VSUBPD", p, x, x)
			last := len(exp2Terms) - 1
			k.op("VMOVUPD", term(last), p)
			for n := last - 1; n >= 0; n-- {
				k.op("VFMADD213PD", term(n), x, p)
			}
			k.op("VPSLLQ", "$52", t, t)
			k.op("VPADDQ", t, p, p)
			k.op("VADDPD", p, acc+o, acc+o)
		}
	}
	k.weave(slots...)
	k.f("ADDQ $%d, SI", u*k.width()/2)
	k.f("SUBQ $%d, CX", u*k.lanes/2)
	k.f("JNZ %s", loop)
	for n := u / 2; n > 0; n /= 2 {
		for o := range n {
			k.op("VADDPD", acc+n+o, acc+o, acc+o)
		}
	}
	if k.lanes == 16 {
		k.f("VEXTRACTF64X4 $1, Z%d, Y0", acc)
		k.f("VADDPD Y0, Y%d, Y%d", acc, acc)
	}
	k.f("VEXTRACTF128 $1, Y%d, X0", acc)
	k.f("VADDPD X0, X%d, X%d", acc, acc)
	k.f("VPERMILPD $1, X%d, X0", acc)
	k.f("VADDSD X0, X%d, X%d", acc, acc)
	k.f("VMOVSD X%d, sum+32(FP)", acc)
	k.f("VZEROUPPER")
	k.f("RET")
}

// genRoughExpSum writes the sum of e^((a-shift)*scale), computed in f32.
func genRoughExpSum(k *vkernel) {
	name := "roughExpSum" + k.name
	k.text(name, name+"(a *float32, n int, shift, scale float32) (sum float32)", 16, 28)
	k.ftz()
	k.f("MOVQ a+0(FP), SI")
	k.f("MOVQ n+8(FP), CX")
	const shift, scale, acc = 0, 1, 2
	k.f("VBROADCASTSS shift+16(FP), %s", k.v(shift))
	k.f("VBROADCASTSS scale+20(FP), %s", k.v(scale))
	u := k.lanes / 4 // vectors per round
	for n := range u {
		k.zero(k.isa, acc+n)
	}
	loop := k.fresh("loop")
	k.label(loop)
	slots := make([]func(), u)
	for o := range u {
		v, x := &vkernel{asm: k.asm, isa: k.isa, consts: k.consts, slot: o}, acc+u+4*o
		slots[o] = func() {
			v.op("VMOVUPS", fmt.Sprintf("%d(SI)", o*k.width()), x)
			v.op("VSUBPS", shift, x, x)
			v.op("VMULPS", scale, x, x)
			v.op("VADDPS", v.exp(x, x+1), acc+o, acc+o)
		}
	}
	k.weave(slots...)
	k.f("ADDQ $%d, SI", u*k.width())
	k.f("SUBQ $%d, CX", u*k.lanes)
	k.f("JNZ %s", loop)
	for n := u / 2; n > 0; n /= 2 {
		for o := range n {
			k.op("VADDPS", acc+n+o, acc+o, acc+o)
		}
	}
	k.fold("VADDPS", acc, 0)
	k.f("VMOVSS X%d, sum+24(FP)", acc)
	k.ret()
}

const aboveDecl = "(dst *int32, a *float32, n int, low float32) (count int)"

// above opens a kernel that writes the indexes of values of at least low, in
// order. DI walks dst, R9 keeps its beginning, R8 is the index of SI.
func above(g *asm, i isa) {
	g.text("above"+i.name, "above"+i.name+aboveDecl, 0, 40)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ DI, R9")
	g.f("MOVQ a+8(FP), SI")
	g.f("MOVQ n+16(FP), CX")
	g.f("XORL R8, R8")
	g.f("VBROADCASTSS low+24(FP), %s", i.v(0))
}

func aboveEnd(g *asm) {
	g.f("SUBQ R9, DI")
	g.f("SHRQ $2, DI")
	g.f("MOVQ DI, count+32(FP)")
	g.f("VZEROUPPER")
	g.f("RET")
}

// genAboveAVX2 looks at four vectors at a time, because few have any, and takes
// the set bits of a vector's mask one by one.
func genAboveAVX2(g *asm) {
	above(g, avx2)
	loop, skip := g.fresh("loop"), g.fresh("skip")
	g.label(loop)
	for n := range 4 {
		g.f("VCMPPS $2, %d(SI), Y0, Y%d", 32*n, 1+n) // low <= a, false for NaN
	}
	g.f("VORPS Y1, Y2, Y5")
	g.f("VORPS Y3, Y4, Y6")
	g.f("VORPS Y5, Y6, Y5")
	g.f("VMOVMSKPS Y5, AX")
	g.f("TESTL AX, AX")
	g.f("JZ %s", skip)
	for n := range 4 {
		bit, none := g.fresh("bit"), g.fresh("none")
		g.f("VMOVMSKPS Y%d, AX", 1+n)
		g.f("TESTL AX, AX")
		g.f("JZ %s", none)
		g.label(bit)
		g.f("BSFL AX, BX")
		g.f("LEAL %d(R8)(BX*1), BX", 8*n)
		g.f("MOVL BX, (DI)")
		g.f("ADDQ $4, DI")
		g.f("LEAL -1(AX), BX")
		g.f("ANDL BX, AX")
		g.f("JNZ %s", bit)
		g.label(none)
	}
	g.label(skip)
	g.f("ADDQ $128, SI")
	g.f("ADDL $32, R8")
	g.f("SUBQ $32, CX")
	g.f("JNZ %s", loop)
	aboveEnd(g)
}

// genAboveAVX512 compresses indexes in a register and stores all of it: what
// lies behind the count is overwritten later or belongs to nobody.
func genAboveAVX512(g *asm, consts *constants) {
	above(g, avx512)
	g.f("VMOVDQU32 %s, Z1", consts.lanes())
	loop, skip := g.fresh("loop"), g.fresh("skip")
	g.label(loop)
	for n := range 4 {
		g.f("VCMPPS $2, %d(SI), Z0, K%d", 64*n, 1+n)
	}
	g.f("KORW K1, K2, K5")
	g.f("KORW K3, K4, K6")
	g.f("KORTESTW K5, K6")
	g.f("JZ %s", skip)
	for n := range 4 {
		g.f("LEAL %d(R8), AX", 16*n)
		g.f("VPBROADCASTD AX, Z2")
		g.f("VPADDD Z1, Z2, Z2")
		g.f("VPCOMPRESSD.Z Z2, K%d, Z2", 1+n)
		g.f("VMOVDQU32 Z2, (DI)")
		g.f("KMOVW K%d, AX", 1+n)
		g.f("POPCNTL AX, AX")
		g.f("LEAQ (DI)(AX*4), DI")
	}
	g.label(skip)
	g.f("ADDQ $256, SI")
	g.f("ADDL $64, R8")
	g.f("SUBQ $64, CX")
	g.f("JNZ %s", loop)
	aboveEnd(g)
}
