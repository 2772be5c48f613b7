package main

// genDot writes the int8 and tile loops: registers only, more chains than
// latency x units.
func genDot(g *asm) {
	// Pairs to words, words to dwords, and the sum: what a dot product of
	// bytes takes without an instruction for it.
	g.text("dotAVX2", "dotAVX2(n int)", 0, 8)
	g.f("MOVQ n+0(FP), CX")
	for n := range 16 {
		g.zero(avx2, n)
	}
	loop := g.fresh("loop")
	g.raw("\n\tPCALIGN $32\n")
	g.label(loop)
	for n := range 8 {
		g.f("VPMADDUBSW Y14, Y15, Y%d", 8+n%4)
		g.f("VPMADDWD Y13, Y%d, Y%d", 8+n%4, 8+n%4)
		g.f("VPADDD Y%d, Y%d, Y%d", 8+n%4, n, n)
	}
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")

	g.text("dotAVXVNNI", "dotAVXVNNI(n int)", 0, 8)
	g.f("MOVQ n+0(FP), CX")
	for n := range 14 {
		g.zero(avx2, n)
	}
	loop = g.fresh("loop")
	g.raw("\n\tPCALIGN $32\n")
	g.label(loop)
	for n := range 12 {
		g.vpdpbusdVEX(byte(n), 12, 13)
	}
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")

	g.text("dotVNNI", "dotVNNI(n int)", 0, 8)
	g.f("MOVQ n+0(FP), CX")
	for n := range 30 {
		g.zero(avx512, n)
	}
	loop = g.fresh("loop")
	g.raw("\n\tPCALIGN $32\n")
	g.label(loop)
	for n := range 28 {
		g.f("VPDPBUSD Z29, Z28, Z%d", n)
	}
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")

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
		loop := g.fresh("loop")
		g.label(loop)
		for n := range byte(4) {
			g.tdp(t.op, t.pp, t.code, n, 4+n/2, 6+n%2)
		}
		g.f("DECQ CX")
		g.f("JNZ %s", loop)
		g.tilerelease()
		g.f("RET")
	}
}
