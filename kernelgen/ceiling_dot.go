package main

// genDot writes the integer and tile loops: registers only, more chains than
// latency x units.
func genDot(g *asm) {
	loop := func(name string, i isa, registers, chains int, step func(n int)) {
		g.text(name, name+"(n int)", 0, 8)
		g.f("MOVQ n+0(FP), CX")
		for n := range registers {
			g.zero(i, n)
		}
		again := g.fresh("loop")
		g.raw("\n\tPCALIGN $32\n")
		g.label(again)
		for n := range chains {
			step(n)
		}
		g.f("DECQ CX")
		g.f("JNZ %s", again)
		g.f("VZEROUPPER")
		g.f("RET")
	}
	// Bytes. Pairs to words, words to dwords, and the sum: what a dot product
	// takes without an instruction for it.
	loop("dotAVX2", avx2, 16, 8, func(n int) {
		g.f("VPMADDUBSW Y14, Y15, Y%d", 8+n%4)
		g.f("VPMADDWD Y13, Y%d, Y%d", 8+n%4, 8+n%4)
		g.f("VPADDD Y%d, Y%d, Y%d", 8+n%4, n, n)
	})
	loop("dotAVXVNNI", avx2, 14, 12, func(n int) { g.vpdpbusdVEX(byte(n), 12, 13) })
	loop("dotVNNI", avx512, 30, 28, func(n int) { g.f("VPDPBUSD Z29, Z28, Z%d", n) })
	// Pairs of words.
	loop("pairsAVX2", avx2, 16, 10, func(n int) {
		g.f("VPMADDWD Y14, Y15, Y%d", 10+n%4)
		g.f("VPADDD Y%d, Y%d, Y%d", 10+n%4, n, n)
	})
	loop("pairsAVXVNNI", avx2, 14, 12, func(n int) { g.vpdpwssdVEX(byte(n), 12, 13) })
	loop("pairsVNNI", avx512, 30, 28, func(n int) { g.f("VPDPWSSD Z29, Z28, Z%d", n) })

	for _, t := range []struct {
		name, op string
		pp, code byte
	}{{"tilesInt8", "TDPBSSD", 3, 0x5e}, {"tilesBF16", "TDPBF16PS", 2, 0x5c}} {
		g.text(t.name, t.name+"(cfg *[64]byte, data *[1024]byte, n int)", 0, 24)
		g.f("MOVQ cfg+0(FP), AX")
		g.f("MOVQ data+8(FP), SI")
		g.f("MOVQ n+16(FP), CX")
		g.f("MOVQ $64, DX")
		g.ldtilecfg()
		for n := range byte(8) {
			if n < 4 {
				g.tilezero(n)
			} else { // zeros would need less power than a product does
				g.tileload(n, rSI, rDX, 0)
			}
		}
		again := g.fresh("loop")
		g.label(again)
		for n := range byte(4) {
			g.tdp(t.op, t.pp, t.code, n, 4+n/2, 6+n%2)
		}
		g.f("DECQ CX")
		g.f("JNZ %s", again)
		g.tilerelease()
		g.f("LFENCE // the call ends when the products do")
		g.f("RET")
	}
}
