package main

import "fmt"

// The matrix-vector kernels of Q5_1 and Q5_0: 16 bytes of nibbles, whose fifth
// bits are 32 bits of their own. With AVX-512 x comes as it is; with AVX2 in
// the form of prepareQ5_1: of every 32 values first those at 0, 4, 8 and so on,
// then those at 1, 5, 9, because the bytes of all 32 codes are taken apart by
// their place in 32 bits.

// fifthSetup loads the constants of fifthRow; codes stand for themselves and
// offset with AVX-512.
func fifthSetup(offset float32) func(k *vkernel) {
	return func(k *vkernel) {
		k.zero(k.isa, 4)
		if k.lanes == 8 {
			k.f("VMOVUPS %s, Y5", k.consts.bits(0x0f0f0f0f))
			for b := range 2 {
				k.vector(6+b, fmt.Sprintf("byte%d", b+1), pickByte(b+1))
			}
			return
		}
		for half, r := range []int{5, 6} {
			k.f("VMOVUPS %s, Z%d", k.consts.codes(), r)
			if add := offset + float32(16*half); add != 0 {
				k.f("VADDPS %s, Z%d, Z%d", k.c(add), r, r)
			}
		}
		// What brings the bit of a lane, and of the lane of the high nibbles,
		// to the place of a fifth.
		k.vector(7, "fifthLow", func(lane int) uint32 { return uint32(lane-4) % 32 })
		k.vector(10, "fifthHigh", func(lane int) uint32 { return uint32(lane + 16 - 4) })
		k.f("VMOVUPS %s, Z11", k.consts.bits(16))
	}
}

// fifthRow multiplies the 16 bytes at off(p), with fifths at bits(p), with x;
// scales lie stride apart.
func fifthRow(off, bits, stride int) func(k *vkernel, s int, p string) {
	return func(k *vkernel, s int, p string) {
		if k.lanes == 16 {
			// A permutation of two registers looks at five bits of each index:
			// it is the mask and the conversion in one.
			k.f("VPMOVZXBD %d(%s), Z12", off, p)
			k.f("VPBROADCASTD %d(%s), Z13", bits, p)
			k.f("VPRORVD Z7, Z13, Z14")
			k.f("VPTERNLOGD $0xe2, Z12, Z11, Z14")
			k.f("VPERMI2PS Z6, Z5, Z14")
			k.f("VPRORVD Z10, Z13, Z15")
			k.f("VPSRLD $4, Z12, Z12")
			k.f("VPTERNLOGD $0xe2, Z12, Z11, Z15")
			k.f("VPERMI2PS Z6, Z5, Z15")
			k.f("VMULPS Z8, Z14, Z14")
			k.f("VFMADD231PS Z9, Z15, Z14")
			k.scaled(stride*s, 14, s, 0)
			return
		}
		k.f("VMOVDQU %d(%s), X12", off, p)
		k.f("VPSRLD $4, X12, X13")
		k.f("VINSERTI128 $1, X13, Y12, Y12")
		k.f("VPAND Y5, Y12, Y12")
		k.f("VPBROADCASTD %d(%s), Y13", bits, p)
		k.f("VPSHUFB %s, Y13, Y13", k.consts.vector("eights", 0, func(lane int) uint32 { return 0x01010101 * uint32(lane/2%4) }))
		bit := k.consts.vector("bitOfByte", 0, func(lane int) uint32 { return []uint32{0x08040201, 0x80402010}[lane%2] })
		k.f("VPAND %s, Y13, Y13", bit)
		k.f("VPCMPEQB %s, Y13, Y13", bit)
		k.f("VPAND %s, Y13, Y13", k.consts.bits(0x10101010))
		k.f("VPOR Y13, Y12, Y12")
		for b := range 4 {
			switch b {
			case 0:
				k.f("VPAND %s, Y12, Y13", k.consts.bits(255))
			case 3:
				k.f("VPSRLD $24, Y12, Y13")
			default:
				k.f("VPSHUFB Y%d, Y12, Y13", 5+b)
			}
			k.f("VCVTDQ2PS Y13, Y13")
			if b == 0 {
				k.f("VMULPS Y8, Y13, Y14")
			} else {
				k.f("VFMADD231PS Y%d, Y13, Y14", 8+b)
			}
		}
		k.scaled(stride*s, 14, s, 13)
	}
}
