package main

import "fmt"

// Offsets in i16's dotArgs.
const (
	i16A       = 0  // codes of the activations, a strip of rows
	i16StrideA = 8  // bytes
	i16W       = 16 // codes of a panel, [K/2][16][2]
	i16WScale  = 24 // [K/32][16]
	i16XScale  = 32 // [K/32][rows of the strip]
	i16C       = 40
	i16StrideC = 48 // bytes
	i16Init    = 56 // [16], what C starts from
	i16Groups  = 64
)

// genI16 writes products of 16-bit codes with one scale per 32 of K: a strip
// of rows times 16 columns.
func genI16(g *asm) {
	c := &constants{}
	genI16YMM(g, "dotAVX2", 4, func(acc, w, x, tmp byte) {
		g.f("VPMADDWD Y%d, Y%d, Y%d", w, x, tmp)
		g.f("VPADDD Y%d, Y%d, Y%d", tmp, acc, acc)
	})
	genI16YMM(g, "dotAVXVNNI", 6, func(acc, w, x, _ byte) { g.vpdpwssdVEX(acc, w, x) })
	genI16ZMM(g)
	genI16Quantize(g, c)
	genI16Widen(g)
	c.write(g)
}

// vpdpwssdVEX is acc += pairs of a · pairs of b on ymm registers, in the
// encoding of processors without AVX-512.
func (g *asm) vpdpwssdVEX(acc, a, b byte) {
	g.bytes(fmt.Sprintf("VPDPWSSD Y%d, Y%d, Y%d (VEX)", b, a, acc),
		0xc4, (^acc>>3&1)<<7|1<<6|(^b>>3&1)<<5|2, (^a&15)<<3|5, 0x52, 0xc0|(acc&7)<<3|b&7)
}

// i16Rows makes pointers to every third row of a strip: row r is at
// base[r/3] + r%3 strides, which are in CX.
func i16Rows(g *asm, mr int) func(r, offset int) string {
	bases := []string{"SI", "R9", "R10", "AX"}
	for b := 1; b < (mr+2)/3; b++ {
		g.f("LEAQ (%s)(CX*2), %s", bases[b-1], bases[b])
		g.f("ADDQ CX, %s", bases[b])
	}
	return func(r, offset int) string {
		s := fmt.Sprintf("%d(%s)", offset, bases[r/3])
		if r%3 > 0 {
			s += fmt.Sprintf("(CX*%d)", r%3)
		}
		return s
	}
}

func i16Open(g *asm, name string) {
	g.text(name, name+"(t *dotArgs)", 16, 8)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ %d(R8), SI", i16A)
	g.f("MOVQ %d(R8), CX", i16StrideA)
	g.f("MOVQ %d(R8), DI", i16W)
	g.f("MOVQ %d(R8), BX", i16WScale)
	g.f("MOVQ %d(R8), R11", i16XScale)
	g.f("MOVQ %d(R8), DX", i16C)
	g.f("MOVQ %d(R8), R12", i16StrideC)
	g.f("MOVQ %d(R8), R13", i16Groups)
	g.f("MOVQ %d(R8), R15", i16Init)
}

// genI16YMM keeps the integer sums of a group in registers and the f32 sums in
// C itself, where they are added to once per group. Registers: 0 to 2mr-1
// sums, then two of weights, one of activations, and what mac needs.
func genI16YMM(g *asm, name string, mr int, mac func(acc, w, x, tmp byte)) {
	i16Open(g, name)
	at := i16Rows(g, mr)
	w0, x0 := byte(2*mr), byte(2*mr+2)
	tmp := x0 + 1
	g.f("VMOVUPS (R15), Y0")
	g.f("VMOVUPS 32(R15), Y1")
	g.f("MOVQ DX, R15")
	for r := range mr {
		g.f("VMOVUPS Y0, (R15)")
		g.f("VMOVUPS Y1, 32(R15)")
		if r < mr-1 {
			g.f("ADDQ R12, R15")
		}
	}
	group := g.fresh("group")
	g.label(group)
	for r := range 2 * mr {
		g.zero(avx2, r)
	}
	for q := range 16 {
		g.f("VMOVDQU %d(DI), Y%d", 64*q, w0)
		g.f("VMOVDQU %d(DI), Y%d", 64*q+32, w0+1)
		for r := range mr {
			x := x0
			if mr > 4 { // no products to hold: two in turn
				x += byte(r % 2)
			}
			g.f("VPBROADCASTD %s, Y%d", at(r, 4*q), x)
			for n := byte(0); n < 2; n++ {
				mac(byte(2*r)+n, w0+n, x, tmp+n)
			}
		}
	}
	g.f("VMOVUPS (BX), Y%d", w0)
	g.f("VMOVUPS 32(BX), Y%d", w0+1)
	g.f("MOVQ DX, R15")
	for r := range mr {
		g.f("VBROADCASTSS %d(R11), Y%d", 4*r, x0)
		for n := range 2 {
			acc := 2*r + n
			g.f("VCVTDQ2PS Y%d, Y%d", acc, acc)
			g.f("VMULPS Y%d, Y%d, Y%d", x0, acc, acc)
			g.f("VFMADD213PS %d(R15), Y%d, Y%d", 32*n, int(w0)+n, acc)
			g.f("VMOVUPS Y%d, %d(R15)", acc, 32*n)
		}
		if r < mr-1 {
			g.f("ADDQ R12, R15")
		}
	}
	i16Next(g, mr, group)
	g.ret()
}

// i16Next moves on to the next group, while there is one.
func i16Next(g *asm, mr int, group string) {
	for b := range (mr + 2) / 3 {
		g.f("ADDQ $64, %s", []string{"SI", "R9", "R10", "AX"}[b])
	}
	g.f("ADDQ $1024, DI")
	g.f("ADDQ $64, BX")
	g.f("ADDQ $%d, R11", 4*mr)
	g.f("DECQ R13")
	g.f("JNZ %s", group)
}

// genI16ZMM has registers for both kinds of sums: 0-11 integers, 12-23 f32, 24
// and 25 weights, 26 scales.
func genI16ZMM(g *asm) {
	const mr = 12
	i16Open(g, "dotVNNI")
	at := i16Rows(g, mr)
	for r := range mr {
		g.f("VMOVUPS (R15), Z%d", 12+r)
	}
	group := g.fresh("group")
	g.label(group)
	for r := range mr {
		g.zero(avx512, r)
	}
	for q := range 16 {
		w := 24 + q%2
		g.f("VMOVDQU64 %d(DI), Z%d", 64*q, w)
		for r := range mr {
			g.f("VPDPWSSD.BCST %s, Z%d, Z%d", at(r, 4*q), w, r)
		}
	}
	g.f("VMOVUPS (BX), Z24")
	for r := range mr {
		g.f("VCVTDQ2PS Z%d, Z%d", r, r)
		g.f("VMULPS.BCST %d(R11), Z24, Z26", 4*r)
		g.f("VFMADD231PS Z%d, Z26, Z%d", r, 12+r)
	}
	i16Next(g, mr, group)
	for r := range mr {
		g.f("VMOVUPS Z%d, (DX)", 12+r)
		if r < mr-1 {
			g.f("ADDQ R12, DX")
		}
	}
	g.ret()
}

// genI16Quantize makes codes of f32 values, one scale per 32: the largest
// magnitude becomes limit.
func genI16Quantize(g *asm, c *constants) {
	name := "quantizeAVX2"
	g.text(name, name+"(dst *int16, src, scales *float32, stride, groups int, limit float32)", 16, 44)
	g.ftz()
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ scales+16(FP), BX")
	g.f("MOVQ stride+24(FP), DX") // of the scales, bytes
	g.f("MOVQ groups+32(FP), CX")
	g.f("VBROADCASTSS limit+40(FP), Y15")
	g.f("VMOVUPS %s, Y14", c.bits(0x7fffffff))
	g.f("VMOVUPS %s, Y13", c.bits(0x0d800000)) // 2^-100: less counts as nothing, its inverse would overflow
	loop := g.fresh("loop")
	g.label(loop)
	for n := range 4 {
		g.f("VMOVUPS %d(SI), Y%d", 32*n, n)
		g.f("VPAND Y%d, Y14, Y%d", n, 4+n)
	}
	// Of the bits, where a NaN is greatest.
	g.f("VPMAXUD Y5, Y4, Y4")
	g.f("VPMAXUD Y7, Y6, Y6")
	g.f("VPMAXUD Y6, Y4, Y4")
	g.f("VEXTRACTI128 $1, Y4, X5")
	g.f("VPMAXUD X5, X4, X4")
	g.f("VPSHUFD $0x4e, X4, X5")
	g.f("VPMAXUD X5, X4, X4")
	g.f("VPSHUFD $0xb1, X4, X5")
	g.f("VPMAXUD X5, X4, X4")
	g.f("VPBROADCASTD X4, Y4")
	g.f("VPMAXUD Y13, Y4, Y5") // with a floor, for the inverse
	g.f("VDIVPS Y15, Y5, Y6")  // scale
	g.f("VMOVSS X6, (BX)")
	g.f("VDIVPS Y5, Y15, Y5") // its inverse
	for n := range 4 {
		g.f("VMULPS Y%d, Y5, Y%d", n, n)
		g.f("VCVTPS2DQ Y%d, Y%d", n, n)
	}
	for n := range 2 {
		g.f("VPACKSSDW Y%d, Y%d, Y%d", 2*n+1, 2*n, 2*n)
		g.f("VPERMQ $0xd8, Y%d, Y%d", 2*n, 2*n)
		g.f("VMOVDQU Y%d, %d(DI)", 2*n, 32*n)
	}
	g.f("ADDQ $128, SI")
	g.f("ADDQ $64, DI")
	g.f("ADDQ DX, BX")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.ret()
}

// genI16Widen takes the codes of Q8_0 rows as they are.
func genI16Widen(g *asm) {
	name := "widenQ8AVX2"
	g.text(name, name+"(dst *int16, src *byte, scales *float32, stride, groups int)", 0, 40)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ scales+16(FP), BX")
	g.f("MOVQ stride+24(FP), DX")
	g.f("MOVQ groups+32(FP), CX")
	loop := g.fresh("loop")
	g.label(loop)
	g.f("VPMOVSXBW 2(SI), Y0")
	g.f("VPMOVSXBW 18(SI), Y1")
	g.f("VPBROADCASTW (SI), X2")
	g.f("VCVTPH2PS X2, X2")
	g.f("VMOVDQU Y0, (DI)")
	g.f("VMOVDQU Y1, 32(DI)")
	g.f("VMOVSS X2, (BX)")
	g.f("ADDQ $34, SI")
	g.f("ADDQ $64, DI")
	g.f("ADDQ DX, BX")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}
