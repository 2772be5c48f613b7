package main

// adamwDecl is the Go declaration of a step of AdamW; n is a multiple of the
// lanes, and h points at nine scalars.
func adamwDecl(name string) string { return name + "(w, m, v, dw *float32, n int, h *AdamWStep)" }

const adamwArgs = 48

// Registers of the scalars, in the order of AdamWStep.
const (
	awClip = iota
	awBeta1
	awRest1
	awBeta2
	awRest2
	awKeep
	awStep
	awRoot
	awEps
	awScalars
)

// adamw updates weights and moments in one pass. Products and sums are rounded
// one by one, as its twin in Go does, so that all tiers give the same bits; the
// time goes to memory and to the root and the division anyway.
func (k *vkernel) adamw() {
	name := "adamw" + k.name
	k.text(name, adamwDecl(name), 16, adamwArgs)
	k.ftz()
	k.f("MOVQ w+0(FP), DI")
	k.f("MOVQ m+8(FP), SI")
	k.f("MOVQ v+16(FP), BX")
	k.f("MOVQ dw+24(FP), DX")
	k.f("MOVQ n+32(FP), CX")
	k.f("MOVQ h+40(FP), R8")
	for s := range awScalars {
		k.f("VBROADCASTSS %d(R8), %s", 4*s, k.v(s))
	}
	const g, m, v, t = awScalars, awScalars + 1, awScalars + 2, awScalars + 3
	loop := k.fresh("loop")
	k.label(loop)
	k.op("VMULPS", "(DX)", awClip, g)
	k.op("VMULPS", "(SI)", awBeta1, m)
	k.op("VMULPS", g, awRest1, t)
	k.op("VADDPS", t, m, m)
	k.op("VMOVUPS", m, "(SI)")
	k.op("VMULPS", g, awRest2, t)
	k.op("VMULPS", g, t, t)
	k.op("VMULPS", "(BX)", awBeta2, v)
	k.op("VADDPS", t, v, v)
	k.op("VMOVUPS", v, "(BX)")
	k.op("VSQRTPS", v, v)
	k.op("VMULPS", awRoot, v, v)
	k.op("VADDPS", awEps, v, v)
	k.op("VMULPS", awStep, m, m)
	k.op("VDIVPS", v, m, m)
	k.op("VMULPS", "(DI)", awKeep, t)
	k.op("VSUBPS", m, t, t)
	k.op("VMOVUPS", t, "(DI)")
	for _, p := range []string{"DI", "SI", "BX", "DX"} {
		k.f("ADDQ $%d, %s", k.width(), p)
	}
	k.f("SUBQ $%d, CX", k.lanes)
	k.f("JNZ %s", loop)
	k.ret()
}

// adamw is the same for NEON.
func (k *nasm) adamw() {
	const name = "adamwNEON"
	k.text(name, adamwDecl(name), 0, adamwArgs)
	k.f("MOVD w+0(FP), R0")
	k.f("MOVD m+8(FP), R1")
	k.f("MOVD v+16(FP), R2")
	k.f("MOVD dw+24(FP), R3")
	k.f("MOVD n+32(FP), R4")
	k.f("MOVD h+40(FP), R5")
	for s := range awScalars {
		k.f("FMOVS %d(R5), F%d", 4*s, s)
		k.lane(s, s, 0)
	}
	const g, m, v, t, w = awScalars, awScalars + 1, awScalars + 2, awScalars + 3, awScalars + 4
	loop := k.fresh("loop")
	k.label(loop)
	k.load(w, "R0", 0)
	k.load(m, "R1", 0)
	k.load(v, "R2", 0)
	k.load(g, "R3", 0)
	k.v("FMUL.4S", g, g, awClip)
	k.v("FMUL.4S", m, m, awBeta1)
	k.v("FMUL.4S", t, g, awRest1)
	k.v("FADD.4S", m, m, t)
	k.store(m, "R1", 0)
	k.v("FMUL.4S", t, g, awRest2)
	k.v("FMUL.4S", t, t, g)
	k.v("FMUL.4S", v, v, awBeta2)
	k.v("FADD.4S", v, v, t)
	k.store(v, "R2", 0)
	k.v("FSQRT.4S", v, v)
	k.v("FMUL.4S", v, v, awRoot)
	k.v("FADD.4S", v, v, awEps)
	k.v("FMUL.4S", m, m, awStep)
	k.v("FDIV.4S", m, m, v)
	k.v("FMUL.4S", w, w, awKeep)
	k.v("FSUB.4S", w, w, m)
	k.store(w, "R0", 0)
	for r := range 4 {
		k.f("ADD $16, R%d", r)
	}
	k.f("SUBS $4, R4, R4")
	k.f("BNE %s", loop)
	k.f("RET")
}
