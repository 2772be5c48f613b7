package main

// genDequant writes the decoders of whole blocks of 32 values:
//
//	name(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)
//
// They are exact, so they agree with the generic decoders bit for bit.
func genDequant(g *asm) {
	consts := &constants{}
	for _, i := range []isa{avx2, avx512} {
		k := &vkernel{asm: g, isa: i, consts: consts}
		for _, s := range storages {
			name := "dequant" + s.name + k.name
			g.text(name, name+"(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)", 0, 48)
			g.f("MOVQ dst+0(FP), DX")
			g.f("MOVQ src+8(FP), BX")
			g.f("MOVQ ldd+16(FP), R8")
			g.f("SHLQ $2, R8")
			g.f("MOVQ rowBytes+24(FP), R9")
			g.f("MOVQ rows+40(FP), R10")
			row, loop := g.fresh("row"), g.fresh("loop")
			g.label(row)
			g.f("MOVQ DX, DI")
			g.f("MOVQ BX, SI")
			g.f("MOVQ blocks+32(FP), CX")
			g.label(loop)
			s.decode(k, "SI")
			for n := range 32 / k.lanes {
				g.f("VMOVUPS %s, %d(DI)", k.v(n), n*k.width())
			}
			g.f("ADDQ $%d, SI", s.bytes)
			g.f("ADDQ $128, DI")
			g.f("DECQ CX")
			g.f("JNZ %s", loop)
			g.f("ADDQ R8, DX")
			g.f("ADDQ R9, BX")
			g.f("DECQ R10")
			g.f("JNZ %s", row)
			g.f("VZEROUPPER")
			g.f("RET")
		}
	}
	consts.write(g)
}

// storage is a block format: 32 values in so many bytes.
type storage struct {
	name  string
	bytes int
	// decode leaves the 32 values in registers 0 to 32/lanes-1 and may use 4
	// to 7, and with AVX-512 K1 and K2.
	decode func(k *vkernel, p string)
}

var storages = append([]storage{
	{"F32", 128, func(k *vkernel, p string) {
		for n := range 32 / k.lanes {
			k.f("VMOVUPS %d(%s), %s", n*k.width(), p, k.v(n))
		}
	}},
	{"F16", 64, func(k *vkernel, p string) {
		for n := range 32 / k.lanes {
			k.f("VCVTPH2PS %d(%s), %s", n*k.lanes*2, p, k.v(n))
		}
	}},
	{"BF16", 64, func(k *vkernel, p string) {
		for n := range 32 / k.lanes {
			k.f("VPMOVZXWD %d(%s), %s", n*k.lanes*2, p, k.v(n))
			k.op("VPSLLD", "$16", n, n)
		}
	}},
	{"Q8_0", 34, func(k *vkernel, p string) {
		k.half(p, 0, 4)
		for n := range 32 / k.lanes {
			k.f("VPMOVSXBD %d(%s), %s", 2+n*k.lanes, p, k.v(n))
			k.op("VCVTDQ2PS", n, n)
			k.op("VMULPS", 4, n, n)
		}
	}},
	{"Q4_0", 18, func(k *vkernel, p string) {
		k.half(p, 0, 4)
		if k.lanes == 16 {
			// The sixteen possible values, picked by the codes: a permutation
			// looks at four bits of each index only.
			k.f("VMOVUPS %s, Z5", k.consts.codes())
			k.f("VSUBPS %s, Z5, Z5", k.c(8))
			k.f("VMULPS Z4, Z5, Z5")
			k.pick(p, 2, 5)
			return
		}
		k.nibbles(p, 2)
		for n := range 4 {
			k.op("VPSUBD", k.consts.bits(8), n, n)
			k.op("VCVTDQ2PS", n, n)
			k.op("VMULPS", 4, n, n)
		}
	}},
	{"Q4_1", 20, func(k *vkernel, p string) {
		k.scaleAndMinimum(p)
		if k.lanes == 16 {
			k.f("VFMADD231PS %s, Z4, Z5", k.consts.codes())
			k.pick(p, 4, 5)
			return
		}
		k.nibbles(p, 4)
		for n := range 4 {
			k.op("VCVTDQ2PS", n, n)
			k.op("VFMADD213PS", 5, 4, n)
		}
	}},
	{"Q5_0", 22, func(k *vkernel, p string) {
		k.half(p, 0, 4)
		if k.lanes == 16 {
			k.f("VMULPS %s, Z4, Z6", k.consts.codes())
			k.f("VMOVUPS %s, Z5", k.consts.codes())
			k.f("VSUBPS %s, Z5, Z5", k.c(16))
			k.f("VMULPS Z4, Z5, Z5")
			k.pickFifth(p, 6, 2, 5, 6)
			return
		}
		k.nibbles(p, 6)
		k.fifths(p, 2)
		for n := range 4 {
			k.op("VPSUBD", k.consts.bits(16), n, n)
			k.op("VCVTDQ2PS", n, n)
			k.op("VMULPS", 4, n, n)
		}
	}},
	{"Q5_1", 24, func(k *vkernel, p string) {
		k.scaleAndMinimum(p)
		if k.lanes == 16 {
			k.f("VMOVUPS %s, Z6", k.consts.codes())
			k.f("VADDPS %s, Z6, Z6", k.c(16))
			k.f("VFMADD213PS Z5, Z4, Z6")
			k.f("VFMADD231PS %s, Z4, Z5", k.consts.codes())
			k.pickFifth(p, 8, 4, 5, 6)
			return
		}
		k.nibbles(p, 8)
		k.fifths(p, 4)
		for n := range 4 {
			k.op("VCVTDQ2PS", n, n)
			k.op("VFMADD213PS", 5, 4, n)
		}
	}},
}, levelStorages...)

// scaleAndMinimum broadcasts the two f16 values at p into 4 and 5.
func (k *vkernel) scaleAndMinimum(p string) {
	// They come as pairs in every two lanes.
	if k.lanes == 16 {
		k.f("VPBROADCASTD (%s), Y4", p)
		k.f("VCVTPH2PS Y4, Z4")
	} else {
		k.f("VPBROADCASTD (%s), X4", p)
		k.f("VCVTPH2PS X4, Y4")
	}
	k.op("VMOVSHDUP", 4, 5)
	k.op("VMOVSLDUP", 4, 4)
}

// pick leaves the values of a table that 16 bytes of nibbles at off(p) ask for
// in 0 and 1.
func (k *vkernel) pick(p string, off, table int) {
	k.f("VPMOVZXBD %d(%s), Z1", off, p)
	k.f("VPERMPS Z%d, Z1, Z0", table)
	k.f("VPSRLD $4, Z1, Z1")
	k.f("VPERMPS Z%d, Z1, Z1", table)
}

// pickFifth is pick with fifth bits at bits(p), which choose between two
// tables.
func (k *vkernel) pickFifth(p string, off, bits, unset, set int) {
	k.f("KMOVW %d(%s), K1", bits, p)
	k.f("KMOVW %d(%s), K2", bits+2, p)
	k.f("VPMOVZXBD %d(%s), Z2", off, p)
	k.f("VPERMPS Z%d, Z2, Z0", unset)
	k.f("VPERMPS Z%d, Z2, K1, Z0", set)
	k.f("VPSRLD $4, Z2, Z2")
	k.f("VPERMPS Z%d, Z2, Z1", unset)
	k.f("VPERMPS Z%d, Z2, K2, Z1", set)
}

// nibbles leaves the codes of 16 bytes at off(p) in 0 to 3 as integers.
func (k *vkernel) nibbles(p string, off int) {
	for n := range 2 {
		k.f("VPMOVZXBD %d(%s), Y%d", off+n*8, p, n)
		k.op("VPSRLD", "$4", n, n+2)
		k.op("VPAND", k.consts.bits(15), n, n)
	}
}

// fifths adds the fifth bits at off(p) to the codes in 0 to 3.
func (k *vkernel) fifths(p string, off int) {
	k.f("VPBROADCASTD %d(%s), Y6", off, p)
	k.f("VPSRLVD %s, Y6, Y6", k.consts.lanes())
	for n := range 4 {
		if n > 0 {
			k.op("VPSRLD", "$8", 6, 6)
		}
		k.op("VPAND", k.consts.bits(1), 6, 7)
		k.op("VPSLLD", "$4", 7, 7)
		k.op("VPOR", 7, n, n)
	}
}

// half broadcasts the f16 value at off(p) into every lane of r as f32.
func (k *vkernel) half(p string, off, r int) {
	if k.lanes == 16 {
		k.f("VPBROADCASTW %d(%s), Y%d", off, p, r)
		k.f("VCVTPH2PS Y%d, Z%d", r, r)
		return
	}
	k.f("VPBROADCASTW %d(%s), X%d", off, p, r)
	k.f("VCVTPH2PS X%d, Y%d", r, r)
}
