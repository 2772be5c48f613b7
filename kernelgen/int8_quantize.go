package main

import "fmt"

// genQuantize writes the quantizer of groups of n activations:
//
//	name(codes *int8, scale *float32, comp *int32, xsum, x *float32, groups, stride int)
//
// scale = max|x|/127, code = x·(127/max) to the nearest, comp = -128·sum of
// codes, xsum = scale·sum of codes; the last three lie stride bytes apart. A
// maximum below 2^-100 counts as zero, whose inverse would overflow. Maxima
// are taken of the bits, where a NaN is greatest and so reaches the scale.
func genQuantize(g *asm, c *constants, i isa, n int) {
	k := &vkernel{asm: g, isa: i, consts: c}
	name := fmt.Sprintf("quantize%d%s", n, i.name)
	g.text(name, name+"(codes *int8, scale *float32, comp *int32, xsum, x *float32, groups, stride int)", 16, 56)
	g.ftz()
	g.f("MOVQ codes+0(FP), DI")
	g.f("MOVQ scale+8(FP), R8")
	g.f("MOVQ comp+16(FP), R9")
	g.f("MOVQ xsum+24(FP), R10")
	g.f("MOVQ x+32(FP), SI")
	g.f("MOVQ groups+40(FP), CX")
	g.f("MOVQ stride+48(FP), DX")
	and, max := "VPAND", "VPMAXUD"
	if i == avx512 {
		and = "VPANDD"
	}
	loop := g.fresh("loop")
	g.label(loop)
	vectors := n / i.lanes
	k.f("VMOVUPS %s, %s", c.bits(0x7fffffff), k.v(15))
	for v := range vectors {
		if v < 2 {
			k.f("%s %d(SI), %s, %s", and, v*i.width(), k.v(15), k.v(v))
			continue
		}
		k.f("%s %d(SI), %s, %s", and, v*i.width(), k.v(15), k.v(2+v%2))
		k.op(max, 2+v%2, v%2, v%2)
	}
	k.op(max, 1, 0, 0)
	if i == avx512 {
		g.f("VEXTRACTI64X4 $1, Z0, Y1")
		g.f("VPMAXUD Y1, Y0, Y0")
	}
	g.f("VEXTRACTI128 $1, Y0, X1")
	g.f("VPMAXUD X1, X0, X0")
	for _, s := range []string{"$0x4e", "$0xb1"} {
		g.f("VPSHUFD %s, X0, X1", s)
		g.f("VPMAXUD X1, X0, X0")
	}
	g.f("VMOVUPS %s, X4", c.bits(0x42fe0000)) // 127
	g.f("VPCMPGTD %s, X0, X5", c.bits(0x0d800000-1))
	g.f("VDIVSS X4, X0, X6")
	g.f("VDIVSS X0, X4, X7")
	g.f("VPAND X5, X6, X6") // scale
	g.f("VPAND X5, X7, X7") // inverse
	g.f("VMOVSS X6, (R8)")
	k.f("VBROADCASTSS X7, %s", k.v(7))
	sum := 8
	for v := range vectors {
		t := 10 + v%4
		k.f("VMULPS %d(SI), %s, %s", v*i.width(), k.v(7), k.v(t))
		k.op("VCVTPS2DQ", t, t)
		if v == 0 {
			k.f("%s %s, %s", map[isa]string{avx2: "VMOVDQA", avx512: "VMOVDQA64"}[i], k.v(t), k.v(sum))
		} else {
			k.op("VPADDD", t, sum, sum)
		}
		if i == avx512 {
			g.f("VPMOVSDB Z%d, %d(DI)", t, 16*v)
		} else if v%4 == 3 { // lanes come out of the packs in pairs
			g.f("VPACKSSDW Y11, Y10, Y10")
			g.f("VPACKSSDW Y13, Y12, Y12")
			g.f("VPACKSSWB Y12, Y10, Y10")
			g.f("VMOVDQU int8Lanes<>(SB), Y11")
			g.f("VPERMD Y10, Y11, Y10")
			g.f("VMOVDQU Y10, %d(DI)", 8*(v-3))
		}
	}
	if i == avx512 {
		g.f("VEXTRACTI64X4 $1, Z8, Y9")
		g.f("VPADDD Y9, Y8, Y8")
	}
	g.f("VEXTRACTI128 $1, Y8, X9")
	g.f("VPADDD X9, X8, X8")
	for _, s := range []string{"$0x4e", "$0xb1"} {
		g.f("VPSHUFD %s, X8, X9", s)
		g.f("VPADDD X9, X8, X8")
	}
	g.f("VCVTDQ2PS X8, X9")
	g.f("VMULSS X6, X9, X9")
	g.f("VMOVSS X9, (R10)")
	g.f("VPXOR X9, X9, X9")
	g.f("VPSUBD X8, X9, X8")
	g.f("VPSLLD $7, X8, X8")
	g.f("VMOVD X8, (R9)")
	for _, r := range []string{"R8", "R9", "R10"} {
		g.f("ADDQ DX, %s", r)
	}
	g.f("ADDQ $%d, DI", n)
	g.f("ADDQ $%d, SI", 4*n)
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.ret()
	if i == avx2 && n == 32 {
		g.raw("\n")
		for n, l := range []int{0, 4, 1, 5, 2, 6, 3, 7} {
			g.raw(fmt.Sprintf("DATA int8Lanes<>+%d(SB)/4, $%d\n", 4*n, l))
		}
		g.raw("GLOBL int8Lanes<>(SB), RODATA|NOPTR, $32\n")
	}
}

// genUnpackQ4 makes chunks of whole bytes of a Q4 panel, for the tiles; the
// headers stay in place.
func genUnpackQ4(g *asm, c *constants) {
	g.text("unpackQ4AVX512", "unpackQ4AVX512(dst, src *byte, groups int)", 0, 24)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ groups+16(FP), CX")
	g.f("VMOVDQU64 %s, Z31", c.bits(0x0f0f0f0f))
	loop := g.fresh("loop")
	g.label(loop)
	for n := range 2 {
		g.f("VMOVDQU64 %d(SI), Z%d", 64*n, n)
		g.f("VMOVDQU64 Z%d, %d(DI)", n, 64*n)
	}
	for n := range 8 {
		g.f("VMOVDQU64 %d(SI), Z%d", 128+64*n, n)
		g.f("VPSRLW $4, Z%d, Z%d", n, 8+n)
		g.f("VPANDD Z31, Z%d, Z%d", n, n)
		g.f("VPANDD Z31, Z%d, Z%d", 8+n, 8+n)
		g.f("VMOVDQU64 Z%d, %d(DI)", n, 128+64*n)
		g.f("VMOVDQU64 Z%d, %d(DI)", 8+n, 128+512+64*n)
		g.f("PREFETCHT0 %d(SI)", 2048+64*n)
	}
	g.f("ADDQ $640, SI")
	g.f("ADDQ $1152, DI")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}
