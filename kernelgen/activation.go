package main

import "math"

// Coefficients shared with internal/kernel/vec/scalar.go, which explains them.
var (
	expPoly  = []float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}
	tailPoly = []float32{0.13962166011333466, 0.13985757529735565, 0.11986302584409714, 0.10539242625236511, -0.022844132035970688, 0.15879763662815094, -0.2553919851779938, 0.1438189148902893, -0.029115119948983192}
)

const (
	expLow   = -87
	expHigh  = 89
	expRound = 12582912 // 1.5·2^23: adding it rounds to an integer
	ln2High  = 0.693359375
	ln2Low   = -2.12194440e-4
	tailRate = 0.35
	tanhLin  = 2 * 0.7978845608028654 // 2·sqrt(2/pi)
	tanhCube = tanhLin * 0.044715
)

// exp leaves e^x in the register it returns (tmp) and uses tmp to tmp+2; x
// is lost. NaN stays NaN, results below the normal range are 0.
func (k *vkernel) exp(x, tmp int) int {
	p, t, n := tmp, tmp+1, tmp+2
	k.op("VMOVUPS", k.c(expHigh), t)
	k.op("VMINPS", x, t, x) // this order keeps NaN
	k.op("VMOVUPS", k.c(float32(math.Log2E)), t)
	k.op("VFMADD213PS", k.c(expRound), x, t)
	k.op("VSUBPS", k.c(expRound), t, n)
	k.op("VMOVAPS", x, p)
	k.op("VFNMADD231PS", k.c(ln2High), n, p)
	k.op("VFNMADD231PS", k.c(ln2Low), n, p)
	// p is the remainder r; e^r = 1 + r + r² poly(r).
	r := n
	k.op("VMOVAPS", p, r)
	k.op("VMOVUPS", k.c(expPoly[0]), p)
	for _, c := range expPoly[1:] {
		k.op("VFMADD213PS", k.c(c), r, p)
	}
	k.op("VMULPS", r, p, p)
	k.op("VFMADD213PS", r, r, p)
	k.op("VADDPS", k.c(1), p, p)
	// The low bits of t hold the exponent. 2^(n-1) and a doubling reach 2^128.
	k.op("VPADDD", k.consts.bits(126), t, t)
	k.op("VPSLLD", "$23", t, t)
	k.op("VMULPS", t, p, p)
	k.op("VADDPS", p, p, p)
	if k.lanes == 16 {
		k.op("VCMPPS", "$5", k.c(expLow), x, k.mask())
		k.f("VMOVUPS.Z %s, %s, %s", k.v(p), k.mask(), k.v(p))
	} else {
		k.op("VCMPPS", "$5", k.c(expLow), x, t)
		k.op("VANDPS", t, p, p)
	}
	return p
}

// sigmoid leaves 1/(1+e^-x) in tmp and uses tmp to tmp+3; x is kept.
func (k *vkernel) sigmoid(x, tmp int) int {
	arg := tmp + 3
	k.zero(k.isa, arg)
	k.op("VSUBPS", x, arg, arg)
	e := k.exp(arg, tmp)
	k.op("VADDPS", k.c(1), e, e)
	k.op("VMOVUPS", k.c(1), arg)
	k.op("VDIVPS", e, arg, e)
	return e
}

// tanhArg leaves 2·sqrt(2/pi)·(x + 0.044715x³) in dst: tanh(u) is
// 2·sigmoid(2u)-1.
func (k *vkernel) tanhArg(x, dst int) {
	k.op("VMULPS", x, x, dst)
	k.op("VMULPS", k.c(tanhCube), dst, dst)
	k.op("VADDPS", k.c(tanhLin), dst, dst)
	k.op("VMULPS", x, dst, dst)
}

// tail leaves the normal distribution's tail Q(|x|) in q and e^(-x²/2) in e
// and uses tmp to tmp+4; x is kept.
func (k *vkernel) tail(x, tmp int) (q, e int) {
	arg, lo := tmp+3, tmp+4
	// x² in two parts: e^-x² would lose the digits that x² cannot hold.
	k.op("VMULPS", x, x, arg)
	k.op("VMOVAPS", arg, lo)
	k.op("VFMSUB231PS", x, x, lo) // what rounding took from x²
	k.op("VMULPS", k.c(-0.5), arg, arg)
	e = k.exp(arg, tmp)
	k.op("VMULPS", k.c(-0.5), lo, lo)
	k.op("VFMADD231PS", e, lo, e)
	t, a, q := tmp+1, tmp+2, tmp+3
	k.op("VANDPS", k.consts.bits(0x7fffffff), x, a)
	k.op("VMULPS", k.c(tailRate), a, a)
	k.op("VADDPS", k.c(1), a, a)
	k.op("VMOVUPS", k.c(1), t)
	k.op("VDIVPS", a, t, t)
	k.op("VMOVUPS", k.c(tailPoly[len(tailPoly)-1]), q)
	for n := len(tailPoly) - 2; n >= 0; n-- {
		k.op("VFMADD213PS", k.c(tailPoly[n]), t, q)
	}
	k.op("VMULPS", t, q, q)
	k.op("VMULPS", e, q, q)
	k.op("VMOVAPS", e, lo)
	return q, lo
}

// gelu leaves x·Phi(x) in the register it returns: x·Q below zero, x - x·Q
// above, so that neither side loses digits.
func (k *vkernel) gelu(x, tmp int) int {
	q, e := k.tail(x, tmp)
	k.op("VMULPS", x, q, q)
	k.op("VSUBPS", q, x, e)
	k.selectNegative(x, q, e)
	return e
}

// selectNegative makes dst = yes where the sign of x is set.
func (k *vkernel) selectNegative(x, yes, dst int) {
	if k.lanes == 16 {
		k.f("VPMOVD2M %s, %s", k.v(x), k.mask())
		k.f("VMOVAPS %s, %s, %s", k.v(yes), k.mask(), k.v(dst))
		return
	}
	k.op("VBLENDVPS", x, yes, dst, dst)
}

// genRoPE writes the rotations of one head: 256-bit for both tiers, since a
// head is short.
func genRoPE(g *asm, consts *constants) {
	k := &vkernel{asm: g, isa: avx2, consts: consts}
	open := func(name, second string) (loop, done string) {
		g.text(name, name+"(x, cos, sin *float32, half int, sign uint32)", 0, 36)
		g.f("MOVQ x+0(FP), DI")
		g.f("MOVQ cos+8(FP), SI")
		g.f("MOVQ sin+16(FP), BX")
		g.f("MOVQ half+24(FP), CX")
		g.f("VBROADCASTSS sign+32(FP), Y7")
		if second != "" {
			g.f("%s", second)
		}
		loop, done = g.fresh("loop"), g.fresh("done")
		g.label(loop)
		return loop, done
	}
	loop, done := open("ropeSplitAVX2", "LEAQ (DI)(CX*4), DX")
	g.f("SUBQ $8, CX")
	g.f("JLT %s", done)
	g.f("VMOVUPS (DI), Y0")
	g.f("VMOVUPS (DX), Y1")
	g.f("VMOVUPS (SI), Y2")
	g.f("VXORPS (BX), Y7, Y3")
	g.f("VMULPS Y3, Y1, Y4")
	g.f("VMULPS Y3, Y0, Y5")
	g.f("VFMSUB231PS Y2, Y0, Y4") // a·c - b·s
	g.f("VFMADD231PS Y2, Y1, Y5") // b·c + a·s
	g.f("VMOVUPS Y4, (DI)")
	g.f("VMOVUPS Y5, (DX)")
	for _, r := range []string{"DI", "DX", "SI", "BX"} {
		g.f("ADDQ $32, %s", r)
	}
	g.f("JMP %s", loop)
	g.label(done)
	g.f("VZEROUPPER")
	g.f("RET")

	loop, done = open("ropePairsAVX2", "")
	g.f("SUBQ $4, CX")
	g.f("JLT %s", done)
	g.f("VMOVUPS (DI), Y0") // four pairs
	for n, r := range []string{"SI", "BX"} {
		g.f("VPMOVZXDQ (%s), Y%d", r, 2+n)
		k.op("VMOVSLDUP", 2+n, 2+n) // each value twice
	}
	g.f("VXORPS Y7, Y3, Y3")
	g.f("VPERMILPS $0xb1, Y0, Y1")
	g.f("VMULPS Y3, Y1, Y1")
	g.f("VFMADDSUB231PS Y2, Y0, Y1")
	g.f("VMOVUPS Y1, (DI)")
	g.f("ADDQ $32, DI")
	g.f("ADDQ $16, SI")
	g.f("ADDQ $16, BX")
	g.f("JMP %s", loop)
	g.label(done)
	g.f("VZEROUPPER")
	g.f("RET")
}

// genToF16 rounds to half floats, n a multiple of 8.
func genToF16(g *asm) {
	g.text("toF16AVX2", "toF16AVX2(dst *byte, src *float32, n int)", 0, 24)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ n+16(FP), CX")
	loop := g.fresh("loop")
	g.label(loop)
	g.f("VMOVUPS (SI), Y0")
	g.f("VCVTPS2PH $0, Y0, X0")
	g.f("VMOVUPS X0, (DI)")
	g.f("ADDQ $32, SI")
	g.f("ADDQ $16, DI")
	g.f("SUBQ $8, CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}
