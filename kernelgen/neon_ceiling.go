package main

// genCeilingNEON writes the loops that measure what a core of arm64 can do at
// most: more chains than latency x units, and no memory at all.
func genCeilingNEON(g *asm) {
	k := &nasm{asm: g}
	for _, l := range []struct{ name, op string }{{"fmaNEON", "FMLA.4S"}, {"dotSDOT", "SDOT.4S"}} {
		k.text(l.name, l.name+"(n int)", 0, 8)
		k.f("MOVD n+0(FP), R0")
		for n := range 26 {
			k.zero(n)
		}
		loop := k.fresh("loop")
		k.label(loop)
		for n := range 24 {
			k.v(l.op, n, 24, 25)
		}
		k.f("SUBS $1, R0, R0")
		k.f("BNE %s", loop)
		k.f("RET")
	}
	// Four streams a quarter of the buffer apart keep more misses in flight
	// than one.
	k.text("readNEON", "readNEON(p *byte, n int)", 0, 16)
	k.f("MOVD p+0(FP), R0")
	k.f("MOVD n+8(FP), R4")
	k.f("LSR $2, R4") // bytes of one stream
	for n, r := range []string{"R0", "R1", "R2"} {
		k.f("ADD R4, %s, R%d", r, n+1)
	}
	k.f("LSR $8, R4")
	for n := range 4 {
		k.zero(n)
	}
	loop := k.fresh("loop")
	k.label(loop)
	for o := 0; o < 256; o += 16 {
		for n, r := range []string{"R0", "R1", "R2", "R3"} {
			k.load(4+n, r, o)
			k.v("ORR.16B", n, n, 4+n)
		}
	}
	for _, r := range []string{"R0", "R1", "R2", "R3"} {
		k.f("ADD $256, %s", r)
	}
	k.f("SUBS $1, R4, R4")
	k.f("BNE %s", loop)
	k.f("RET")
}
