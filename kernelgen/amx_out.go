package main

import (
	"fmt"
	"math"
)

// A product that only bf16 products read is rounded where it is made. Its
// tiles go to a buffer in L1, and from there through the activation to memory:
// half the bytes, no other pass over it, and the vector units do that for one
// block while the tiles multiply the next.

// geluPoly is (Phi(x)-1/2)/x in powers of x², fitted up to geluEdge so that
// x·Phi(x) is good to 1e-5 there: bf16 keeps 2^-9 of it. Beyond the edge Phi
// is taken at the edge, and below it x too.
var geluPoly = []float32{0.3988981246948242, -0.06636977940797806, 0.009858602657914162, -0.0011322583304718137, 9.989644604502246e-05,
	-6.621945885854075e-06, 3.158114338930318e-07, -1.012043071568769e-08, 1.934401389069862e-10, -1.6565072881100096e-12}

const geluEdge = 4.4

// exp2Poly is 2^f for f in [0,1), good to 3e-6.
var exp2Poly = []float32{1.0000026226043701, 0.6930038332939148, 0.2414427548646927, 0.05201146379113197, 0.013534167781472206}

// outKernel emits the activation of a product that is rounded to bf16.
// Constants stay in registers, from Z31 downwards.
type outKernel struct {
	*vkernel
	held []uint32
}

// hold gives a constant its register; the first mention must be in load.
func (k *outKernel) hold(x float32) int {
	bits := math.Float32bits(x)
	for n, b := range k.held {
		if b == bits {
			return 31 - n
		}
	}
	k.held = append(k.held, bits)
	return 32 - len(k.held)
}

// outAct is an activation for outKernel: its constants, and the body, which
// leaves the result in x and may use tmp to tmp+2.
type outAct struct {
	name   string
	consts []float32
	body   func(k *outKernel, x, tmp int)
}

var (
	sigmoidConsts = append([]float32{126, 1}, exp2Poly...)
	outActs       = []outAct{
		{"Plain", nil, func(*outKernel, int, int) {}},
		{"Gelu", append([]float32{-geluEdge, geluEdge, 0.5}, geluPoly...), (*outKernel).gelu},
		{"GeluTanh", append([]float32{-tanhLin * log2e, -tanhCube * log2e}, sigmoidConsts...), func(k *outKernel, x, tmp int) {
			z := tmp
			k.op("VMULPS", x, x, z)
			k.op("VFMADD213PS", k.hold(-tanhLin*log2e), k.hold(-tanhCube*log2e), z)
			k.op("VMULPS", x, z, z)
			k.sigmoid2(x, z, tmp+1)
		}},
		{"Silu", append([]float32{-log2e}, sigmoidConsts...), func(k *outKernel, x, tmp int) {
			k.op("VMULPS", k.hold(-log2e), x, tmp)
			k.sigmoid2(x, tmp, tmp+1)
		}},
	}
)

const log2e = 1.4426950408889634

func (k *outKernel) gelu(x, tmp int) {
	t, u, q := tmp, tmp+1, tmp+2
	k.op("VMAXPS", x, k.hold(-geluEdge), x) // this order keeps NaN
	k.op("VMINPS", x, k.hold(geluEdge), t)
	k.op("VMULPS", t, t, u)
	last := len(geluPoly) - 1
	k.op("VMOVAPS", k.hold(geluPoly[last]), q)
	for n := last - 1; n >= 0; n-- {
		k.op("VFMADD213PS", k.hold(geluPoly[n]), u, q)
	}
	k.op("VFMADD213PS", k.hold(0.5), t, q)
	k.op("VMULPS", q, x, x)
}

// sigmoid2 leaves x/(1+2^z) in x; z and tmp are lost. The reciprocal is good
// to 2^-14.
func (k *outKernel) sigmoid2(x, z, tmp int) {
	f, p := tmp, tmp+1
	k.op("VMINPS", z, k.hold(126), z)
	k.exp2(z, f, p)
	k.op("VADDPS", k.hold(1), p, p)
	k.op("VRCP14PS", p, p)
	k.op("VMULPS", p, x, x)
}

// exp2 leaves 2^z in p; f is lost.
func (k *outKernel) exp2(z, f, p int) {
	k.op("VREDUCEPS", "$9", z, f) // z less its floor
	last := len(exp2Poly) - 1
	k.op("VMOVAPS", k.hold(exp2Poly[last]), p)
	for n := last - 1; n >= 0; n-- {
		k.op("VFMADD213PS", k.hold(exp2Poly[n]), f, p)
	}
	k.op("VSCALEFPS", z, p, p)
}

// genTileOut writes, for an activation, the tile kernel whose results are
// rounded, of 32 columns, or of 16 as act(first tile of columns)·second, and
// the same for rows that are in a buffer already.
func genTileOut(g *asm, consts *constants, act outAct, glu bool) {
	k := &outKernel{vkernel: &vkernel{asm: g, isa: avx512, consts: consts}}
	kind := "Out"
	if glu {
		kind = "GLU"
	}
	name := fmt.Sprintf("tile%s%s", kind, act.name)
	g.text(name, name+"(t *tileArgs)", 40, 8)
	g.ftz()
	g.tileOpen()
	k.load(act)
	g.f("MOVQ %d(R8), AX", atOut)
	g.f("MOVQ AX, out-24(SP)")
	g.f("MOVQ $0, left-40(SP)") // rows of the block before that are not finished
	block, part, finished, skip := g.fresh("block"), g.fresh("part"), g.fresh("finished"), g.fresh("skip")
	g.label(block)
	g.f("MOVQ R12, rows-32(SP)")
	g.f("XORQ R12, R12") // one row for all
	g.f("XORQ R13, R13")
	g.tileInit(2)
	g.f("MOVQ rows-32(SP), R12")
	g.tileLoop(2, true, false, func() { k.load(act) }, func() {
		g.f("MOVQ left-40(SP), R10")
		g.f("TESTQ R10, R10")
		g.f("JZ %s", skip)
		g.f("MOVQ %d(R8), R13", atQuota)
		g.label(part)
		k.row(act, glu)
		g.f("DECQ R10")
		g.f("JZ %s", finished)
		g.f("DECQ R13")
		g.f("JNZ %s", part)
		g.label(finished)
		g.f("MOVQ R10, left-40(SP)")
		g.label(skip)
	})
	g.f("MOVQ left-40(SP), R10")
	k.rest(act, glu)
	// The buffer of this block: the one that the block before did not use.
	g.f("MOVQ R15, R11")
	g.f("ANDQ $1, R11")
	g.f("SHLQ $12, R11")
	g.f("ADDQ %d(R8), R11", atTiles)
	g.f("MOVQ R11, SI")
	g.f("MOVQ $128, AX")
	g.tilestore(0, rSI, rAX, 0)
	g.tilestore(1, rSI, rAX, 64)
	g.tilestore(2, rSI, rAX, 2048)
	g.tilestore(3, rSI, rAX, 2112)
	g.f("MOVQ out-24(SP), R12")
	g.f("MOVQ %d(R8), AX", atNextOut)
	g.f("ADDQ AX, out-24(SP)")
	g.f("MOVQ $32, left-40(SP)")
	g.f("ADDQ %d(R8), R9", atNextA)
	g.f("DECQ R15")
	g.f("JNZ %s", block)
	g.tilerelease()
	g.f("MOVQ left-40(SP), R10")
	k.rest(act, glu)
	g.ret()

	name = fmt.Sprintf("rows%s%s", kind, act.name)
	g.text(name, name+"(t *tileArgs, rows int)", 16, 16)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	k.load(act)
	g.f("MOVQ %d(R8), R11", atTiles)
	g.f("MOVQ %d(R8), R12", atOut)
	g.f("MOVQ rows+8(FP), R10")
	k.rest(act, glu)
	g.ret()
}

func (k *outKernel) load(act outAct) {
	for _, c := range act.consts {
		k.f("VMOVUPS %s, Z%d", k.c(c), k.hold(c))
	}
}

// row finishes one row: from (R11), 32 values, to (R12), where rows lie 64
// bytes apart.
func (k *outKernel) row(act outAct, glu bool) {
	if glu {
		k.f("VMOVUPS (R11), Z0")
		act.body(k, 0, 2)
		k.f("VMULPS 64(R11), Z0, Z0")
		k.cvtne(0, 0)
		k.f("VMOVDQU Y0, (R12)")
	} else {
		k.f("VMOVUPS (R11), Z0")
		k.f("VMOVUPS 64(R11), Z1")
		for n := range 2 {
			act.body(k, n, 2+3*n)
		}
		k.cvtne2(0, 1, 0)
		k.f("VMOVDQU64 Z0, (R12)")
	}
	k.f("ADDQ $128, R11")
	k.f("ADDQ $64, R12")
}

// rest finishes the R10 rows that are left.
func (k *outKernel) rest(act outAct, glu bool) {
	loop, done := k.fresh("rest"), k.fresh("done")
	k.f("TESTQ R10, R10")
	k.f("JZ %s", done)
	k.label(loop)
	k.row(act, glu)
	k.f("DECQ R10")
	k.f("JNZ %s", loop)
	k.label(done)
}
