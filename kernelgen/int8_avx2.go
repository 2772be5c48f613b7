package main

import "fmt"

// The kernels of 256-bit registers multiply one strip of rows with 16 columns
// and add to f32 sums in memory, 128 bytes a row: sixteen registers hold the
// integer sums and little more.

// int8Flush scales the integer sums in registers 0.. and adds them to memory;
// s0 and s1 take scales and minima, b a scale of the activations.
func int8Flush(k *vkernel, f int8Form, mr, s0, s1, b int) {
	int8Scales(k, 0, s0, s1)
	k.f("MOVQ %d(R8), BX", argC)
	for r := range mr {
		k.f("VBROADCASTSS %d(R11), %s", 4*r, k.v(b))
		for n, s := range []int{s0, s1} {
			k.op("VCVTDQ2PS", 2*r+n, 2*r+n)
			k.op("VMULPS", s, 2*r+n, 2*r+n)
			k.f("VFMADD213PS %d(BX), Y%d, Y%d", 128*r+32*n, b, 2*r+n)
		}
	}
	if f.min {
		int8Scales(k, 64, s0, s1)
		for r := range mr {
			k.f("VBROADCASTSS %d(R12), %s", 4*r, k.v(b))
			for n, s := range []int{s0, s1} {
				k.op("VFMADD231PS", s, b, 2*r+n)
			}
		}
	}
	for r := range mr {
		for n := range 2 {
			k.f("VMOVUPS Y%d, %d(BX)", 2*r+n, 128*r+32*n)
		}
	}
}

// int8Load leaves quad q of 16 columns in registers r0 and r0+1.
func int8Load(k *vkernel, f int8Form, q, r0 int) {
	int8Prefetch(k.asm, f, q)
	for n := range 2 {
		switch {
		case !f.min:
			k.f("VMOVDQU %d(DI), Y%d", q*128+n*32, r0+n)
		case q < 4:
			k.f("VMOVDQU %d(DI), Y%d", q*128+n*32, r0+n)
			k.f("VPAND %s, Y%d, Y%d", k.consts.bits(0x0f0f0f0f), r0+n, r0+n)
		default:
			k.f("VMOVDQU %d(DI), Y%d", (q-4)*128+n*32, r0+n)
			k.f("VPSRLW $4, Y%d, Y%d", r0+n, r0+n)
			k.f("VPAND %s, Y%d, Y%d", k.consts.bits(0x0f0f0f0f), r0+n, r0+n)
		}
	}
}

// genInt8AVX2 has no dot product of four bytes. Signed codes: |w| times the
// activation with w's sign makes pairs of at most 2·128·127, which words
// hold, and a second product sums the pairs. Q4: 32 products of at most
// 15·127 fit a word in pairs, so words are summed over the whole group.
// Registers: 0-7 sums, 8 and 9 weights, 10 and 11 their magnitudes, 12
// activations, 13 and 14 products, 15 ones.
func genInt8AVX2(g *asm, c *constants, f int8Form) {
	const maxMR = 4
	k := &vkernel{asm: g, isa: avx2, consts: c}
	name := "dot" + f.name + "AVX2"
	int8Entry(g, name, maxMR)
	for mr := 1; mr <= maxMR; mr++ {
		g.label(fmt.Sprintf("%s_%d", name, mr))
		int8Strip(g, mr)
		g.f("VMOVDQU %s, Y15", c.bits(0x00010001))
		group := g.fresh("group")
		g.label(group)
		for r := range 2 * mr {
			g.zero(avx2, r)
		}
		for q := range 8 {
			int8Load(k, f, q, 8)
			if !f.min {
				g.f("VPABSB Y8, Y10")
				g.f("VPABSB Y9, Y11")
			}
			for r := range mr {
				g.f("VPBROADCASTD %s, Y12", rowAddr(r, 4*q))
				for n := range 2 {
					if f.min {
						g.f("VPMADDUBSW Y12, Y%d, Y%d", 8+n, 13+n)
						g.f("VPADDW Y%d, Y%d, Y%d", 13+n, 2*r+n, 2*r+n)
						continue
					}
					g.f("VPSIGNB Y%d, Y12, Y%d", 8+n, 13+n)
					g.f("VPMADDUBSW Y%d, Y%d, Y%d", 13+n, 10+n, 13+n)
					g.f("VPMADDWD Y15, Y%d, Y%d", 13+n, 13+n)
					g.f("VPADDD Y%d, Y%d, Y%d", 13+n, 2*r+n, 2*r+n)
				}
			}
		}
		int8Behind(g, f, mr)
		if f.min {
			for r := range 2 * mr {
				g.f("VPMADDWD Y15, Y%d, Y%d", r, r)
			}
		}
		int8Flush(k, f, mr, 8, 9, 12)
		int8Next(g, f, group)
		g.ret()
	}
}

// genInt8AVXVNNI takes unsigned weights as genInt8VNNI does. Registers: 0-11
// sums, 12 and 13 weights, 14 and 15 activations.
func genInt8AVXVNNI(g *asm, c *constants, f int8Form) {
	const maxMR = 6
	k := &vkernel{asm: g, isa: avx2, consts: c}
	name := "dot" + f.name + "AVXVNNI"
	int8Entry(g, name, maxMR)
	for mr := 1; mr <= maxMR; mr++ {
		g.label(fmt.Sprintf("%s_%d", name, mr))
		int8Strip(g, mr)
		group := g.fresh("group")
		g.label(group)
		for r := range 2 * mr {
			if f.min {
				g.zero(avx2, r)
			} else {
				g.f("VPBROADCASTD %d(R12), Y%d", r/2*4, r)
			}
		}
		for q := range 8 {
			int8Load(k, f, q, 12)
			for r := range mr {
				a := byte(14 + r%2)
				g.f("VPBROADCASTD %s, Y%d", rowAddr(r, 4*q), a)
				g.vpdpbusdVEX(byte(2*r), 12, a)
				g.vpdpbusdVEX(byte(2*r+1), 13, a)
			}
		}
		int8Behind(g, f, mr)
		int8Flush(k, f, mr, 12, 13, 14)
		int8Next(g, f, group)
		g.ret()
	}
}
