package main

import "fmt"

// The matrix-vector kernels of Q2_K and Q3_K. x is in the form of prepareQ6_K:
// in the order of bytes, with 32 times the sums for each 16.

func (k *vkernel) constsQ2K() {
	if k.lanes == 8 {
		k.f("VMOVUPS %s, Y4", k.consts.bits(0x03030303))
		k.bytePicks(6)
		return
	}
	k.f("VMOVUPS %s, Z4", k.consts.bits(0x03030303))
	k.bytePicks(17)
	for s := range 2 {
		k.vector(20+s, fmt.Sprintf("pair%d", s), func(lane int) uint32 { return uint32(4*s + lane/8*2) })
	}
	k.spanScales("spanQ6_K", 4, 1)
}

// pairsOf leaves the two-bit codes of group g in 13, with AVX-512 those of two
// groups from g on in 10. They lie at off(p), four groups in 32 bytes.
func (k *vkernel) pairsOf(g, off int, p string) {
	at := off + 32*(g/4)
	if k.lanes == 16 {
		k.f("VBROADCASTI64X4 %d(%s), Z10", at, p)
		k.f("VPSRLVD Z%d, Z10, Z10", 20+g/2%2)
		k.f("VPANDD Z4, Z10, Z10")
		return
	}
	k.f("VMOVDQU %d(%s), Y13", at, p)
	if g%4 > 0 {
		k.f("VPSRLD $%d, Y13, Y13", 2*(g%4))
	}
	k.f("VPAND Y4, Y13, Y13")
}

// addHalves adds what product left of group g, times the scales of its two
// halves, at AX.
func (k *vkernel) addHalves(g, acc int) {
	k.f("VBROADCASTSD %d(AX), Y14", 8*g)
	k.f("VPERMILPS %s, Y14, Y14", k.consts.vector("halves", 0, func(lane int) uint32 { return uint32(lane / 4 % 2) }))
	k.op("VFMADD231PS", 14, 15, acc)
}

// A block begins with 16 bytes of a scale and a minimum each.
func (k *vkernel) rowQ2K(acc int, p string) {
	k.half(p, 80, 11)
	k.half(p, 82, 12)
	k.op("VMULPS", k.c(1.0/32), 12, 12)
	for at := 0; at < 16; at += k.lanes {
		k.f("VPMOVZXBD %d(%s), %s", at, p, k.v(9))
		k.op("VPSRLD", "$4", 9, 10)
		k.and(15, 9, 9)
		for n, scale := range []int{11, 12} {
			k.op("VCVTDQ2PS", 9+n, 9+n)
			k.op("VMULPS", scale, 9+n, 9+n)
		}
		k.op("VFNMADD231PS", fmt.Sprintf("%d(DX)", 4*at), 10, acc)
		if k.lanes == 8 {
			k.f("VMOVUPS Y9, %d(AX)", 4*at)
		}
	}
	for g := 0; g < 8; g += k.lanes / 8 {
		k.pairsOf(g, 16, p)
		if k.lanes == 16 {
			k.product(10, 128*g, 17)
			k.addSpan(g/2, acc)
			continue
		}
		k.product(13, g/2*256+g%2*32, 6)
		k.addHalves(g, acc)
	}
}

func (k *vkernel) constsQ3K() {
	k.constsQ2K()
	if k.lanes == 8 {
		return
	}
	k.f("VMOVUPS %s, Z22", k.consts.bits(0x04040404))
	for s := range 4 {
		k.vector(28+s, fmt.Sprintf("third%d", s), func(lane int) uint32 { return uint32(2-2*s-lane/8) % 32 })
	}
}

// A block has third bits, of which bit g of byte i belongs to code i of group
// g, then pairs as in Q2_K, and 16 scales of six bits in 12 bytes: the low four
// are nibbles of the first eight, the upper two are in the last four. Scales
// stand for 32 less and codes for 4 less than they are.
func (k *vkernel) rowQ3K(acc int, p string) {
	k.half(p, 108, 11)
	for at := 0; at < 16; at += k.lanes {
		k.f("VPBROADCASTQ 96(%s), X9", p)
		k.f("VPBROADCASTD 104(%s), X10", p)
		k.f("VPMOVZXBD X9, %s", k.v(9))
		k.f("VPMOVZXBD X10, %s", k.v(10))
		k.op("VPSRLVD", k.consts.vector("low3", 4*at, func(lane int) uint32 { return uint32(lane / 8 * 4) }), 9, 9)
		k.op("VPSRLVD", k.consts.vector("high3", 4*at, func(lane int) uint32 { return uint32(lane / 4 * 2) }), 10, 10)
		k.and(15, 9, 9)
		k.and(3, 10, 10)
		k.op("VPSLLD", "$4", 10, 10)
		k.or(10, 9)
		k.op("VPSUBD", k.consts.bits(32), 9, 9)
		k.op("VCVTDQ2PS", 9, 9)
		k.op("VMULPS", 11, 9, 9)
		k.op("VMULPS", k.c(1.0/8), 9, 10)
		k.op("VFNMADD231PS", fmt.Sprintf("%d(DX)", 4*at), 10, acc)
		if k.lanes == 8 {
			k.f("VMOVUPS Y9, %d(AX)", 4*at)
		}
	}
	if k.lanes == 16 {
		k.f("VBROADCASTI64X4 (%s), Z11", p)
		for s := range 4 {
			k.pairsOf(2*s, 32, p)
			k.f("VPROLVD Z%d, Z11, Z12", 28+s)
			k.f("VPTERNLOGD $0xf8, Z22, Z12, Z10")
			k.product(10, 256*s, 17)
			k.addSpan(s, acc)
		}
		return
	}
	k.f("VMOVDQU (%s), Y8", p)
	for g := range 8 {
		k.pairsOf(g, 32, p)
		third := "Y12"
		switch {
		case g < 2:
			k.f("VPSLLD $%d, Y8, Y12", 2-g)
		case g > 2:
			k.f("VPSRLD $%d, Y8, Y12", g-2)
		default:
			third = "Y8"
		}
		k.f("VPAND %s, %s, Y12", k.consts.bits(0x04040404), third)
		k.f("VPOR Y12, Y13, Y13")
		k.product(13, g/2*256+g%2*32, 6)
		k.addHalves(g, acc)
	}
}
