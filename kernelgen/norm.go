package main

// Norms of rows on machines with tiles: a sum before them, another norm before
// that, and rounding behind them are passes over a row that stays in L1, and
// the next row is on its way meanwhile. Every f32 is that of the kernels of vec
// one after the other: sums have the same four accumulators.

// normKernel is one of the kinds of norms.
type normKernel struct {
	name  string
	layer bool // the mean is taken off, and a bias added
	add   bool // of a sum
	pre   bool // whose second part is normed first
}

var normKernels = []normKernel{
	{name: "normRowsRMS"},
	{name: "normRowsRMSAdd", add: true},
	{name: "normRowsRMSNormAdd", add: true, pre: true},
	{name: "normRowsLayer", layer: true},
	{name: "normRowsLayerAdd", layer: true, add: true},
}

// Offsets in normArgs.
const (
	normX, normAdd, normSum, normY, normHalf            = 0, 8, 16, 24, 32
	normW, normBias, normPre                            = 40, 48, 56
	normStrideSum, normStrideY, normStepHalf, normBytes = 64, 72, 80, 88
	normRows, normEps, normPreEps, normCount, normLast  = 96, 104, 112, 120, 128
)

func genNorms(g *asm) {
	for _, n := range normKernels {
		n.gen(&vkernel{asm: g, isa: avx512, consts: &constants{}})
	}
}

func (n *normKernel) gen(k *vkernel) {
	k.text(n.name, n.name+"(t *normArgs)", 16, 8)
	k.ftz()
	k.f("MOVQ t+0(FP), R13")
	for _, r := range []struct {
		at  int
		reg string
	}{{normX, "SI"}, {normAdd, "BX"}, {normSum, "DX"}, {normY, "DI"}, {normHalf, "R8"}, {normW, "R9"}, {normBias, "R10"}, {normPre, "R11"}, {normBytes, "R12"}} {
		k.f("MOVQ %d(R13), %s", r.at, r.reg)
	}
	row, rounded, both, next := k.fresh("row"), k.fresh("rounded"), k.fresh("both"), k.fresh("next")
	source := "DX" // what is normed
	k.label(row)
	if !n.add {
		source = "SI"
	}
	// A pass prefetches what comes next, from reg on: the next row of what it reads. After
	// the task's last row there is none; then it is what a later pass reads.
	prefetch := func(reg, reads, last string) {
		k.f("MOVQ %d(R13), %s", normRows, reg)
		k.f("CMPQ %s, %d(R13)", reg, normLast)
		k.f("LEAQ (%s)(R12*1), %s", reads, reg)
		k.f("CMOVQEQ %s, %s", last, reg)
	}
	if n.pre {
		prefetch("AX", "BX", "SI")
		k.pass(func(o int) {
			k.f("PREFETCHT0 %d(AX)(CX*1)", 64*o)
			k.f("VMOVUPS %d(BX)(CX*1), Z%d", 64*o, 4+o)
			k.f("VFMADD231PS Z%d, Z%d, Z%d", 4+o, 4+o, o)
		})
		k.factor(normPreEps)
	}
	prefetch("AX", "SI", "R9")
	alone := n.add && !n.pre && !n.layer // there is no other pass to ask for both operands in
	if alone {
		prefetch("R11", "BX", "R9")
	}
	k.pass(func(o int) {
		at := 64 * o
		k.f("PREFETCHT0 %d(AX)(CX*1)", at)
		if alone {
			k.f("PREFETCHT0 %d(R11)(CX*1)", at)
		}
		switch {
		case n.pre:
			k.f("VMULPS %d(BX)(CX*1), Z9, Z%d", at, 4+o)
			k.f("VMULPS %d(R11)(CX*1), Z%d, Z%d", at, 4+o, 4+o)
			k.f("VADDPS %d(SI)(CX*1), Z%d, Z%d", at, 4+o, 4+o)
		case n.add:
			k.f("VMOVUPS %d(SI)(CX*1), Z%d", at, 4+o)
			k.f("VADDPS %d(BX)(CX*1), Z%d, Z%d", at, 4+o, 4+o)
		default:
			k.f("VMOVUPS %d(SI)(CX*1), Z%d", at, 4+o)
		}
		if n.add {
			k.f("VMOVUPS Z%d, %d(DX)(CX*1)", 4+o, at)
		}
		if n.layer {
			k.f("VADDPS Z%d, Z%d, Z%d", 4+o, o, o)
		} else {
			k.f("VFMADD231PS Z%d, Z%d, Z%d", 4+o, 4+o, o)
		}
	})
	if n.layer {
		k.folded()
		k.f("VCVTSD2SS %d(R13), X1, X1", normCount)
		k.f("VDIVSS X1, X0, X0")
		k.f("VBROADCASTSS X0, Z8")
		if n.add {
			prefetch("AX", "BX", "R10")
		}
		k.pass(func(o int) {
			if n.add {
				k.f("PREFETCHT0 %d(AX)(CX*1)", 64*o)
			}
			k.f("VMOVUPS %d(%s)(CX*1), Z%d", 64*o, source, 4+o)
			k.f("VSUBPS Z8, Z%d, Z%d", 4+o, 4+o)
			k.f("VFMADD231PS Z%d, Z%d, Z%d", 4+o, 4+o, o)
		})
	}
	k.factor(normEps)
	k.f("XORQ CX, CX")
	k.f("MOVQ R8, AX")
	k.f("TESTQ R8, R8")
	k.f("JZ %s", both+"f")
	k.f("CMPQ %d(R13), $0", normStrideY)
	k.f("JNE %s", both)
	k.label(rounded)
	n.out(k, source, false, true, rounded)
	k.f("JMP %s", next)
	k.label(both)
	n.out(k, source, true, true, both)
	k.f("JMP %s", next)
	k.label(both + "f")
	n.out(k, source, true, false, both+"f")
	k.label(next)
	k.f("ADDQ R12, SI")
	k.f("ADDQ R12, BX")
	k.f("ADDQ %d(R13), DX", normStrideSum)
	k.f("ADDQ %d(R13), DI", normStrideY)
	k.f("LEAQ 64(R8), AX")
	k.f("TESTQ R8, R8")
	k.f("CMOVQNE AX, R8")
	k.f("DECQ %d(R13)", normRows)
	k.f("JNZ %s", row)
	k.ret()
}

// pass walks over a row with four accumulators, which begin as 0; body gets
// which of them it adds to, and has Z4 to Z7 and CX, bytes.
func (k *vkernel) pass(body func(o int)) {
	for o := range 4 {
		k.zero(avx512, o)
	}
	k.f("XORQ CX, CX")
	loop := k.fresh("pass")
	k.label(loop)
	k.weave(func() { body(0) }, func() { body(1) }, func() { body(2) }, func() { body(3) })
	k.f("ADDQ $256, CX")
	k.f("CMPQ CX, R12")
	k.f("JLT %s", loop)
}

// folded leaves the sum of the accumulators in X0.
func (k *vkernel) folded() {
	k.f("VADDPS Z1, Z0, Z0")
	k.f("VADDPS Z3, Z2, Z2")
	k.f("VADDPS Z2, Z0, Z0")
	k.fold("VADDPS", 0, 4)
}

// factor makes of the accumulators, which hold squares, what a norm multiplies
// with: Z9 = 1/sqrt(their mean + eps), in f64 up to the end.
func (k *vkernel) factor(eps int) {
	k.folded()
	k.f("VCVTSS2SD X0, X0, X0")
	k.f("VDIVSD %d(R13), X0, X0", normCount)
	k.f("VADDSD %d(R13), X0, X0", eps)
	k.f("VSQRTSD X0, X0, X0")
	k.f("MOVQ $0x3ff0000000000000, AX")
	k.f("VMOVQ AX, X1")
	k.f("VDIVSD X0, X1, X0")
	k.f("VCVTSD2SS X0, X0, X0")
	k.f("VBROADCASTSS X0, Z9")
}

// out writes a row, 32 values a round: in f32, in bf16 or both.
func (n *normKernel) out(k *vkernel, source string, f32, half bool, loop string) {
	k.weave(func() { n.value(k, source, 0) }, func() { n.value(k, source, 1) })
	if f32 {
		k.f("VMOVUPS Z4, (DI)(CX*1)")
		k.f("VMOVUPS Z5, 64(DI)(CX*1)")
	}
	if half {
		k.cvtne2(4, 5, 6)
		k.f("VMOVDQU64 Z6, (AX)")
		k.f("ADDQ %d(R13), AX", normStepHalf)
	}
	k.f("ADDQ $128, CX")
	k.f("CMPQ CX, R12")
	k.f("JLT %s", loop)
}

// value leaves vector o of a round in Z4+o.
func (n *normKernel) value(k *vkernel, source string, o int) {
	at := 64 * o
	if n.layer {
		k.f("VMOVUPS %d(%s)(CX*1), Z%d", at, source, 4+o)
		k.f("VSUBPS Z8, Z%d, Z%d", 4+o, 4+o)
		k.f("VMULPS Z9, Z%d, Z%d", 4+o, 4+o)
		k.f("VMOVUPS %d(R9)(CX*1), Z%d", at, 10+o)
		k.f("VFMADD213PS %d(R10)(CX*1), Z%d, Z%d", at, 10+o, 4+o)
		return
	}
	k.f("VMULPS %d(%s)(CX*1), Z9, Z%d", at, source, 4+o)
	k.f("VMULPS %d(R9)(CX*1), Z%d, Z%d", at, 4+o, 4+o)
}
