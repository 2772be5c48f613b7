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

// Offsets in tileArgs.
const (
	argOut       = 112 // where rounded rows go
	argStrideOut = 120
	argNextOut   = 128
	argTiles     = 136 // two buffers in turn, each of one block, or of two where there are two products
	argQuota     = 144 // rows of the block before that are finished in each step of K
	argAt        = 152 // bytes of out that are done with
	argB2        = 160 // panel of the second product
	argInit2     = 168 // what it starts from
)

// genTileOut writes, for an activation, the tile kernel whose results are
// rounded, with one product or with act(first)·second, and the same for rows
// that are in a buffer already.
func genTileOut(g *asm, consts *constants, act outAct, glu bool) {
	k := &outKernel{vkernel: &vkernel{asm: g, isa: avx512, consts: consts}}
	kind := "Out"
	if glu {
		kind = "GLU"
	}
	name := fmt.Sprintf("tile%s%s", kind, act.name)
	g.text(name, name+"(t *tileArgs)", 0, 8)
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ 0(R8), AX") // cfg
	g.ldtilecfg()
	k.load(act)
	g.f("MOVQ 8(R8), R9")   // a
	g.f("MOVQ 16(R8), R10") // b
	g.f("MOVQ 40(R8), CX")  // stride of a, bytes
	g.f("MOVQ 72(R8), R15") // blocks
	g.f("XORQ R13, R13")    // rows of the block before that are not finished
	block := g.fresh("block")
	g.label(block)
	products := 1
	if glu {
		products = 2
	}
	for p := range products {
		zero, sum, loop, part, skip := g.fresh("zero"), g.fresh("sum"), g.fresh("loop"), g.fresh("part"), g.fresh("skip")
		init := 32
		if p == 1 {
			init = argInit2
		}
		g.f("MOVQ %d(R8), SI", init)
		g.f("TESTQ SI, SI")
		g.f("JZ %s", zero)
		g.f("XORQ AX, AX") // one row for all
		for t := byte(0); t < 4; t++ {
			g.tileload(t, rSI, rAX, int32(t%2)*64)
		}
		g.f("JMP %s", sum)
		g.label(zero)
		for t := byte(0); t < 4; t++ {
			g.tilezero(t)
		}
		g.label(sum)
		g.f("MOVQ R9, SI")
		g.f("MOVQ CX, DI")
		g.f("SHLQ $4, DI")
		g.f("ADDQ R9, DI") // rows 16 to 31
		g.f("MOVQ R10, BX")
		if p == 1 {
			g.f("MOVQ %d(R8), BX", argB2)
		}
		g.f("MOVQ $64, AX")
		g.f("MOVQ 64(R8), R14") // steps of 32 of K
		g.label(loop)
		g.tileload(6, rBX, rAX, 0)
		g.tileload(4, rSI, rCX, 0)
		g.tdp("TDPBF16PS", 2, 0x5c, 0, 4, 6)
		g.tileload(7, rBX, rAX, 1024)
		g.tdp("TDPBF16PS", 2, 0x5c, 1, 4, 7)
		g.tileload(5, rDI, rCX, 0)
		g.tdp("TDPBF16PS", 2, 0x5c, 2, 5, 6)
		g.tdp("TDPBF16PS", 2, 0x5c, 3, 5, 7)
		g.f("ADDQ $64, DI")
		g.f("ADDQ $64, SI")
		g.f("ADDQ $2048, BX")
		g.f("TESTQ R13, R13")
		g.f("JZ %s", skip)
		g.f("MOVQ %d(R8), DX", argQuota)
		g.label(part)
		k.row(act, glu)
		g.f("DECQ R13")
		g.f("JZ %s", skip)
		g.f("DECQ DX")
		g.f("JNZ %s", part)
		g.label(skip)
		g.f("DECQ R14")
		g.f("JNZ %s", loop)
		if p == products-1 {
			k.rest(act, glu)
		}
		// The buffer of this block: the one that the block before did not use.
		size := 12 + products - 1 // log2 of its bytes
		g.f("MOVQ R15, SI")
		g.f("ANDQ $1, SI")
		g.f("SHLQ $%d, SI", size)
		g.f("ADDQ %d(R8), SI", argTiles)
		if p == 1 {
			g.f("ADDQ $4096, SI")
		}
		g.f("MOVQ $128, AX")
		g.tilestore(0, rSI, rAX, 0)
		g.tilestore(1, rSI, rAX, 64)
		g.tilestore(2, rSI, rAX, 2048)
		g.tilestore(3, rSI, rAX, 2112)
	}
	g.f("MOVQ SI, R11")
	if glu {
		g.f("SUBQ $4096, R11")
	}
	g.f("MOVQ %d(R8), R12", argOut)
	g.f("ADDQ %d(R8), R12", argAt)
	g.f("MOVQ %d(R8), DX", argNextOut)
	g.f("ADDQ DX, %d(R8)", argAt)
	g.f("MOVQ $32, R13")
	g.f("ADDQ 80(R8), R9")
	g.f("DECQ R15")
	g.f("JNZ %s", block)
	g.tilerelease()
	k.rest(act, glu)
	g.f("VZEROUPPER")
	g.f("RET")

	name = fmt.Sprintf("rows%s%s", kind, act.name)
	g.text(name, name+"(t *tileArgs, rows int)", 0, 16)
	g.f("MOVQ t+0(FP), R8")
	k.load(act)
	g.f("MOVQ %d(R8), R11", argTiles)
	g.f("MOVQ %d(R8), R12", argOut)
	g.f("MOVQ rows+8(FP), R13")
	k.rest(act, glu)
	g.f("VZEROUPPER")
	g.f("RET")
}

func (k *outKernel) load(act outAct) {
	for _, c := range act.consts {
		k.f("VMOVUPS %s, Z%d", k.c(c), k.hold(c))
	}
}

// row finishes one row of 32: from (R11) to (R12).
func (k *outKernel) row(act outAct, glu bool) {
	for n := range 2 {
		k.f("VMOVUPS %d(R11), Z%d", 64*n, n)
	}
	for n := range 2 {
		act.body(k, n, 2+3*n)
		if glu {
			k.f("VMULPS %d(R11), Z%d, Z%d", 4096+64*n, n, n)
		}
	}
	k.cvtne2(0, 1, 0)
	k.f("VMOVDQU64 Z0, (R12)")
	k.f("ADDQ $128, R11")
	k.f("ADDQ %d(R8), R12", argStrideOut)
}

// rest finishes the R13 rows that are left.
func (k *outKernel) rest(act outAct, glu bool) {
	loop, done := k.fresh("rest"), k.fresh("done")
	k.f("TESTQ R13, R13")
	k.f("JZ %s", done)
	k.label(loop)
	k.row(act, glu)
	k.f("DECQ R13")
	k.f("JNZ %s", loop)
	k.label(done)
}
