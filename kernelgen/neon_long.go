package main

// genLongNEON writes the decoders of long blocks that genLong describes.
func genLongNEON(g *asm) {
	k := &nasm{asm: g, pool: &npool{}}
	k.longQ4()
	k.longQ5()
	k.longQ6()
	k.longQ2()
	k.longQ3()
	k.longIQ4XS()
	k.pool.write(g)
}

// values stores the 16 codes of s at off(R0), multiplied with factor and, where
// it is not factor too, less offset.
func (k *nasm) values(s, factor, offset, off int) {
	k.codes(s, 4)
	for n := range 4 {
		k.v("SCVTF.4S", 4+n, 4+n)
		k.v("FMUL.4S", 4+n, 4+n, factor)
		if offset != factor {
			k.v("FSUB.4S", 4+n, 4+n, offset)
		}
		k.store(4+n, "R0", off+16*n)
	}
}

// fourScales leaves the four values at R3 in 20 to 23.
func (k *nasm) fourScales() {
	k.load(24, "R3", 0)
	for n := range 4 {
		k.lane(20+n, 24, n)
	}
}

// next goes on to the next span.
func (k *nasm) next(bytes int, loop string) {
	if bytes > 0 {
		k.f("ADD $%d, R1", bytes)
	}
	k.f("ADD $16, R3")
	k.f("ADD $256, R0")
	k.f("SUBS $1, R5, R5")
	k.f("BNE %s", loop)
	k.f("RET")
}

func (k *nasm) longQ4() {
	k.text("longQ4_KNEON", "longQ4_KNEON(dst *float32, q *byte, scales *float32, spans int)", 0, 32)
	k.usePool()
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD q+8(FP), R1")
	k.f("MOVD scales+16(FP), R3")
	k.f("MOVD spans+24(FP), R5")
	k.bits(16, 0x0f0f0f0f)
	loop := k.fresh("loop")
	k.label(loop)
	k.fourScales()
	for n := range 2 {
		k.load(0, "R1", 16*n)
		k.ushrBytes(1, 0, 4)
		k.v("AND.16B", 0, 0, 16)
		k.values(0, 20, 21, 64*n)
		k.values(1, 22, 23, 128+64*n)
	}
	k.next(32, loop)
}

func (k *nasm) longQ5() {
	k.text("longQ5_KNEON", "longQ5_KNEON(dst *float32, q, high *byte, scales *float32, first, spans int)", 0, 48)
	k.usePool()
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD q+8(FP), R1")
	k.f("MOVD high+16(FP), R2")
	k.f("MOVD scales+24(FP), R3")
	k.f("MOVD first+32(FP), R4")
	k.f("MOVD spans+40(FP), R5")
	k.f("LSL $1, R4")
	k.f("NEG R4, R4") // a shift to the left by less than nothing is one to the right
	k.bits(16, 0x0f0f0f0f)
	k.bits(17, 0x01010101)
	loop := k.fresh("loop")
	k.label(loop)
	k.fourScales()
	k.f("VDUP R4, V18.B16")
	for n := range 2 {
		k.load(0, "R1", 16*n)
		k.load(2, "R2", 16*n)
		k.v("USHL.16B", 2, 2, 18)
		k.ushrBytes(3, 2, 1)
		k.ushrBytes(1, 0, 4)
		k.v("AND.16B", 0, 0, 16)
		for r := range 2 {
			k.v("AND.16B", 2+r, 2+r, 17)
			k.shlBytes(2+r, 2+r, 4)
			k.v("ORR.16B", r, r, 2+r)
		}
		k.values(0, 20, 21, 64*n)
		k.values(1, 22, 23, 128+64*n)
	}
	k.f("SUB $2, R4")
	k.next(32, loop)
}

func (k *nasm) longQ6() {
	k.text("longQ6_KNEON", "longQ6_KNEON(dst *float32, low, high *byte, scales *float32, first, spans int)", 0, 48)
	k.usePool()
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD low+8(FP), R1")
	k.f("MOVD high+16(FP), R2")
	k.f("MOVD scales+24(FP), R3")
	k.f("MOVD first+32(FP), R4")
	k.f("MOVD spans+40(FP), R5")
	k.f("LSL $2, R4")
	k.f("NEG R4, R4")
	k.bits(16, 0x0f0f0f0f)
	k.bits(17, 0x03030303)
	k.bits(19, 0x20202020)
	loop := k.fresh("loop")
	k.label(loop)
	k.fourScales()
	k.f("VDUP R4, V18.B16") // the shift of nibbles, and of high bits
	for group := range 2 {
		for n := range 2 {
			k.load(0, "R1", 32*group+16*n)
			k.load(1, "R2", 16*n)
			k.v("USHL.16B", 0, 0, 18)
			k.v("USHL.16B", 1, 1, 18)
			if group == 1 {
				k.ushrBytes(1, 1, 2)
			}
			k.v("AND.16B", 0, 0, 16)
			k.v("AND.16B", 1, 1, 17)
			k.shlBytes(1, 1, 4)
			k.v("ORR.16B", 0, 0, 1)
			k.v("SUB.16B", 0, 0, 19)
			scale := 20 + 2*group + n
			k.values(0, scale, scale, 128*group+64*n)
		}
	}
	k.f("SUB $4, R4")
	k.next(0, loop)
}

// pairs leaves two-bit codes in register 0: those of the span's group, from
// half n of the 32 bytes at R1; 18 has the shift of the span and 16 the mask.
func (k *nasm) pairs(group, n int) {
	k.load(0, "R1", 16*n)
	k.v("USHL.16B", 0, 0, 18)
	if group == 1 {
		k.ushrBytes(0, 0, 2)
	}
	k.v("AND.16B", 0, 0, 16)
}

func (k *nasm) longQ2() {
	k.text("longQ2_KNEON", "longQ2_KNEON(dst *float32, q *byte, scales *float32, first, spans int)", 0, 40)
	k.usePool()
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD q+8(FP), R1")
	k.f("MOVD scales+16(FP), R3")
	k.f("MOVD first+24(FP), R4")
	k.f("MOVD spans+32(FP), R5")
	k.f("LSL $2, R4")
	k.f("NEG R4, R4")
	k.bits(16, 0x03030303)
	loop := k.fresh("loop")
	k.label(loop)
	k.f("VDUP R4, V18.B16")
	for group := range 2 {
		k.fourScales()
		for n := range 2 {
			k.pairs(group, n)
			k.values(0, 20+2*n, 21+2*n, 128*group+64*n)
		}
		if group == 0 {
			k.f("ADD $16, R3")
		}
	}
	k.f("SUB $4, R4")
	k.next(0, loop)
}

func (k *nasm) longQ3() {
	k.text("longQ3_KNEON", "longQ3_KNEON(dst *float32, q, high *byte, scales *float32, first, spans int)", 0, 48)
	k.usePool()
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD q+8(FP), R1")
	k.f("MOVD high+16(FP), R2")
	k.f("MOVD scales+24(FP), R3")
	k.f("MOVD first+32(FP), R6")
	k.f("MOVD spans+40(FP), R5")
	k.f("AND $1, R6, R4")
	k.f("LSL $2, R4")
	k.f("NEG R4, R4")
	k.f("LSL $1, R6")
	k.f("NEG R6, R6")
	k.bits(16, 0x03030303)
	k.bits(17, 0x01010101)
	k.bits(19, 0x04040404)
	loop := k.fresh("loop")
	k.label(loop)
	k.fourScales()
	k.f("VDUP R4, V18.B16")
	k.f("VDUP R6, V25.B16")
	for group := range 2 {
		for n := range 2 {
			k.pairs(group, n)
			k.load(1, "R2", 16*n)
			k.v("USHL.16B", 1, 1, 25)
			if group == 1 {
				k.ushrBytes(1, 1, 1)
			}
			k.v("AND.16B", 1, 1, 17)
			k.shlBytes(1, 1, 2)
			k.v("ORR.16B", 0, 0, 1)
			k.v("SUB.16B", 0, 0, 19)
			scale := 20 + 2*group + n
			k.values(0, scale, scale, 128*group+64*n)
		}
	}
	k.f("SUB $4, R4")
	k.f("SUB $2, R6")
	k.next(0, loop)
}

func (k *nasm) longIQ4XS() {
	k.text("longIQ4_XSNEON", "longIQ4_XSNEON(dst *float32, q *byte, scales *float32, spans int)", 0, 32)
	k.usePool()
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD q+8(FP), R1")
	k.f("MOVD scales+16(FP), R3")
	k.f("MOVD spans+24(FP), R5")
	k.bits(16, 0x0f0f0f0f)
	k.levelsTable(levelsIQ4)
	loop := k.fresh("loop")
	k.label(loop)
	k.fourScales()
	for group := range 2 {
		k.load(0, "R1", 16*group)
		k.ushrBytes(1, 0, 4)
		k.v("AND.16B", 0, 0, 16)
		for n := range 2 {
			k.levelCodes(n)
			scale := 20 + 2*group + n
			k.values(n, scale, scale, 128*group+64*n)
		}
	}
	k.next(32, loop)
}
