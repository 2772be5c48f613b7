package main

import "fmt"

// genStreamAVX2 writes the products of one or two activation rows with panels of
// codes for processors without dot products of 64 bytes. With codes of 4 bits
// they give the bits of genStream:
//
//	name(t *codeArgs)
func genStreamAVX2(g *asm) {
	for _, s := range streamStorages {
		for _, rows := range []int{1, 2} {
			g.stream8(s, rows, false)
			if !s.wide {
				g.stream8(s, rows, true)
			}
		}
	}
	for _, rows := range []int{1, 2} {
		g.stream8Q4_K(rows, false)
		g.stream8Q4_K(rows, true)
		g.stream8Q6_K(rows)
	}
	g.packCodesAVX2("packCodesAVX2", asBytes)
	g.packCodesAVX2("packWordsAVX2", asWords)
	g.packCodesAVX2("packWords16AVX2", asWords16)
}

// stream8 writes a kernel that makes 8 of the panel's 16 weight rows at a time
// from each block. f32 sums are in Y8 and up, two registers per activation row.
//
// With codes of 4 bits, sums of products of bytes fit words for 32 columns: at
// most 32 x 15 x 128 / 2. Codes of 8 bits multiply as words, with activations that
// are words too. vnni sums products of bytes in dwords by one instruction.
func (g *asm) stream8(s streamStorage, rows int, vnni bool) {
	tier := "AVX2"
	if vnni {
		tier = "AVXVNNI"
	}
	g.head8(fmt.Sprintf("stream%sx%d%s", s.name, rows, tier))
	g.groups8(rows, func() {
		at := 32
		if s.minimum {
			at = 64
		}
		for half := range 2 {
			for i := range 2 * rows {
				g.zero(avx2, i)
			}
			if s.wide {
				g.words8(at+32*half, rows)
			} else {
				g.nibbles8(at+32*half, rows, vnni)
			}
			g.f("VCVTPH2PS %d(SI), Y4", 16*half)
			if s.minimum {
				g.f("VCVTPH2PS %d(SI), Y5", 32+16*half)
			} else if !s.wide { // codes of 8 bits are signed
				g.f("VBROADCASTSS %d(R15), Y5", tabExcess)
				g.f("VMULPS Y5, Y4, Y5")
			}
			if s.wide {
				g.wordSums8(rows, half)
			} else {
				g.byteSums8(rows, half, vnni)
			}
		}
		g.streamFetch(s.bytes)
		g.f("ADDQ $%d, SI", s.bytes)
		g.f("ADDQ $%d, AX", 64*rows+64)
	})
}

// head8 begins a kernel. Y15 has the bits of a code, Y14 words of 1.
func (g *asm) head8(name string) {
	g.text(name, name+"(t *codeArgs)", 16, 8)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ %d(R8), SI", codeW)
	g.f("MOVQ %d(R8), R10", codeY)
	g.f("MOVQ %d(R8), R11", codeGroups)
	g.f("MOVQ %d(R8), R14", codeBias)
	g.f("MOVQ %d(R8), R15", codeTables)
	g.f("VMOVDQU %d(R15), Y15", tabBits)
	g.f("VPBROADCASTD %d(R15), Y14", tabOnes)
}

// groups8 makes groups of 16 weight rows and ends the kernel: step adds the
// products of the columns that are counted as one.
func (g *asm) groups8(rows int, step func()) {
	group, loop := g.fresh("group"), g.fresh("loop")
	g.label(group)
	for m := range rows {
		g.f("VMOVUPS (R14), Y%d", 8+2*m)
		g.f("VMOVUPS 32(R14), Y%d", 9+2*m)
	}
	g.f("MOVQ %d(R8), AX", codeX)
	g.f("MOVQ %d(R8), R12", codeSteps)
	g.label(loop)
	step()
	g.f("DECQ R12")
	g.f("JNZ %s", loop)
	g.f("VMOVUPS Y8, (R10)")
	g.f("VMOVUPS Y9, 32(R10)")
	if rows == 2 {
		g.f("MOVQ %d(R8), R12", codeStrideY)
		g.f("VMOVUPS Y10, (R10)(R12*1)")
		g.f("VMOVUPS Y11, 32(R10)(R12*1)")
	}
	g.f("ADDQ $64, R10")
	g.f("ADDQ %d(R8), R14", codeNextBias)
	g.f("DECQ R11")
	g.f("JNZ %s", group)
	g.ret()
}

// byteSums8 adds what nibbles8 has made to the f32 sums of one half. Y4 has the
// scales of its 8 weight rows, Y5 what sums of x are multiplied with.
func (g *asm) byteSums8(rows, half int, vnni bool) {
	for m := range rows {
		lo, hi, sum := 2*m, 2*m+1, 8+2*m+half
		if !vnni {
			g.f("VPMADDWD Y14, Y%d, Y%d", lo, lo)
			g.f("VPMADDWD Y14, Y%d, Y%d", hi, hi)
		}
		g.f("VPSLLD $8, Y%d, Y%d", hi, hi)
		g.f("VPADDD Y%d, Y%d, Y%d", hi, lo, lo)
		g.f("VCVTDQ2PS Y%d, Y%d", lo, lo)
		g.f("VBROADCASTSS %d(AX), Y6", 64*rows+4*m)
		g.f("VMULPS Y6, Y%d, Y%d", lo, lo)
		g.f("VBROADCASTSS %d(AX), Y7", 64*rows+32+4*m)
		g.f("VFMADD231PS Y7, Y5, Y%d", sum)
		g.f("VFMADD231PS Y4, Y%d, Y%d", lo, sum)
	}
}

// wordSums8 adds the products in registers 2m to the f32 sums of one half, with
// the scales of its 8 weight rows in Y4.
func (g *asm) wordSums8(rows, half int) {
	for m := range rows {
		g.f("VCVTDQ2PS Y%d, Y%d", 2*m, 2*m)
		g.f("VBROADCASTSS %d(AX), Y6", 64*rows+4*m)
		g.f("VMULPS Y6, Y%d, Y%d", 2*m, 2*m)
		g.f("VFMADD231PS Y4, Y%d, Y%d", 2*m, 8+2*m+half)
	}
}

// nibbles8 adds the products of 32 columns of 8 weight rows, which begin at(SI),
// to registers 2m (lower bytes of x) and 2m+1 (upper bytes).
func (g *asm) nibbles8(at, rows int, vnni bool) {
	for j := range 4 {
		g.f("VMOVDQU %d(SI), Y5", at+64*j)
		g.f("VPAND Y15, Y5, Y4")
		g.f("VPSRLW $4, Y5, Y5")
		g.f("VPAND Y15, Y5, Y5")
		for n := range 2 {
			for m := range rows {
				for upper := range 2 {
					acc := 2*m + upper
					g.f("VPBROADCASTD %d(AX), Y6", 64*m+32*upper+4*(2*j+n))
					if vnni {
						g.vpdpbusdVEX(byte(acc), byte(4+n), 6)
					} else {
						g.f("VPMADDUBSW Y6, Y%d, Y7", 4+n)
						g.f("VPADDW Y7, Y%d, Y%d", acc, acc)
					}
				}
			}
		}
	}
}

// words8 adds the products of 32 columns of 8 weight rows of signed bytes to
// registers 2m.
func (g *asm) words8(at, rows int) {
	for q := range 8 {
		g.f("VMOVDQU %d(SI), Y5", at+64*q)
		g.f("VPSLLW $8, Y5, Y4")
		g.f("VPSRAW $8, Y4, Y4")
		g.f("VPSRAW $8, Y5, Y5")
		for n := range 2 {
			for m := range rows {
				g.f("VPBROADCASTD %d(AX), Y6", 64*m+8*q+4*n)
				g.f("VPMADDWD Y6, Y%d, Y7", 4+n)
				g.f("VPADDD Y7, Y%d, Y%d", 2*m, 2*m)
			}
		}
	}
}

// What packCodesAVX2 makes of integers: their lower and upper bytes; words; or words
// with sums by 16 columns, as integers times -32, which are what codes of 6 bits
// are too large by.
const (
	asBytes = iota
	asWords
	asWords16
)

// packCodesAVX2 is packCodes; order is by 8.
func (g *asm) packCodesAVX2(name string, form int) {
	g.text(name, name+"(dst, sums *byte, x *float32, stride, steps int, constants *[5]float32, order *codeOrder)", 16, 56)
	g.ftz()
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ sums+8(FP), R8")
	g.f("MOVQ x+16(FP), SI")
	g.f("MOVQ stride+24(FP), DX")
	g.f("MOVQ steps+32(FP), CX")
	g.f("MOVQ constants+40(FP), AX")
	g.f("VPBROADCASTD (AX), Y15") // all bits but the sign
	g.f("VMOVSS 4(AX), X14")      // the largest integer
	g.f("VMOVSS 8(AX), X13")      // its inverse
	g.f("VPBROADCASTD 12(AX), Y12")
	g.f("MOVQ order+48(FP), BX")
	g.f("VMOVDQU (BX), Y11")
	loop := g.fresh("loop")
	g.label(loop)
	for v := range 4 {
		g.f("VMOVUPS %d(SI), Y%d", 32*v, v)
		g.f("VPAND Y15, Y%d, Y%d", v, 4+v)
	}
	g.f("VPMAXUD Y4, Y5, Y4")
	g.f("VPMAXUD Y6, Y7, Y6")
	g.f("VPMAXUD Y4, Y6, Y4")
	reduce := func(op string) {
		g.f("VEXTRACTI128 $1, Y4, X5")
		g.f("%s X5, X4, X4", op)
		g.f("VPSHUFD $0x4e, X4, X5")
		g.f("%s X5, X4, X4", op)
		g.f("VPSHUFD $0xb1, X4, X5")
		g.f("%s X5, X4, X4", op)
	}
	reduce("VPMAXUD")
	g.f("VMULSS X13, X4, X10") // the scale
	g.f("VDIVSS X4, X14, X4")
	g.f("VBROADCASTSS X4, Y4")
	for v := range 4 {
		g.f("VMULPS Y4, Y%d, Y%d", v, v)
		g.f("VCVTPS2DQ Y%d, Y%d", v, v)
	}
	g.f("VMOVSS X10, (R8)")
	if form == asWords16 {
		for h := range 2 {
			g.f("VPADDD Y%d, Y%d, Y4", 2*h, 2*h+1)
			reduce("VPADDD")
			g.f("VPSLLD $5, X4, X4")
			g.f("VPXOR X5, X5, X5")
			g.f("VPSUBD X4, X5, X4")
			g.f("VMOVD X4, %d(R8)", 32+32*h)
		}
	} else {
		g.f("VPADDD Y0, Y1, Y4")
		g.f("VPADDD Y2, Y3, Y5")
		g.f("VPADDD Y5, Y4, Y4")
		reduce("VPADDD")
		g.f("VCVTDQ2PS X4, X4")
		g.f("VMULSS X10, X4, X4")
		g.f("VMOVSS X4, 32(R8)")
	}
	for v := range 4 {
		g.f("VPERMD Y%d, Y11, Y%d", v, v)
	}
	if form != asBytes {
		for v := range 2 {
			g.f("VPACKSSDW Y%d, Y%d, Y%d", 2*v+1, 2*v, 4+v)
			g.f("VPERMQ $0xd8, Y%d, Y%d", 4+v, 4+v)
			g.f("VMOVDQU Y%d, %d(DI)", 4+v, 32*v)
		}
	} else {
		// Bytes: dwords are cut, packed within halves and brought in order.
		g.f("VPBROADCASTD 16(AX), Y10") // the lowest byte
		g.f("VMOVDQU 32(BX), Y9")
		for upper := range 2 {
			for v := range 4 {
				if upper == 1 {
					g.f("VPADDD Y12, Y%d, Y%d", v, v)
					g.f("VPSRAD $8, Y%d, Y%d", v, v)
				}
				g.f("VPAND Y10, Y%d, Y%d", v, 4+v)
			}
			g.f("VPACKUSDW Y5, Y4, Y4")
			g.f("VPACKUSDW Y7, Y6, Y6")
			g.f("VPACKUSWB Y6, Y4, Y4")
			g.f("VPERMD Y4, Y9, Y4")
			g.f("VMOVDQU Y4, %d(DI)", 32*upper)
		}
	}
	g.f("ADDQ $128, SI")
	g.f("ADDQ DX, DI")
	g.f("ADDQ DX, R8")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.ret()
}
