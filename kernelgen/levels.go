package main

import "fmt"

// Encodings whose codes of four bits stand for the levels of a table: IQ4_NL,
// IQ4_XS and MXFP4. The levels are those of internal/tensor.
type levelTable struct {
	name   string
	levels [16]int8
}

var (
	levelsIQ4   = levelTable{"levelsIQ4", [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}}
	levelsMXFP4 = levelTable{"levelsMXFP4", [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}}
)

// bytes is the table as the operand of a shuffle.
func (t levelTable) bytes(c *constants) string {
	return c.vector(t.name+"Bytes", 0, t.word)
}

// word has four levels, the same ones in every 16 bytes.
func (t levelTable) word(lane int) (w uint32) {
	for n := range 4 {
		w |= uint32(uint8(t.levels[lane%4*4+n])) << (8 * n)
	}
	return w
}

// floats is the table as f32 values.
func (t levelTable) floats(c *constants) string {
	return c.vector(t.name, 0, func(lane int) uint32 { return f32bits(float32(t.levels[lane])) })
}

// levelCodes makes bytes that stand for the nibbles of X12 in X12, the low
// ones, and X13; X5 has the table and X6 the mask.
func (k *vkernel) levelCodes() {
	k.f("VPSRLD $4, X12, X13")
	for _, x := range []int{12, 13} {
		k.f("VPAND X6, X%d, X%d", x, x)
		k.f("VPSHUFB X%d, X5, X%d", x, x)
	}
}

// levels32 leaves what 16 bytes of nibbles at off(p) stand for, times register
// 4, in 0 to 32/lanes-1. AVX2 uses 5 to 7.
func (k *vkernel) levels32(t levelTable, p string, off int) {
	if k.lanes == 16 {
		k.f("VMULPS %s, Z4, Z5", t.floats(k.consts))
		k.pick(p, off, 5)
		return
	}
	k.f("VMOVDQU %s, X7", t.bytes(k.consts))
	k.f("VMOVDQU %d(%s), X5", off, p)
	k.f("VPSRLD $4, X5, X6")
	for n, x := range []int{5, 6} {
		k.f("VPAND %s, X%d, X%d", k.consts.bits(0x0f0f0f0f), x, x)
		k.f("VPSHUFB X%d, X7, X%d", x, x)
		k.f("VPMOVSXBD X%d, Y%d", x, 2*n)
		k.f("VPSRLDQ $8, X%d, X%d", x, x)
		k.f("VPMOVSXBD X%d, Y%d", x, 2*n+1)
	}
	for n := range 4 {
		k.op("VCVTDQ2PS", n, n)
		k.op("VMULPS", 4, n, n)
	}
}

// powers makes scales of MXFP4, halved: 2^(e-128) of each integer e in
// register r, subnormal for the two smallest. t and u are lost.
func (k *vkernel) powers(r, t, u string) {
	and := "VPAND"
	if r[0] == 'Z' {
		and = "VPANDD"
	}
	k.f("VPSLLD $23, %s, %s", r, t)
	k.f("VPSUBD %s, %s, %s", k.consts.bits(0x00800000), t, t)
	k.f("VMOVUPS %s, %s", k.consts.bits(0x00200000), u)
	k.f("VPSLLVD %s, %s, %s", r, u, u)
	k.f("%s %s, %s, %s", and, k.consts.bits(0x00600000), u, u) // none from 2 on
	k.f("VPMAXSD %s, %s, %s", u, t, r)
}

var levelStorages = []storage{
	{"IQ4_NL", 18, func(k *vkernel, p string) {
		k.half(p, 0, 4)
		k.levels32(levelsIQ4, p, 2)
	}},
	{"MXFP4", 17, func(k *vkernel, p string) {
		k.f("VPBROADCASTB (%s), X4", p)
		k.f("VPMOVZXBD X4, %s", k.v(4))
		k.powers(k.v(4), k.v(5), k.v(6))
		k.levels32(levelsMXFP4, p, 1)
	}},
}

// levelSetup leaves the table in 5, with AVX2 as bytes and with the mask in 6.
func levelSetup(t levelTable) func(k *vkernel) {
	return func(k *vkernel) {
		if k.lanes == 16 {
			k.f("VMOVUPS %s, Z5", t.floats(k.consts))
			return
		}
		k.f("VMOVDQU %s, X5", t.bytes(k.consts))
		k.f("VMOVDQU %s, X6", k.consts.bits(0x0f0f0f0f))
	}
}

// levelProduct leaves Σ level·x of the 16 bytes at off(p) in 15; x are the
// operands of vectors.
func (k *vkernel) levelProduct(p string, off int, x func(n int) any) {
	if k.lanes == 16 {
		k.f("VPMOVZXBD %d(%s), Z14", off, p)
		k.f("VPERMPS Z5, Z14, Z15")
		k.f("VPSRLD $4, Z14, Z14")
		k.f("VPERMPS Z5, Z14, Z14")
		k.op("VMULPS", x(0), 15, 15)
		k.op("VFMADD231PS", x(1), 14, 15)
		return
	}
	k.f("VMOVDQU %d(%s), X12", off, p)
	k.levelCodes()
	for n := range 4 {
		from := 12 + n/2
		if n%2 == 1 {
			k.f("VPSRLDQ $8, X%d, X%d", from, from)
		}
		k.f("VPMOVSXBD X%d, Y14", from)
		k.op("VCVTDQ2PS", 14, 14)
		if n == 0 {
			k.op("VMULPS", x(0), 14, 15)
		} else {
			k.op("VFMADD231PS", x(n), 14, 15)
		}
	}
}

func levelRow(off int) func(k *vkernel, s int, p string) {
	return func(k *vkernel, s int, p string) {
		k.levelProduct(p, off, func(n int) any { return 8 + n })
		k.scaled(4*s, 15, s, 14)
	}
}

var levelGemvs = []gemvKernel{
	{name: "IQ4_NL", bytes: 18, accs: 1, setup: levelSetup(levelsIQ4), scales: (*vkernel).halves, row: levelRow(2)},
	{name: "MXFP4", bytes: 17, accs: 1, setup: levelSetup(levelsMXFP4), scales: func(k *vkernel) {
		k.f("VXORPS X12, X12, X12")
		for s, p := range streams {
			k.f("VPINSRB $%d, (%s), X12, X12", s, p)
		}
		k.f("VPMOVZXBD X12, X12")
		k.powers("X12", "X13", "X14")
		k.f("VMOVUPS X12, (AX)")
	}, row: levelRow(1)},
}

// longIQ4XS decodes IQ4_XS: 16 bytes have 32 codes.
func (k *vkernel) longIQ4XS() {
	name := "longIQ4_XS" + k.name
	k.text(name, name+"(dst *float32, q *byte, scales *float32, spans int)", 0, 32)
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ q+8(FP), SI")
	k.f("MOVQ scales+16(FP), DX")
	k.f("MOVQ spans+24(FP), CX")
	loop := k.fresh("loop")
	k.label(loop)
	for group := range 2 {
		k.f("VBROADCASTSS %d(DX), %s", 8*group, k.v(4))
		k.levels32(levelsIQ4, "SI", 16*group)
		for n := range 32 / k.lanes {
			k.f("VMOVUPS %s, %d(DI)", k.v(n), 128*group+n*k.width())
		}
	}
	k.next("SI", 32, 16, loop)
}

// rowIQ4XS takes x as it is. The eight scales have their low bits in the
// nibbles at 4, their two upper ones at 2, and stand for 32 less.
func (k *vkernel) rowIQ4XS(acc int, p string) {
	k.f("VPBROADCASTD 4(%s), Y12", p)
	k.f("VPBROADCASTD (%s), Y13", p)
	k.f("VPSRLVD %s, Y12, Y12", k.consts.vector("nibblesOf", 0, func(lane int) uint32 { return uint32(lane % 8 * 4) }))
	k.f("VPSRLVD %s, Y13, Y13", k.consts.vector("pairsOf", 0, func(lane int) uint32 { return uint32(16 + lane%8*2) }))
	k.f("VPAND %s, Y12, Y12", k.consts.bits(15))
	k.f("VPAND %s, Y13, Y13", k.consts.bits(3))
	k.f("VPSLLD $4, Y13, Y13")
	k.f("VPOR Y13, Y12, Y12")
	k.f("VPSUBD %s, Y12, Y12", k.consts.bits(32))
	k.f("VCVTDQ2PS Y12, Y12")
	k.f("VPBROADCASTW (%s), X13", p)
	k.f("VCVTPH2PS X13, Y13")
	k.f("VMULPS Y13, Y12, Y12")
	k.f("VMOVUPS Y12, (AX)")
	for g := range 8 {
		k.levelProduct(p, 8+16*g, func(n int) any { return fmt.Sprintf("%d(BX)", 128*g+n*k.width()) })
		k.scaled(4*g, 15, acc, 14)
	}
}
