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
// x·Phi(x) is good to 3e-5·(1+|x|) there: bf16 keeps 2^-9 of it. At the edge it
// is 1/8, exactly, so that Phi is 1 beyond, and 0 below -geluEdge. tanhPoly is
// the same of the tanh form. While tiles multiply, the other vector unit is
// theirs: a block of K 384 leaves time for 12 operations a vector.
var (
	geluPoly = []float32{0.398653507232666, -0.0657958835363388, 0.009426536969840527, -0.0009795113001018763,
		7.031345012364909e-05, -3.2571099382039392e-06, 8.651542060533757e-08, -9.918859067425956e-10}
	tanhPoly = []float32{0.39872288703918457, -0.06625597178936005, 0.009733563289046288, -0.001062115072272718,
		8.179286669474095e-05, -4.12860617871047e-06, 1.208224347237774e-07, -1.5395887897895477e-09}
)

const geluEdge = 4

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
		{"Gelu", append([]float32{geluEdge, 0.5}, geluPoly...), func(k *outKernel, x, tmp int) { k.gelu(geluPoly, x, tmp) }},
		{"GeluTanh", append([]float32{geluEdge, 0.5}, tanhPoly...), func(k *outKernel, x, tmp int) { k.gelu(tanhPoly, x, tmp) }},
		{"Silu", append([]float32{-log2e}, sigmoidConsts...), func(k *outKernel, x, tmp int) {
			k.op("VMULPS", k.hold(-log2e), x, tmp)
			k.sigmoid2(x, tmp, tmp+1)
		}},
	}
)

const log2e = 1.4426950408889634

// gelu leaves x·Phi(x) in x, of NaN too.
func (k *outKernel) gelu(poly []float32, x, tmp int) {
	t, u, q := tmp, tmp+1, tmp+2
	k.op("VRANGEPS", "$2", k.hold(geluEdge), x, t) // the sign of x, and of both sizes the lesser
	k.op("VMULPS", t, t, u)
	last := len(poly) - 1
	k.op("VMOVAPS", k.hold(poly[last]), q)
	for n := last - 1; n >= 0; n-- {
		k.op("VFMADD213PS", k.hold(poly[n]), u, q)
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
	kind, unit := "Out", 2 // rows that are finished together: four vectors
	if glu {
		kind, unit = "GLU", 4
	}
	name := fmt.Sprintf("tile%s%s", kind, act.name)
	g.text(name, name+"(t *tileArgs)", 80, 8)
	g.ftz()
	g.walkOpen("list-24(SP)", "count-32(SP)")
	k.load(act)
	g.f("MOVQ $0, left-40(SP)") // rows of the block before that are not finished
	job, block, part, finished, skip, last := g.fresh("job"), g.fresh("block"), g.fresh("part"), g.fresh("finished"), g.fresh("skip"), g.fresh("last")
	g.label(job)
	g.f("MOVQ list-24(SP), R10")
	g.f("MOVQ %d(R10), R9", jobA)
	g.f("MOVQ %d(R10), R15", jobBlocks)
	g.f("MOVQ %d(R10), AX", jobC)
	g.f("MOVQ AX, out-48(SP)")
	g.f("MOVQ $0, init-56(SP)") // bytes from the first block
	g.f("MOVQ $0, b-64(SP)")
	g.label(block)
	g.f("MOVQ list-24(SP), R10")
	g.f("MOVQ %d(R10), BX", jobB)
	g.f("MOVQ %d(R10), DX", jobB2)
	g.f("ADDQ b-64(SP), BX")
	g.f("ADDQ b-64(SP), DX")
	k.turn()
	g.f("MOVQ list-24(SP), R10")
	g.f("MOVQ %d(R10), R14", jobStepsK)
	g.f("MOVQ %d(R10), BX", jobB)
	g.f("MOVQ %d(R10), DX", jobB2)
	g.f("MOVQ b-64(SP), AX")
	g.f("LEAQ 2048(BX)(AX*1), BX")
	g.f("LEAQ 2048(DX)(AX*1), DX")
	g.f("LEAQ 2048(R9), SI")
	g.f("LEAQ 3072(R9), DI")
	g.f("DECQ R14")
	g.f("MOVQ R14, steps-72(SP)")
	g.f("JZ %s", last)
	g.f("XORQ R13, R13")
	g.tileSteps(func() { k.load(act) }, func() {
		// As many rows in each step as finish all of them in the last.
		g.f("MOVQ left-40(SP), R10")
		g.f("TESTQ R10, R10")
		g.f("JZ %s", skip)
		g.f("ADDQ $%d, R13", 32/unit)
		g.label(part)
		g.f("CMPQ R13, steps-72(SP)")
		g.f("JLT %s", finished)
		g.f("SUBQ steps-72(SP), R13")
		k.rows(act, glu, unit)
		g.f("SUBQ $%d, R10", unit)
		g.f("JNZ %s", part)
		g.label(finished)
		g.f("MOVQ R10, left-40(SP)")
		g.label(skip)
	})
	g.label(last)
	g.f("MOVQ left-40(SP), R10")
	k.rest(act, glu, unit)
	g.f("MOVQ out-48(SP), R12")
	g.f("MOVQ $32, left-40(SP)") // from now on they are this block's, on its tiles
	g.f("ADDQ %d(R8), R9", atNextA)
	for _, x := range []struct {
		by   int
		what string
	}{{atNextB, "b-64(SP)"}, {atNextC, "out-48(SP)"}, {atNextInit, "init-56(SP)"}} {
		g.f("MOVQ %d(R8), AX", x.by)
		g.f("ADDQ AX, %s", x.what)
	}
	g.f("DECQ R15")
	g.f("JNZ %s", block)
	g.f("ADDQ $%d, list-24(SP)", jobSize)
	g.f("DECQ count-32(SP)")
	g.f("JNZ %s", job)
	k.buffer()
	for t := range byte(4) {
		k.store(t)
	}
	g.tilerelease()
	g.f("MOVQ left-40(SP), R10")
	k.rest(act, glu, unit)
	g.ret()

	name = fmt.Sprintf("rows%s%s", kind, act.name)
	g.text(name, name+"(t *tileArgs, rows int)", 16, 16)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	k.load(act)
	g.f("MOVQ %d(R8), R11", atTiles)
	g.f("MOVQ %d(R8), R12", atOut)
	g.f("MOVQ rows+8(FP), R10")
	k.rest(act, glu, unit)
	k.rest(act, glu, 1)
	g.ret()
}

// buffer leaves in R11 and SI where the tiles of the block before go: the buffer
// that the one before that did not use. AX is their stride.
func (k *outKernel) buffer() {
	k.f("MOVQ turn-80(SP), R11")
	k.f("XORQ $4096, R11")
	k.f("ANDQ $4096, R11")
	k.f("MOVQ R11, turn-80(SP)")
	k.f("ADDQ %d(R8), R11", atTiles)
	k.f("MOVQ R11, SI")
	k.f("MOVQ $128, AX")
}

// store stores a tile into the buffer.
func (k *outKernel) store(t byte) {
	k.tilestore(t, rSI, rAX, int32(t/2)*2048+int32(t%2)*64)
}

// turn is the first step of a block: A at R9, the tiles of columns at BX and DX,
// the job at R10, which says what C starts from, one row for all. AX, BX, DX, SI,
// DI and R10 are lost, and R11 becomes the buffer of the block before, where
// there is one.
func (k *outKernel) turn() {
	load := func() {
		k.f("MOVQ R9, SI")
		k.tileload(6, rBX, rCX, 0)
		k.tilepass(4, rSI, rCX, 0)
		k.tileload(7, rDX, rCX, 0)
		k.tilepass(5, rSI, rCX, 1024)
	}
	biased := func() {
		k.f("MOVQ %d(R10), BX", jobInit)
		k.f("MOVQ %d(R10), DI", jobInit2)
		k.f("ADDQ init-56(SP), BX")
		k.f("ADDQ init-56(SP), DI")
		k.f("XORQ DX, DX")
	}
	bias := func(t byte) { k.tileload(t, []byte{rBX, rDI}[t%2], rDX, 0) }
	zero, first, end := k.fresh("zero"), k.fresh("first"), k.fresh("end")
	k.f("CMPQ left-40(SP), $0")
	k.f("JEQ %s", first)
	k.f("CMPQ %d(R10), $0", jobInit)
	k.f("JEQ %s", zero)
	k.tileTurn(func() { load(); biased(); k.buffer() }, k.store, bias)
	k.f("JMP %s", end)
	k.label(zero)
	k.tileTurn(func() { load(); k.buffer() }, k.store, k.tilezero)
	k.f("JMP %s", end)
	k.label(first)
	zero = k.fresh("zero")
	k.f("CMPQ %d(R10), $0", jobInit)
	k.f("JEQ %s", zero)
	k.tileTurn(func() { load(); biased() }, nil, bias)
	k.f("JMP %s", end)
	k.label(zero)
	k.tileTurn(load, nil, k.tilezero)
	k.label(end)
}

func (k *outKernel) load(act outAct) {
	for _, c := range act.consts {
		k.f("VMOVUPS %s, Z%d", k.c(c), k.hold(c))
	}
}

// rows finishes n rows: from (R11), 32 values each, to (R12), where rows lie 64
// bytes apart.
func (k *outKernel) rows(act outAct, glu bool, n int) {
	chains := 2 * n
	if glu {
		chains = n
	}
	var bodies []func()
	for c := range chains {
		at := 64 * c
		if glu {
			at = 128 * c
		}
		k.f("VMOVUPS %d(R11), Z%d", at, c)
		bodies = append(bodies, func() { act.body(k, c, chains+3*c) })
	}
	k.weave(bodies...)
	for r := range byte(n) {
		if glu {
			k.f("VMULPS %d(R11), Z%d, Z%d", 128*int(r)+64, r, r)
			k.cvtne(r, r)
			k.f("VMOVDQU Y%d, %d(R12)", r, 64*int(r))
		} else {
			k.cvtne2(2*r, 2*r+1, 2*r)
			k.f("VMOVDQU64 Z%d, %d(R12)", 2*r, 64*int(r))
		}
	}
	k.f("ADDQ $%d, R11", 128*n)
	k.f("ADDQ $%d, R12", 64*n)
}

// rest finishes the R10 rows that are left, n at a time; fewer than n are left
// then.
func (k *outKernel) rest(act outAct, glu bool, n int) {
	loop, done := k.fresh("rest"), k.fresh("done")
	k.f("CMPQ R10, $%d", n)
	k.f("JLT %s", done)
	k.label(loop)
	k.rows(act, glu, n)
	k.f("SUBQ $%d, R10", n)
	k.f("CMPQ R10, $%d", n)
	k.f("JGE %s", loop)
	k.label(done)
}
