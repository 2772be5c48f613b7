package main

import "fmt"

// genInt8VNNI multiplies strips of up to seven rows with a panel of 32
// columns. Weights are unsigned (128 more than the code), which the sums make
// up for by starting at -128 x the sum of the activations; Q4 codes are
// unsigned by themselves. With signed set it takes the weights of the tiles and
// turns them on the way, for rows too few to fill a tile. Registers: 0-13
// integer sums, 14-27 f32 sums, 28 and 29 weights, 30 and 31 activations.
func genInt8VNNI(g *asm, c *constants, f int8Form, signed bool) {
	const maxMR = 7
	k := &vkernel{asm: g, isa: avx512, consts: c}
	name := "dot" + f.name + "VNNI"
	if signed {
		name = "dot" + f.name + "Few"
	}
	int8Entry(g, name, maxMR)
	for mr := 1; mr <= maxMR; mr++ {
		strip := fmt.Sprintf("%s_%d", name, mr)
		g.label(strip)
		int8Strip(g, mr)
		g.f("MOVQ %d(R8), BX", curInit)
		for r := range mr {
			g.f("VMOVUPS (BX), Z%d", 14+2*r)
			g.f("VMOVUPS 64(BX), Z%d", 15+2*r)
			if r < mr-1 {
				g.f("ADDQ %d(R8), BX", argLDI)
			}
		}
		group := g.fresh("group")
		g.raw("\n\tPCALIGN $32\n")
		g.label(group)
		for r := range 2 * mr {
			if f.min {
				g.zero(avx512, r)
			} else {
				g.f("VPBROADCASTD %d(R12), Z%d", r/2*4, r)
			}
		}
		for q := range 8 {
			for n := range 2 {
				switch {
				case !f.min:
					g.f("VMOVDQU64 %d(DI), Z%d", q*128+n*64, 28+n)
					if signed {
						g.f("VPXORD %s, Z%d, Z%d", c.bits(0x80808080), 28+n, 28+n)
					}
				case q < 4:
					g.f("VMOVDQU64 %d(DI), Z%d", q*128+n*64, 28+n)
					g.f("VPANDD %s, Z%d, Z%d", c.bits(0x0f0f0f0f), 28+n, 28+n)
				default:
					g.f("VPSRLW $4, %d(DI), Z%d", (q-4)*128+n*64, 28+n)
					g.f("VPANDD %s, Z%d, Z%d", c.bits(0x0f0f0f0f), 28+n, 28+n)
				}
			}
			for r := range mr {
				g.f("VPBROADCASTD %s, Z%d", rowAddr(r, 4*q), 30+r%2)
				g.f("VPDPBUSD Z%d, Z28, Z%d", 30+r%2, 2*r)
				g.f("VPDPBUSD Z%d, Z29, Z%d", 30+r%2, 2*r+1)
			}
			int8Prefetch(g, f, q)
		}
		int8Behind(g, f, mr)
		int8Scales(k, 0, 28, 29)
		if f.min {
			int8Scales(k, 64, 30, 31)
		}
		for r := range mr {
			for n := range 2 {
				g.f("VCVTDQ2PS Z%d, Z%d", 2*r+n, 2*r+n)
				g.f("VMULPS Z%d, Z%d, Z%d", 28+n, 2*r+n, 2*r+n)
				g.f("VFMADD231PS.BCST %d(R11), Z%d, Z%d", 4*r, 2*r+n, 14+2*r+n)
				if f.min {
					g.f("VFMADD231PS.BCST %d(R12), Z%d, Z%d", 4*r, 30+n, 14+2*r+n)
				}
			}
		}
		int8Next(g, f, group)
		g.f("MOVQ %d(R8), BX", curC)
		for r := range mr {
			g.f("VMOVUPS Z%d, (BX)", 14+2*r)
			g.f("VMOVUPS Z%d, 64(BX)", 15+2*r)
			g.f("ADDQ %d(R8), BX", argLDC)
		}
		g.f("MOVQ BX, %d(R8)", curC)
		g.f("MOVQ %d(R8), BX", argLDI)
		g.f("IMULQ $%d, BX", mr)
		g.f("ADDQ BX, %d(R8)", curInit)
		g.f("MOVQ CX, BX")
		g.f("IMULQ $%d, BX", mr)
		g.f("ADDQ BX, %d(R8)", curA)
		g.f("ADDQ $%d, %d(R8)", 4*mr, curSA)
		g.f("ADDQ $%d, %d(R8)", 4*mr, curAux)
		g.f("DECQ %d(R8)", argStrips)
		g.f("JNZ %s", strip)
		g.ret()
	}
}
