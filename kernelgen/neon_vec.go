package main

import (
	"math"
	"slices"
)

func f32bits(x float32) uint32 { return math.Float32bits(x) }

// neonBody is the body of an elementwise for NEON, by the same contract, and
// the number of registers that it uses from tmp on.
type neonBody struct {
	tmps int
	emit func(k *nasm, in, scalar []int, tmp int) int
}

// neonBodies follow the same steps as the other bodies, so that tiers agree to
// the last digits.
var neonBodies = map[string]neonBody{
	"add": {0, func(k *nasm, in, _ []int, _ int) int { k.v("FADD.4S", in[0], in[0], in[1]); return in[0] }},
	"mul": {0, func(k *nasm, in, _ []int, _ int) int { k.v("FMUL.4S", in[0], in[0], in[1]); return in[0] }},
	"scale": {0, func(k *nasm, in, scalar []int, _ int) int {
		k.v("FMUL.4S", in[0], in[0], scalar[0])
		return in[0]
	}},
	"axpy": {0, func(k *nasm, in, scalar []int, _ int) int {
		k.v("FMLA.4S", in[1], in[0], scalar[0])
		return in[1]
	}},
	"norm": {0, func(k *nasm, in, scalar []int, _ int) int {
		k.v("FSUB.4S", in[0], in[0], scalar[0])
		k.v("FMUL.4S", in[0], in[0], scalar[1])
		k.v("FMUL.4S", in[0], in[0], in[1])
		return in[0]
	}},
	"normBias": {0, func(k *nasm, in, scalar []int, _ int) int {
		k.v("FSUB.4S", in[0], in[0], scalar[0])
		k.v("FMUL.4S", in[0], in[0], scalar[1])
		k.v("FMLA.4S", in[2], in[0], in[1])
		return in[2]
	}},
	"normGrad": {0, func(k *nasm, in, scalar []int, _ int) int {
		k.v("FSUB.4S", in[1], in[1], scalar[0])
		k.v("FSUB.4S", in[0], in[0], scalar[2])
		k.v("FMLS.4S", in[0], in[1], scalar[3])
		k.v("FMUL.4S", in[0], in[0], scalar[1])
		return in[0]
	}},
	"normWeightGrad": {0, func(k *nasm, in, scalar []int, _ int) int {
		k.v("FSUB.4S", in[1], in[1], scalar[0])
		k.v("FMUL.4S", in[1], in[1], scalar[1])
		k.v("FMLA.4S", in[2], in[0], in[1])
		return in[2]
	}},
	"exp": {4, func(k *nasm, in, scalar []int, tmp int) int {
		k.v("FSUB.4S", in[0], in[0], scalar[0])
		return k.exp(in[0], tmp)
	}},
	"silu": {5, func(k *nasm, in, _ []int, tmp int) int {
		s := k.sigmoid(in[0], tmp)
		k.v("FMUL.4S", s, s, in[0])
		return s
	}},
	"siluMul": {5, func(k *nasm, in, _ []int, tmp int) int {
		s := k.sigmoid(in[0], tmp)
		k.v("FMUL.4S", s, s, in[0])
		k.v("FMUL.4S", s, s, in[1])
		return s
	}},
	"siluGrad": {5, func(k *nasm, in, _ []int, tmp int) int {
		s := k.sigmoid(in[1], tmp) // s(1 + x(1-s))
		t, one := tmp, tmp+1
		k.c(t, 1)
		k.v("MOV.16B", one, t)
		k.v("FSUB.4S", t, t, s)
		k.v("FMLA.4S", one, t, in[1])
		k.v("FMUL.4S", s, s, one)
		k.v("FMUL.4S", s, s, in[0])
		return s
	}},
	"tanh": {5, func(k *nasm, in, _ []int, tmp int) int {
		k.v("FADD.4S", in[0], in[0], in[0])
		s := k.sigmoid(in[0], tmp) // tanh(x) = 2 sigmoid(2x) - 1
		k.v("FADD.4S", s, s, s)
		k.c(in[0], 1)
		k.v("FSUB.4S", s, s, in[0])
		return s
	}},
	"geluTanh": {6, func(k *nasm, in, _ []int, tmp int) int {
		k.tanhArg(in[0], tmp, tmp+1)
		s := k.sigmoid(tmp, tmp+1)
		k.v("FMUL.4S", s, s, in[0])
		return s
	}},
	"geluTanhMul": {6, func(k *nasm, in, _ []int, tmp int) int {
		k.tanhArg(in[0], tmp, tmp+1)
		s := k.sigmoid(tmp, tmp+1)
		k.v("FMUL.4S", s, s, in[0])
		k.v("FMUL.4S", s, s, in[1])
		return s
	}},
	"geluTanhGrad": {6, func(k *nasm, in, _ []int, tmp int) int {
		// With s = sigmoid(v): s + x s (1-s) v'.
		k.tanhArg(in[1], tmp, tmp+1)
		s := k.sigmoid(tmp, tmp+1)
		t, d, c := tmp+1, tmp+2, tmp
		k.v("FMUL.4S", d, in[1], in[1])
		k.c(c, 3*tanhCube)
		k.v("FMUL.4S", d, d, c)
		k.c(c, tanhLin)
		k.v("FADD.4S", d, d, c)
		k.v("FMUL.4S", d, d, in[1])
		k.c(t, 1)
		k.v("FSUB.4S", t, t, s)
		k.v("FMUL.4S", t, t, d)
		k.v("MOV.16B", d, s)
		k.v("FMLA.4S", d, s, t)
		k.v("FMUL.4S", d, d, in[0])
		return d
	}},
	"gelu": {6, func(k *nasm, in, _ []int, tmp int) int { return k.gelu(in[0], tmp) }},
	"geluMul": {6, func(k *nasm, in, _ []int, tmp int) int {
		g := k.gelu(in[0], tmp)
		k.v("FMUL.4S", g, g, in[1])
		return g
	}},
	"geluGrad": {6, func(k *nasm, in, _ []int, tmp int) int {
		// Phi(x) + x phi(x), Phi from the tail q: q or 1-q.
		q, e := k.tail(in[1], tmp)
		t, sign := tmp, tmp+1
		k.c(t, 1)
		k.v("FSUB.4S", t, t, q)
		k.v("CMLT0.4S", sign, in[1])
		k.v("BIT.16B", t, q, sign)
		k.c(q, float32(1/math.Sqrt(2*math.Pi)))
		k.v("FMUL.4S", e, e, q)
		k.v("FMLA.4S", t, in[1], e)
		k.v("FMUL.4S", t, t, in[0])
		return t
	}},
}

// exp leaves e^x in tmp+2 and uses tmp to tmp+3; x is lost. NaN stays NaN,
// results below the normal range are 0.
func (k *nasm) exp(x, tmp int) int {
	r, t, n, c := tmp, tmp+1, tmp+2, tmp+3
	k.c(c, expHigh)
	k.v("FMIN.4S", x, x, c)
	k.c(t, expRound)
	k.c(c, float32(math.Log2E))
	k.v("FMLA.4S", t, x, c) // its low bits hold the exponent
	k.c(c, expRound)
	k.v("FSUB.4S", n, t, c)
	k.v("MOV.16B", r, x)
	k.c(c, ln2High)
	k.v("FMLS.4S", r, n, c)
	k.c(c, ln2Low)
	k.v("FMLS.4S", r, n, c)
	// e^r = 1 + r + r² poly(r).
	p := k.poly(expPoly, r, n, c)
	k.v("FMUL.4S", p, p, r)
	k.v("FMLA.4S", r, p, r)
	k.c(c, 1)
	k.v("FADD.4S", n, r, c)
	k.bits(c, 126) // 2^(n-1) and a doubling reach 2^128
	k.v("ADD.4S", t, t, c)
	k.shl(t, t, 23)
	k.v("FMUL.4S", n, n, t)
	k.v("FADD.4S", n, n, n)
	k.c(c, expLow)
	k.v("FCMGT.4S", c, c, x)
	k.v("BIC.16B", n, n, c)
	return n
}

// poly is Horner's rule, the highest coefficient first, in a and b by turns;
// it says which holds the result.
func (k *nasm) poly(coefs []float32, x, a, b int) int {
	k.c(a, coefs[0])
	for _, c := range coefs[1:] {
		k.c(b, c)
		k.v("FMLA.4S", b, a, x)
		a, b = b, a
	}
	return a
}

// sigmoid leaves 1/(1+e^-x) in tmp+2 and uses tmp to tmp+4; x is kept.
func (k *nasm) sigmoid(x, tmp int) int {
	arg := tmp + 4
	k.v("FNEG.4S", arg, x)
	e := k.exp(arg, tmp)
	k.c(tmp, 1)
	k.v("FADD.4S", e, e, tmp)
	k.v("FDIV.4S", e, tmp, e)
	return e
}

// tanhArg leaves 2·sqrt(2/pi)·(x + 0.044715x³) in dst: tanh(u) is
// 2·sigmoid(2u)-1.
func (k *nasm) tanhArg(x, dst, c int) {
	k.v("FMUL.4S", dst, x, x)
	k.c(c, tanhCube)
	k.v("FMUL.4S", dst, dst, c)
	k.c(c, tanhLin)
	k.v("FADD.4S", dst, dst, c)
	k.v("FMUL.4S", dst, dst, x)
}

// tail leaves the normal distribution's tail Q(|x|) in q and e^(-x²/2) in e
// and uses tmp to tmp+5; x is kept.
func (k *nasm) tail(x, tmp int) (q, e int) {
	arg, lo := tmp+4, tmp+5
	// x² in two parts: e^-x² would lose the digits that x² cannot hold.
	k.v("FMUL.4S", arg, x, x)
	k.v("MOV.16B", lo, arg)
	k.v("FMLS.4S", lo, x, x) // what rounding took from x², negative
	k.c(tmp, 0.5)
	k.v("FMUL.4S", lo, lo, tmp)
	k.c(tmp, -0.5)
	k.v("FMUL.4S", arg, arg, tmp)
	e = k.exp(arg, tmp)
	k.v("FMLA.4S", e, e, lo)
	one, t, a := tmp, tmp+1, tmp+3
	k.v("FABS.4S", a, x)
	k.c(one, tailRate)
	k.v("FMUL.4S", a, a, one)
	k.c(one, 1)
	k.v("FADD.4S", a, a, one)
	k.v("FDIV.4S", t, one, a)
	down := slices.Clone(tailPoly)
	slices.Reverse(down)
	q = k.poly(down, t, tmp+3, tmp+4)
	k.v("FMUL.4S", q, q, t)
	k.v("FMUL.4S", q, q, e)
	return q, e
}

// gelu leaves x·Phi(x) in the register it returns: x·Q below zero, x - x·Q
// above, so that neither side loses digits.
func (k *nasm) gelu(x, tmp int) int {
	q, _ := k.tail(x, tmp)
	y, sign := tmp+5, tmp
	k.v("FMUL.4S", q, q, x)
	k.v("FSUB.4S", y, x, q)
	k.v("CMLT0.4S", sign, x)
	k.v("BIT.16B", y, q, sign)
	return y
}

func genVecNEON(g *asm) {
	k := &nasm{asm: g, pool: &npool{}}
	for _, e := range elementwises {
		k.elementwise(e)
	}
	for _, r := range reductions {
		k.reduction(r)
	}
	k.adamw()
	k.rope("ropeSplitNEON", false)
	k.rope("ropePairsNEON", true)
	k.toF16()
	k.pool.write(g)
}

var neonPointers = []string{"R1", "R2", "R3"}

// scalar broadcasts an argument.
func (k *nasm) scalar(d int, name string, off int) {
	k.f("FMOVS %s+%d(FP), F%d", name, off, d)
	k.lane(d, d, 0)
}

func (k *nasm) elementwise(e elementwise) {
	body, ok := neonBodies[e.name]
	if !ok {
		panic("no NEON body for " + e.name)
	}
	name := e.name + neon.name
	decl, size := e.decl(name)
	k.text(name, decl, 0, size)
	k.usePool()
	k.f("MOVD dst+0(FP), R0")
	for n, s := range e.in {
		k.f("MOVD %s+%d(FP), %s", s, 8*n+8, neonPointers[n])
	}
	off := 8 * (len(e.in) + 1)
	k.f("MOVD n+%d(FP), R4", off)
	next := 0
	var scalar []int
	for n, s := range e.scalars {
		k.scalar(next, s, off+8+4*n)
		scalar = append(scalar, next)
		next++
	}
	total := next
	if e.sum {
		k.zero(total)
		next++
	}
	perSlot := len(e.in) + body.tmps
	if e.dst {
		perSlot++
	}
	unroll := 4
	for next+unroll*perSlot > 32 {
		unroll /= 2
	}
	round := func(u int) {
		slots := make([]string, u)
		for o := range u {
			v := &nasm{asm: &asm{}, pool: k.pool}
			base := next + o*perSlot
			var in []int
			for n := range e.in {
				v.load(base+n, neonPointers[n], 16*o)
				in = append(in, base+n)
			}
			if e.dst {
				v.load(base+len(in), "R0", 16*o)
				in = append(in, base+len(in))
			}
			out := body.emit(v, in, scalar, base+len(in))
			if e.sum {
				v.v("FADD.4S", total, total, out)
			}
			v.store(out, "R0", 16*o)
			slots[o] = v.String()
		}
		k.interleave(slots)
		k.f("ADD $%d, R0", 16*u)
		for n := range e.in {
			k.f("ADD $%d, %s", 16*u, neonPointers[n])
		}
	}
	k.rounds(unroll, round)
	if e.sum {
		k.fold("FADDP.4S", total)
		k.f("FMOVS F%d, sum+%d(FP)", total, size-4)
	}
	k.f("RET")
}

// rounds walks R4 values: several vectors at a time, then one.
func (k *nasm) rounds(unroll int, round func(u int)) {
	one, loop, done := k.fresh("one"), k.fresh("loop"), k.fresh("done")
	if unroll > 1 {
		k.f("CMP $%d, R4", 4*unroll)
		k.f("BLT %s", one)
		k.label(loop)
		round(unroll)
		k.f("SUB $%d, R4", 4*unroll)
		k.f("CMP $%d, R4", 4*unroll)
		k.f("BGE %s", loop)
	}
	k.label(one)
	k.f("CMP $4, R4")
	k.f("BLT %s", done)
	round(1)
	k.f("SUB $4, R4")
	k.f("JMP %s", one)
	k.label(done)
}

// fold combines the lanes of r and leaves the result in lane 0.
func (k *nasm) fold(pairs string, r int) {
	k.v(pairs, r, r, r)
	k.v(pairs, r, r, r)
}

// neonSteps are the steps of reductions for NEON.
var neonSteps = map[string]func(k *nasm, in, scalar []int, acc int){
	"sum":        func(k *nasm, in, _ []int, acc int) { k.v("FADD.4S", acc, acc, in[0]) },
	"sumSquares": func(k *nasm, in, _ []int, acc int) { k.v("FMLA.4S", acc, in[0], in[0]) },
	"sumSquaresFrom": func(k *nasm, in, s []int, acc int) {
		k.v("FSUB.4S", in[0], in[0], s[0])
		k.v("FMLA.4S", acc, in[0], in[0])
	},
	"dot": func(k *nasm, in, _ []int, acc int) { k.v("FMLA.4S", acc, in[0], in[1]) },
	"dotFrom": func(k *nasm, in, s []int, acc int) {
		k.v("FSUB.4S", in[1], in[1], s[0])
		k.v("FMLA.4S", acc, in[0], in[1])
	},
	"max": func(k *nasm, in, _ []int, acc int) { k.v("FMAXNM.4S", acc, acc, in[0]) },
}

func (k *nasm) reduction(r reduction) {
	step, ok := neonSteps[r.name]
	if !ok {
		panic("no NEON step for " + r.name)
	}
	combine, pairs := "FADD.4S", "FADDP.4S"
	if r.combine == "VMAXPS" {
		combine, pairs = "FMAXNM.4S", "FMAXNMP.4S"
	}
	name := r.name + neon.name
	decl, size := r.decl(name)
	k.text(name, decl, 0, size)
	k.usePool()
	for n, s := range r.in {
		k.f("MOVD %s+%d(FP), %s", s, 8*n, neonPointers[n])
	}
	k.f("MOVD n+%d(FP), R4", 8*len(r.in))
	const acc, first = 0, 8
	var scalar []int
	for n, s := range r.scalars {
		k.scalar(4+n, s, 8*len(r.in)+8+4*n)
		scalar = append(scalar, 4+n)
	}
	for n := range 4 {
		if r.combine == "VMAXPS" {
			k.c(acc+n, float32(math.Inf(-1)))
		} else {
			k.zero(acc + n)
		}
	}
	k.rounds(4, func(u int) {
		for o := range u {
			var in []int
			for n := range r.in {
				reg := first + o*len(r.in) + n
				k.load(reg, neonPointers[n], 16*o)
				in = append(in, reg)
			}
			step(k, in, scalar, acc+o)
		}
		for n := range r.in {
			k.f("ADD $%d, %s", 16*u, neonPointers[n])
		}
	})
	k.v(combine, acc, acc, acc+1)
	k.v(combine, acc+2, acc+2, acc+3)
	k.v(combine, acc, acc, acc+2)
	k.fold(pairs, acc)
	k.f("FMOVS F%d, ret+%d(FP)", acc, size-4)
	k.f("RET")
}

// rope rotates one head; half is a multiple of 4.
func (k *nasm) rope(name string, pairs bool) {
	k.text(name, name+"(x, cos, sin *float32, half int, sign uint32)", 0, 36)
	k.f("MOVD x+0(FP), R0")
	k.f("MOVD cos+8(FP), R1")
	k.f("MOVD sin+16(FP), R2")
	k.f("MOVD half+24(FP), R4")
	k.scalar(7, "sign", 32)
	if !pairs {
		k.f("ADD R4<<2, R0, R3")
	}
	loop := k.fresh("loop")
	k.label(loop)
	if pairs {
		k.f("VLD2 (R0), [V0.S4, V1.S4]")
	} else {
		k.load(0, "R0", 0)
		k.load(1, "R3", 0)
	}
	k.load(2, "R1", 0)
	k.load(3, "R2", 0)
	k.v("EOR.16B", 3, 3, 7)
	k.v("FMUL.4S", 4, 0, 2)
	k.v("FMUL.4S", 5, 1, 2)
	k.v("FMLS.4S", 4, 1, 3) // a·c - b·s
	k.v("FMLA.4S", 5, 0, 3) // b·c + a·s
	if pairs {
		k.f("VST2 [V4.S4, V5.S4], (R0)")
		k.f("ADD $32, R0")
	} else {
		k.store(4, "R0", 0)
		k.store(5, "R3", 0)
		k.f("ADD $16, R0")
		k.f("ADD $16, R3")
	}
	k.f("ADD $16, R1")
	k.f("ADD $16, R2")
	k.f("SUBS $4, R4, R4")
	k.f("BNE %s", loop)
	k.f("RET")
}

// toF16 rounds to half floats, n a multiple of 8.
func (k *nasm) toF16() {
	k.text("toF16NEON", "toF16NEON(dst *byte, src *float32, n int)", 0, 24)
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD src+8(FP), R1")
	k.f("MOVD n+16(FP), R4")
	loop := k.fresh("loop")
	k.label(loop)
	k.load(0, "R1", 0)
	k.load(1, "R1", 16)
	k.v("FCVTN.4H4S", 2, 0)
	k.v("FCVTN2.8H4S", 2, 1)
	k.store(2, "R0", 0)
	k.f("ADD $32, R1")
	k.f("ADD $16, R0")
	k.f("SUBS $8, R4, R4")
	k.f("BNE %s", loop)
	k.f("RET")
}
