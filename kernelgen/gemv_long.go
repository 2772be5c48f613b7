package main

import "fmt"

// The matrix-vector kernels of blocks of 256. x comes in the form of
// prepareQ4_K or prepareQ6_K: of every 64 values first those at 0, 4, 8 and so
// on, then those at 1, 5, 9, because bytes of codes are taken apart by their
// place in 32 bits; xs are two values for each 32 that the scales of a block,
// as a vector, multiply to what all codes' common offset adds.
//
// Registers: 0-3 accumulate, 8-15 are free for a row; 4-7, with AVX-512 16-31,
// keep constants. AX points at 64 aligned bytes of scales with AVX2; AVX-512
// leaves them in 9.
type gemvLong struct {
	name   string
	bytes  int
	consts func(k *vkernel)
	row    func(k *vkernel, acc int, p string)
}

var gemvLongs = []gemvLong{
	{"Q4_K", 144, (*vkernel).constsQ4K, (*vkernel).rowQ4K},
	{"Q5_K", 176, (*vkernel).constsQ5K, (*vkernel).rowQ5K},
	{"Q6_K", 210, (*vkernel).constsQ6K, (*vkernel).rowQ6K},
	{"Q2_K", 84, (*vkernel).constsQ2K, (*vkernel).rowQ2K},
	{"Q3_K", 110, (*vkernel).constsQ3K, (*vkernel).rowQ3K},
	{"IQ4_XS", 136, levelSetup(levelsIQ4), (*vkernel).rowIQ4XS},
}

func (k *vkernel) gemvLong(s gemvLong) {
	group, block := k.gemvOpen(s.name, s.bytes, 64)
	for n := range 4 {
		k.zero(k.isa, n)
	}
	s.consts(k)
	k.label(block)
	for acc, p := range streams {
		s.row(k, acc, p)
		for at := 0; at < s.bytes; at += 64 {
			k.f("PREFETCHT0 %d(%s)", prefetch+at, p)
		}
		k.f("ADDQ $%d, %s", s.bytes, p)
	}
	k.f("ADDQ $64, DX")
	k.f("ADDQ $1024, BX")
	k.f("DECQ CX")
	k.f("JNZ %s", block)
	k.gemvClose(group, nil)
}

// vector loads a constant into register n.
func (k *vkernel) vector(n int, name string, word func(lane int) uint32) {
	k.f("VMOVUPS %s, %s", k.consts.vector(name, 0, word), k.v(n))
}

// bytePicks leaves what picks the second and third byte of each 32 bits in
// registers n and n+1, and 255 in n-1.
func (k *vkernel) bytePicks(n int) {
	k.f("VMOVUPS %s, %s", k.consts.bits(255), k.v(n-1))
	for b := range 2 {
		k.vector(n+b, fmt.Sprintf("byte%d", b+1), pickByte(b+1))
	}
}

// pickByte makes what picks byte b of each 32 bits.
func pickByte(b int) func(lane int) uint32 {
	return func(lane int) uint32 { return 0x80808000 | uint32(lane%4*4+b) }
}

// product leaves Σ code·x in 15, with codes the bytes of register c, which is
// lost, and at the place of their first x; picks comes from bytePicks.
func (k *vkernel) product(c, at, picks int) {
	for b := range 4 {
		switch b {
		case 0:
			k.bitwise("VPAND", picks-1, c, 14)
		case 3:
			k.op("VPSRLD", "$24", c, 14)
		default:
			k.op("VPSHUFB", picks+b-1, c, 14)
		}
		k.op("VCVTDQ2PS", 14, 14)
		k.timesX(14, at, b)
	}
}

// timesX makes 15 the product of register c and x, or adds it from b = 1 on.
func (k *vkernel) timesX(c, at, b int) {
	x := fmt.Sprintf("%d(BX)", at+64*b)
	if b == 0 {
		k.op("VMULPS", x, c, 15)
	} else {
		k.op("VFMADD231PS", x, c, 15)
	}
}

// bitwise is an instruction whose AVX-512 form names the size of its elements.
func (k *vkernel) bitwise(mnemonic string, operands ...any) {
	if k.lanes == 16 {
		mnemonic += "D"
	}
	k.op(mnemonic, operands...)
}

// spanScales loads the permutations that spread the scales of each 64 values
// to registers 24 to 27: so many lanes have the same, step lanes on.
func (k *vkernel) spanScales(name string, lanes, step int) {
	for s := range 4 {
		k.vector(24+s, fmt.Sprintf("%s%d", name, s), func(lane int) uint32 { return uint32((s*16/lanes + lane/lanes) * step) })
	}
}

// addSpan adds what product left, times the scales of span s in 9.
func (k *vkernel) addSpan(s, acc int) {
	k.f("VPERMPS Z9, Z%d, Z14", 24+s)
	k.op("VFMADD231PS", 14, 15, acc)
}

// The 12 bytes after the two halves of a Q4_K or Q5_K block hold eight scales
// and eight minima of six bits. They are decoded in pairs, as the halves lie:
// a scale, its minimum, the next scale. Lane n of pick is two bytes of the
// header: the one with the low bits, which shift brings down and low keeps, and
// the one that has the two upper bits at its top, where high is not zero.
func pickK(n int) uint32 {
	g, minimum := n/2, n%2
	if g < 4 {
		return 0x80808000 | uint32(4+4*minimum+g)
	}
	return 0x80800000 | uint32(12+g-4) | uint32(4+4*minimum+g-4)<<8
}

func shiftK(n int) uint32 {
	if n/2 >= 4 && n%2 == 1 {
		return 4
	}
	return 0
}

func lowK(n int) uint32 {
	if n/2 < 4 {
		return 63
	}
	return 15
}

func highK(n int) uint32 {
	if n/2 < 4 {
		return 0
	}
	return 48
}

// constsK loads what scalesK needs into 16 to 19 with AVX-512.
func (k *vkernel) constsK() {
	if k.lanes == 16 {
		k.vector(16, "pickK", pickK)
		k.vector(17, "shiftK", shiftK)
		k.vector(18, "lowK", lowK)
		k.vector(19, "highK", highK)
		k.spanScales("spanK", 8, 2)
	}
}

// scalesK decodes the scales and minima of a Q4_K or Q5_K block and subtracts
// the minima's part.
func (k *vkernel) scalesK(acc int, p string) {
	if k.lanes == 16 {
		k.f("VBROADCASTI32X4 (%s), Z8", p)
		k.f("VPSHUFB Z16, Z8, Z8")
		k.f("VPSRLVD Z17, Z8, Z9")
		k.f("VPSRLD $10, Z8, Z8")
		k.f("VPANDD Z18, Z9, Z9")
		k.f("VPTERNLOGD $0xf8, Z19, Z8, Z9")
		k.f("VCVTDQ2PS Z9, Z9")
		k.f("VPBROADCASTD (%s), Y8", p)
		k.f("VCVTPH2PS Y8, Z8")
		k.f("VMULPS Z8, Z9, Z9")
		k.f("VFNMADD231PS (DX), Z9, Z%d", acc)
		return
	}
	k.f("VBROADCASTI128 (%s), Y8", p)
	k.f("VPBROADCASTD (%s), X11", p)
	k.f("VCVTPH2PS X11, Y11")
	for at := 0; at < 64; at += 32 {
		k.f("VPSHUFB %s, Y8, Y9", k.consts.vector("pickK", at, pickK))
		k.f("VPSRLVD %s, Y9, Y10", k.consts.vector("shiftK", at, shiftK))
		k.f("VPAND %s, Y10, Y10", k.consts.vector("lowK", at, lowK))
		if at > 0 {
			k.f("VPSRLD $10, Y9, Y9")
			k.f("VPAND %s, Y9, Y9", k.consts.bits(48))
			k.f("VPOR Y9, Y10, Y10")
		}
		k.f("VCVTDQ2PS Y10, Y10")
		k.f("VMULPS Y11, Y10, Y10")
		k.f("VMOVUPS Y10, %d(AX)", at)
		k.f("VFNMADD231PS %d(DX), Y10, Y%d", at, acc)
	}
}

func (k *vkernel) constsQ4K() {
	k.constsK()
	if k.lanes == 8 {
		k.f("VMOVUPS %s, Y4", k.consts.bits(0x0f0f0f0f))
		k.bytePicks(6)
		return
	}
	k.f("VMOVUPS %s, Z4", k.consts.codes())
	for b := range 4 {
		k.vector(20+b, fmt.Sprintf("nibble%d", b), func(lane int) uint32 { return uint32(8*b + lane/8*4) })
	}
}

// 32 bytes are a span of 64 values: low nibbles are its first 32.
func (k *vkernel) rowQ4K(acc int, p string) {
	k.scalesK(acc, p)
	for s := range 4 {
		if k.lanes == 16 {
			// A permutation looks at four bits of each index: it is the
			// mask and the conversion in one.
			k.f("VBROADCASTI64X4 %d(%s), Z10", 16+32*s, p)
			for b := range 4 {
				k.f("VPSRLVD Z%d, Z10, Z14", 20+b)
				k.f("VPERMPS Z4, Z14, Z14")
				k.timesX(14, 256*s, b)
			}
			k.addSpan(s, acc)
			continue
		}
		k.f("VMOVDQU %d(%s), Y12", 16+32*s, p)
		for high := range 2 {
			if high == 1 {
				k.f("VPSRLD $4, Y12, Y12")
			}
			k.f("VPAND Y4, Y12, Y13")
			k.product(13, 256*s+32*high, 6)
			k.scaled(16*s+8*high, 15, acc, 14)
		}
	}
}

func (k *vkernel) constsQ5K() {
	k.constsK()
	k.f("VMOVUPS %s, %s", k.consts.bits(0x0f0f0f0f), k.v(4))
	if k.lanes == 8 {
		k.bytePicks(6)
		return
	}
	k.f("VMOVUPS %s, Z5", k.consts.bits(0x10101010))
	k.bytePicks(21)
	k.vector(23, "nibble0", func(lane int) uint32 { return uint32(lane / 8 * 4) })
	for s := range 4 {
		k.vector(28+s, fmt.Sprintf("fifth%d", s), func(lane int) uint32 { return uint32(4-2*s-lane/8) % 32 })
	}
}

// Spans are those of Q4_K, behind 32 bytes of which bit g is the fifth of group
// g of 32 values.
func (k *vkernel) rowQ5K(acc int, p string) {
	k.scalesK(acc, p)
	if k.lanes == 16 {
		k.f("VBROADCASTI64X4 16(%s), Z11", p)
		for s := range 4 {
			k.f("VBROADCASTI64X4 %d(%s), Z10", 48+32*s, p)
			k.f("VPSRLVD Z23, Z10, Z10")
			k.f("VPANDD Z4, Z10, Z10")
			k.f("VPROLVD Z%d, Z11, Z12", 28+s)
			k.f("VPTERNLOGD $0xf8, Z5, Z12, Z10")
			k.product(10, 256*s, 21)
			k.addSpan(s, acc)
		}
		return
	}
	k.f("VMOVDQU 16(%s), Y8", p)
	for g := range 8 {
		k.f("VMOVDQU %d(%s), Y13", 48+g/2*32, p)
		if g%2 == 1 {
			k.f("VPSRLD $4, Y13, Y13")
		}
		k.f("VPAND Y4, Y13, Y13")
		if g < 4 {
			k.f("VPSLLD $%d, Y8, Y12", 4-g)
		} else {
			k.f("VPSRLD $%d, Y8, Y12", g-4)
		}
		k.f("VPAND %s, Y12, Y12", k.consts.bits(0x10101010))
		k.f("VPOR Y12, Y13, Y13")
		k.product(13, g/2*256+g%2*32, 6)
		k.scaled(8*g, 15, acc, 14)
	}
}

func (k *vkernel) constsQ6K() {
	if k.lanes == 8 {
		k.f("VMOVUPS %s, Y4", k.consts.bits(0x0f0f0f0f))
		k.bytePicks(6)
		return
	}
	k.f("VMOVUPS %s, Z4", k.consts.bits(0x0f0f0f0f))
	k.f("VMOVUPS %s, Z5", k.consts.bits(0x30303030))
	k.bytePicks(17)
	k.vector(20, "left6", func(lane int) uint32 { return uint32(4 - lane/8*2) })
	k.vector(21, "right6", func(lane int) uint32 { return uint32(lane / 8 * 2) })
	k.spanScales("spanQ6_K", 4, 1)
}

// A half of a block has 64 bytes of low nibbles, 32 bytes of upper bits and
// eight scales; bits 0 and 1 of the upper bits belong to the low nibbles of its
// first 32 bytes, 2 and 3 to those of the others, 4 to 7 to the high nibbles.
func (k *vkernel) rowQ6K(acc int, p string) {
	k.half(p, 208, 11)
	for at := 0; at < 16; at += k.lanes {
		k.f("VPMOVSXBD %d(%s), %s", 192+at, p, k.v(9))
		k.op("VCVTDQ2PS", 9, 9)
		k.op("VMULPS", 11, 9, 9)
		k.op("VFNMADD231PS", fmt.Sprintf("%d(DX)", 4*at), 9, acc)
		if k.lanes == 8 {
			k.f("VMOVUPS Y9, %d(AX)", 4*at)
		}
	}
	for h := range 2 {
		if k.lanes == 16 {
			k.f("VMOVUPS %d(%s), Z10", 64*h, p)
			k.f("VBROADCASTI64X4 %d(%s), Z11", 128+32*h, p)
			k.f("VPSLLVD Z20, Z11, Z12")
			k.f("VPANDD Z4, Z10, Z13")
			k.f("VPTERNLOGD $0xf8, Z5, Z12, Z13")
			k.product(13, 512*h, 17)
			k.addSpan(2*h, acc)
			k.f("VPSRLD $4, Z10, Z10")
			k.f("VPSRLVD Z21, Z11, Z11")
			k.f("VPANDD Z4, Z10, Z10")
			k.f("VPTERNLOGD $0xf8, Z5, Z11, Z10")
			k.product(10, 512*h+256, 17)
			k.addSpan(2*h+1, acc)
			continue
		}
		k.f("VMOVDQU %d(%s), Y8", 128+32*h, p)
		for part, shift := range []string{"VPSLLD $4", "VPSLLD $2", "", "VPSRLD $2"} {
			g := 4*h + part
			upper := "Y8"
			if shift != "" {
				k.f("%s, Y8, Y12", shift)
				upper = "Y12"
			}
			k.f("VPAND %s, %s, Y12", k.consts.bits(0x30303030), upper)
			k.f("VMOVDQU %d(%s), Y13", 64*h+part%2*32, p)
			if part >= 2 {
				k.f("VPSRLD $4, Y13, Y13")
			}
			k.f("VPAND Y4, Y13, Y13")
			k.f("VPOR Y12, Y13, Y13")
			k.product(13, g/2*256+g%2*32, 6)
			k.addHalves(g, acc)
		}
	}
}

// genPrepareLong writes the forms of x whose order is that of bytes in 32 bits.
// Their sums are 0 and the sum for each 32 for Q4_K and Q5_K, 32 times the sums
// for each 16 for Q6_K, whose codes stand for 32 less than they are, and the sum
// for each 32 for Q5_1 and Q5_0.
func genPrepareLong(g *asm, consts *constants) {
	k := &vkernel{asm: g, isa: avx2, consts: consts}
	for _, s := range []struct {
		name  string
		parts int // of 32 values, ordered together
		sums  func(part int)
	}{
		{"Q4_K", 2, func(part int) {
			g.f("VADDPS X1, X0, X1")
			g.f("VXORPS X0, X0, X0")
			g.f("VMOVSS X0, %d(DX)", 8*part)
			g.f("VMOVSS X1, %d(DX)", 8*part+4)
		}},
		{"Q6_K", 2, func(part int) {
			for n := range 2 {
				g.f("VMULPS %s, X%d, X%d", k.c(32), n, n)
				g.f("VMOVSS X%d, %d(DX)", n, 8*part+4*n)
			}
		}},
		{"Q5_1", 1, func(int) {
			g.f("VADDPS X1, X0, X0")
			g.f("VMOVSS X0, (DX)")
		}},
	} {
		name := "prepare" + s.name + "AVX2"
		count, sums := "spans", 8*s.parts
		if s.parts == 1 {
			count, sums = "blocks", 4
		}
		g.text(name, name+"(sums, dst, x *float32, "+count+" int)", 16, 32)
		g.ftz()
		g.f("MOVQ sums+0(FP), DX")
		g.f("MOVQ dst+8(FP), DI")
		g.f("MOVQ x+16(FP), SI")
		g.f("MOVQ %s+24(FP), CX", count)
		loop := g.fresh("loop")
		g.label(loop)
		for part := range s.parts {
			for n := range 4 { // values 4n to 4n+3 and 16 on
				g.f("VMOVUPS %d(SI), X%d", 128*part+16*n, n)
				g.f("VINSERTF128 $1, %d(SI), Y%d, Y%d", 128*part+16*n+64, n, n)
			}
			g.f("VUNPCKLPS Y1, Y0, Y4")
			g.f("VUNPCKHPS Y1, Y0, Y5")
			g.f("VUNPCKLPS Y3, Y2, Y6")
			g.f("VUNPCKHPS Y3, Y2, Y7")
			g.f("VUNPCKLPD Y6, Y4, Y0")
			g.f("VUNPCKHPD Y6, Y4, Y1")
			g.f("VUNPCKLPD Y7, Y5, Y2")
			g.f("VUNPCKHPD Y7, Y5, Y3")
			for n := range 4 {
				g.f("VMOVUPS Y%d, %d(DI)", n, 32*(part+s.parts*n))
			}
			g.f("VADDPS Y1, Y0, Y0")
			g.f("VADDPS Y3, Y2, Y2")
			g.f("VADDPS Y2, Y0, Y0")
			g.f("VHADDPS Y0, Y0, Y0")
			g.f("VHADDPS Y0, Y0, Y0")
			g.f("VEXTRACTF128 $1, Y0, X1")
			s.sums(part)
		}
		g.f("ADDQ $%d, DX", sums)
		g.f("ADDQ $%d, DI", 128*s.parts)
		g.f("ADDQ $%d, SI", 128*s.parts)
		g.f("DECQ CX")
		g.f("JNZ %s", loop)
		g.ret()
	}
}
