package main

import "math/bits"

// genCeiling writes the loops that measure what a core can do at most.
func genCeiling(g *asm) {
	genDot(g)
	for _, i := range []isa{avx2, avx512} {
		// More chains than latency x units, and no memory at all.
		nacc := 12
		if i == avx512 {
			nacc = 28
		}
		name := "fma" + i.name
		g.text(name, name+"(n int)", 16, 8)
		g.ftz()
		g.f("MOVQ n+0(FP), CX")
		for n := range nacc + 2 {
			g.zero(i, n)
		}
		loop := g.fresh("loop")
		g.raw("\n\tPCALIGN $32\n")
		g.label(loop)
		for n := range nacc {
			g.f("VFMADD231PS %s, %s, %s", i.v(nacc), i.v(nacc+1), i.v(n))
		}
		g.f("DECQ CX")
		g.f("JNZ %s", loop)
		g.ret()

		genRead(g, i, "read", 4, false)
		genRead(g, i, "stream", 4, true)
		genRead(g, i, "wide", 8, true)
	}
}

// genRead writes a loop that reads a buffer. Four or eight streams, each an equal part
// of it, keep more misses in flight than one. With ahead, it asks L2 and L1 for lines
// that it reads later, as the kernels for codes do (streamFour). L2 has room for more
// misses than L1: a core reads 1.4 times as fast from memory, and half as fast from L2
// itself. Asking L1 too gives another 10 per cent from memory, eight streams in place of
// four 4 to 7 per cent.
func genRead(g *asm, i isa, name string, count int, ahead bool) {
	const far, near = 2048, 512 // bytes ahead that L2 and L1 are asked for
	name += i.name
	streams := []string{"SI", "DI", "BX", "DX", "R8", "R9", "R10", "R11"}[:count]
	g.text(name, name+"(p *byte, n int)", 0, 16)
	g.f("MOVQ p+0(FP), SI")
	g.f("MOVQ n+8(FP), CX")
	g.f("SHRQ $%d, CX", bits.Len(uint(count))-1) // bytes of one stream
	for s, r := range streams[1:] {
		g.f("LEAQ (%s)(CX*1), %s", streams[s], r)
	}
	g.f("SHRQ $8, CX")
	for n := range streams {
		g.zero(i, n)
	}
	loop := g.fresh("loop")
	g.label(loop)
	for o := 0; o < 256; o += i.width() {
		for s, r := range streams {
			if ahead && o%64 == 0 {
				g.f("PREFETCHT1 %d(%s)", o+far, r)
				g.f("PREFETCHT0 %d(%s)", o+near, r)
			}
			g.f("VORPS %d(%s), %s, %s", o, r, i.v(s), i.v(s))
		}
	}
	for _, r := range streams {
		g.f("ADDQ $256, %s", r)
	}
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}
