package main

// genLong writes the decoders of long blocks, whose scales Go has taken apart.
// They decode spans of 64 values:
//
//	longQ4_K(dst *float32, q *byte, scales *float32, spans int)
//	longQ5_K(dst *float32, q, high *byte, scales *float32, first, spans int)
//	longQ6_K(dst *float32, low, high *byte, scales *float32, first, spans int)
//	longQ2_K(dst *float32, q *byte, scales *float32, first, spans int)
//	longQ3_K(dst *float32, q, high *byte, scales *float32, first, spans int)
//	longIQ4_XS(dst *float32, q *byte, scales *float32, spans int)
//
// first is the number of the first span in the block. Products and sums round
// separately, as in the generic decoders.
func genLong(g *asm) {
	consts := &constants{}
	for _, i := range []isa{avx2, avx512} {
		k := &vkernel{asm: g, isa: i, consts: consts}
		k.longQ4()
		k.longQ5()
		k.longQ6()
		k.longQ2()
		k.longQ3()
		k.longIQ4XS()
	}
	consts.write(g)
}

// affine is a code in register n to factor (4 or 6) times it less offset (5 or
// 7), stored at off(DI).
func (k *vkernel) affine(n, factor, off int) {
	k.op("VCVTDQ2PS", n, n)
	k.op("VMULPS", factor, n, n)
	k.op("VSUBPS", factor+1, n, n)
	k.f("VMOVUPS %s, %d(DI)", k.v(n), off)
}

// and is a bitwise and with a constant.
func (k *vkernel) and(bits uint32, from, to int) {
	if k.lanes == 16 {
		k.op("VPANDD", k.consts.bits(bits), from, to)
	} else {
		k.op("VPAND", k.consts.bits(bits), from, to)
	}
}

func (k *vkernel) or(a, b int) {
	if k.lanes == 16 {
		k.op("VPORD", a, b, b)
	} else {
		k.op("VPOR", a, b, b)
	}
}

// A span has 32 bytes: low nibbles are its first 32 codes.
func (k *vkernel) longQ4() {
	name := "longQ4_K" + k.name
	k.text(name, name+"(dst *float32, q *byte, scales *float32, spans int)", 0, 32)
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ q+8(FP), SI")
	k.f("MOVQ scales+16(FP), DX")
	k.f("MOVQ spans+24(FP), CX")
	loop := k.fresh("loop")
	k.label(loop)
	for n := range 4 {
		k.f("VBROADCASTSS %d(DX), %s", 4*n, k.v(4+n))
	}
	for n := range 32 / k.lanes {
		k.f("VPMOVZXBD %d(SI), %s", n*k.lanes, k.v(0))
		k.op("VPSRLD", "$4", 0, 1)
		k.and(15, 0, 0)
		k.affine(0, 4, n*k.width())
		k.affine(1, 6, 128+n*k.width())
	}
	k.next("SI", 32, 16, loop)
}

// next goes on to the next span.
func (k *vkernel) next(codes string, bytes, scales int, loop string) {
	k.f("ADDQ $%d, %s", bytes, codes)
	k.f("ADDQ $%d, DX", scales)
	k.f("ADDQ $256, DI")
	k.f("DECQ CX")
	k.f("JNZ %s", loop)
	k.f("VZEROUPPER")
	k.f("RET")
}

// Bit g of byte i of the fifth bits belongs to code i of group g; X15 has the
// number of the span's first group.
func (k *vkernel) longQ5() {
	name := "longQ5_K" + k.name
	k.text(name, name+"(dst *float32, q, high *byte, scales *float32, first, spans int)", 0, 48)
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ q+8(FP), SI")
	k.f("MOVQ high+16(FP), BX")
	k.f("MOVQ scales+24(FP), DX")
	k.f("MOVQ first+32(FP), R8")
	k.f("MOVQ spans+40(FP), CX")
	k.f("SHLQ $1, R8")
	loop := k.fresh("loop")
	k.label(loop)
	for n := range 4 {
		k.f("VBROADCASTSS %d(DX), %s", 4*n, k.v(4+n))
	}
	k.f("VMOVQ R8, X15")
	for n := range 32 / k.lanes {
		k.f("VPMOVZXBD %d(SI), %s", n*k.lanes, k.v(0))
		k.f("VPMOVZXBD %d(BX), %s", n*k.lanes, k.v(2))
		k.op("VPSRLD", "X15", 2, 2)
		k.op("VPSRLD", "$1", 2, 3)
		for _, r := range []int{2, 3} {
			k.and(1, r, r)
			k.op("VPSLLD", "$4", r, r)
		}
		k.op("VPSRLD", "$4", 0, 1)
		k.and(15, 0, 0)
		k.or(2, 0)
		k.or(3, 1)
		k.affine(0, 4, n*k.width())
		k.affine(1, 6, 128+n*k.width())
	}
	k.f("ADDQ $2, R8")
	k.next("SI", 32, 16, loop)
}

// A half of a block has 64 bytes of low nibbles, those of its first span, then
// those of its second, and 32 bytes of high bits, two for each group. Go calls
// it for spans of one half.
func (k *vkernel) longQ6() {
	name := "longQ6_K" + k.name
	k.text(name, name+"(dst *float32, low, high *byte, scales *float32, first, spans int)", 0, 48)
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ low+8(FP), SI")
	k.f("MOVQ high+16(FP), BX")
	k.f("MOVQ scales+24(FP), DX")
	k.f("MOVQ first+32(FP), R8")
	k.f("MOVQ spans+40(FP), CX")
	k.f("SHLQ $2, R8")
	loop := k.fresh("loop")
	k.label(loop)
	k.f("VMOVQ R8, X15") // the shift of nibbles, and of high bits
	for group := range 2 {
		for n := range 32 / k.lanes {
			if n*k.lanes%16 == 0 {
				k.f("VBROADCASTSS %d(DX), %s", 8*group+n*k.lanes/16*4, k.v(4))
			}
			k.f("VPMOVZXBD %d(SI), %s", 32*group+n*k.lanes, k.v(0))
			k.f("VPMOVZXBD %d(BX), %s", n*k.lanes, k.v(1))
			k.op("VPSRLD", "X15", 0, 0)
			k.op("VPSRLD", "X15", 1, 1)
			if group == 1 {
				k.op("VPSRLD", "$2", 1, 1)
			}
			k.and(15, 0, 0)
			k.and(3, 1, 1)
			k.op("VPSLLD", "$4", 1, 1)
			k.or(1, 0)
			k.op("VPSUBD", k.consts.bits(32), 0, 0)
			k.op("VCVTDQ2PS", 0, 0)
			k.op("VMULPS", 4, 0, 0)
			k.f("VMOVUPS %s, %d(DI)", k.v(0), 128*group+n*k.width())
		}
	}
	k.f("ADDQ $4, R8")
	k.next("SI", 0, 16, loop)
}

// pairs leaves two-bit codes in register n: those of the span's group, from
// vector v of the 32 bytes at SI that have the codes of two spans; X15 has the
// shift of the span.
func (k *vkernel) pairs(n, group, v int) {
	k.f("VPMOVZXBD %d(SI), %s", v*k.lanes, k.v(n))
	k.op("VPSRLD", "X15", n, n)
	if group == 1 {
		k.op("VPSRLD", "$2", n, n)
	}
	k.and(3, n, n)
}

// Two spans have 32 bytes, a byte for four codes that are 32 apart, and 16
// codes have a factor and an offset. Go calls it for spans of one half.
func (k *vkernel) longQ2() {
	name := "longQ2_K" + k.name
	k.text(name, name+"(dst *float32, q *byte, scales *float32, first, spans int)", 0, 40)
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ q+8(FP), SI")
	k.f("MOVQ scales+16(FP), DX")
	k.f("MOVQ first+24(FP), R8")
	k.f("MOVQ spans+32(FP), CX")
	k.f("SHLQ $2, R8")
	loop := k.fresh("loop")
	k.label(loop)
	k.f("VMOVQ R8, X15")
	for group := range 2 {
		for n := range 32 / k.lanes {
			if n*k.lanes%16 == 0 {
				at := 16*group + n*k.lanes/16*8
				k.f("VBROADCASTSS %d(DX), %s", at, k.v(4))
				k.f("VBROADCASTSS %d(DX), %s", at+4, k.v(5))
			}
			k.pairs(0, group, n)
			k.affine(0, 4, 128*group+n*k.width())
		}
	}
	k.f("ADDQ $4, R8")
	k.next("SI", 0, 32, loop)
}

// The pairs are those of Q2_K; bit g of byte i of the third bits belongs to
// code i of group g of the block. Go calls it for spans of one half.
func (k *vkernel) longQ3() {
	name := "longQ3_K" + k.name
	k.text(name, name+"(dst *float32, q, high *byte, scales *float32, first, spans int)", 0, 48)
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ q+8(FP), SI")
	k.f("MOVQ high+16(FP), BX")
	k.f("MOVQ scales+24(FP), DX")
	k.f("MOVQ first+32(FP), R9")
	k.f("MOVQ spans+40(FP), CX")
	k.f("MOVQ R9, R8")
	k.f("ANDQ $1, R8")
	k.f("SHLQ $2, R8")
	k.f("SHLQ $1, R9")
	loop := k.fresh("loop")
	k.label(loop)
	k.f("VMOVQ R8, X15")
	k.f("VMOVQ R9, X14")
	for group := range 2 {
		for n := range 32 / k.lanes {
			if n*k.lanes%16 == 0 {
				k.f("VBROADCASTSS %d(DX), %s", 8*group+n*k.lanes/16*4, k.v(4))
			}
			k.pairs(0, group, n)
			k.f("VPMOVZXBD %d(BX), %s", n*k.lanes, k.v(1))
			k.op("VPSRLD", "X14", 1, 1)
			if group == 1 {
				k.op("VPSRLD", "$1", 1, 1)
			}
			k.and(1, 1, 1)
			k.op("VPSLLD", "$2", 1, 1)
			k.or(1, 0)
			k.op("VPSUBD", k.consts.bits(4), 0, 0)
			k.op("VCVTDQ2PS", 0, 0)
			k.op("VMULPS", 4, 0, 0)
			k.f("VMOVUPS %s, %d(DI)", k.v(0), 128*group+n*k.width())
		}
	}
	k.f("ADDQ $4, R8")
	k.f("ADDQ $2, R9")
	k.next("SI", 0, 16, loop)
}
