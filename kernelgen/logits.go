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
		genBins(&vkernel{asm: g, isa: i, consts: consts})
	}
	for _, values := range []bool{false, true} {
		genWithinAVX2(g, values)
		genWithinAVX512(g, consts, values)
	}
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

// within opens a kernel that writes the values from low up to, but not including,
// high, or their indexes, in order. DI walks dst, R9 keeps its beginning, R8 is
// the index of SI.
func within(g *asm, i isa, values bool) {
	name, dst := "indexesWithin", "int32"
	if values {
		name, dst = "valuesWithin", "float32"
	}
	g.text(name+i.name, name+i.name+"(dst *"+dst+", a *float32, n int, low, high float32) (count int)", 0, 40)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ DI, R9")
	g.f("MOVQ a+8(FP), SI")
	g.f("MOVQ n+16(FP), CX")
	g.f("XORL R8, R8")
	g.f("VBROADCASTSS low+24(FP), %s", i.v(0))
	g.f("VBROADCASTSS high+28(FP), %s", i.v(7))
}

func withinEnd(g *asm) {
	g.f("SUBQ R9, DI")
	g.f("SHRQ $2, DI")
	g.f("MOVQ DI, count+32(FP)")
	g.f("VZEROUPPER")
	g.f("RET")
}

// genWithinAVX2 looks at four vectors at a time, because few have any, and takes
// the set bits of a vector's mask one by one.
func genWithinAVX2(g *asm, values bool) {
	within(g, avx2, values)
	loop, skip := g.fresh("loop"), g.fresh("skip")
	g.label(loop)
	for n := range 4 {
		g.f("VCMPPS $2, %d(SI), Y0, Y%d", 32*n, 1+n) // low <= a, false for NaN
		g.f("VCMPPS $14, %d(SI), Y7, Y8", 32*n)      // high > a
		g.f("VANDPS Y8, Y%d, Y%d", 1+n, 1+n)
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
		if values {
			g.f("MOVL %d(SI)(BX*4), BX", 32*n)
		} else {
			g.f("LEAL %d(R8)(BX*1), BX", 8*n)
		}
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
	withinEnd(g)
}

// genWithinAVX512 compresses in a register and stores all of it: what lies behind
// the count is overwritten later or belongs to nobody.
func genWithinAVX512(g *asm, consts *constants, values bool) {
	within(g, avx512, values)
	if !values {
		g.f("VMOVDQU32 %s, Z1", consts.lanes())
	}
	loop, skip := g.fresh("loop"), g.fresh("skip")
	g.label(loop)
	for n := range 4 {
		g.f("VCMPPS $2, %d(SI), Z0, K%d", 64*n, 1+n)
		g.f("VCMPPS $14, %d(SI), Z7, K%d, K%d", 64*n, 1+n, 1+n)
	}
	g.f("KORW K1, K2, K5")
	g.f("KORW K3, K4, K6")
	g.f("KORTESTW K5, K6")
	g.f("JZ %s", skip)
	for n := range 4 {
		if values {
			g.f("VMOVDQU32 %d(SI), Z2", 64*n)
		} else {
			g.f("LEAL %d(R8), AX", 16*n)
			g.f("VPBROADCASTD AX, Z2")
			g.f("VPADDD Z1, Z2, Z2")
		}
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
	withinEnd(g)
}

// genBins writes trunc(min((top-a)*scale, last)) as 16 bits.
func genBins(k *vkernel) {
	name := "bins" + k.name
	k.text(name, name+"(dst *uint16, a *float32, n int, top, scale, last float32)", 0, 36)
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ a+8(FP), SI")
	k.f("MOVQ n+16(FP), CX")
	const top, scale, last, x = 0, 1, 2, 3
	k.f("VBROADCASTSS top+24(FP), %s", k.v(top))
	k.f("VBROADCASTSS scale+28(FP), %s", k.v(scale))
	k.f("VBROADCASTSS last+32(FP), %s", k.v(last))
	loop := k.fresh("loop")
	k.label(loop)
	slots := make([]func(), 4)
	for o := range slots {
		slots[o] = func() {
			k.op("VSUBPS", fmt.Sprintf("%d(SI)", o*k.width()), top, x+o)
			k.op("VMULPS", scale, x+o, x+o)
			k.op("VMINPS", last, x+o, x+o)
			k.op("VCVTTPS2DQ", x+o, x+o)
		}
	}
	k.weave(slots...)
	if k.lanes == 16 {
		for o := range slots {
			k.f("VPMOVDW Z%d, %d(DI)", x+o, 32*o)
		}
	} else {
		for o := 0; o < len(slots); o += 2 {
			k.f("VPACKUSDW Y%d, Y%d, Y%d", x+o+1, x+o, x+o) // quarters 0 2 1 3
			k.f("VPERMQ $0xd8, Y%d, Y%d", x+o, x+o)
			k.f("VMOVDQU Y%d, %d(DI)", x+o, 16*o)
		}
	}
	k.f("ADDQ $%d, SI", 4*k.width())
	k.f("ADDQ $%d, DI", 2*k.width())
	k.f("SUBQ $%d, CX", 4*k.lanes)
	k.f("JNZ %s", loop)
	k.f("VZEROUPPER")
	k.f("RET")
}
