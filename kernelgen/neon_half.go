package main

// genHalfNEON is genHalf for arm64, n a multiple of 4.
func genHalfNEON(g *asm) {
	k := &nasm{asm: g, pool: &npool{}}
	k.text("roundNEON", "roundNEON(v *float32, n int)", 0, 16)
	k.usePool()
	k.f("MOVD v+0(FP), R0")
	k.f("MOVD n+8(FP), R4")
	const upper, half, one, quiet, size, infinite = 16, 17, 18, 19, 20, 21
	for n, c := range []uint32{0xffff0000, 0x7fff, 1, 0x400000, 0x7fffffff, 0x7f800000} {
		k.bits(upper+n, c)
	}
	k.zero(22)
	loop := k.fresh("loop")
	k.label(loop)
	k.load(0, "R0", 0)
	k.ushr(1, 0, 16)
	k.v("AND.16B", 1, 1, one)
	k.v("ADD.4S", 1, 1, half)
	k.v("ADD.4S", 1, 1, 0)
	k.v("AND.16B", 2, 0, size)
	k.v("UMAX.4S", 2, 2, infinite) // beyond it is no number
	k.v("SUB.4S", 2, infinite, 2)
	k.v("CMLT0.4S", 2, 2)
	k.v("ORR.16B", 3, 0, quiet)
	k.v("BIT.16B", 1, 3, 2)
	k.v("AND.16B", 1, 1, upper)
	k.store(1, "R0", 0)
	k.f("ADD $16, R0")
	k.f("SUBS $4, R4, R4")
	k.f("BNE %s", loop)
	k.f("RET")
	k.pool.write(g)
}

// genWideNEON is genWide for panels of 8 columns, half a line each.
func genWideNEON(g *asm) {
	k := &nasm{asm: g, pool: &npool{}}
	k.text("widenNEON", "widenNEON(dst *float32, src *uint16, ldd, pairs int)", 0, 32)
	k.usePool()
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD src+8(FP), R1")
	k.f("MOVD ldd+16(FP), R2")
	k.f("LSL $2, R2")
	k.f("MOVD pairs+24(FP), R4")
	const upper = 16
	k.bits(upper, 0xffff0000)
	tile, line, done := k.fresh("tile"), k.fresh("line"), k.fresh("done")
	k.label(tile)
	k.f("MOVD $16, R5")
	k.label(line)
	k.f("ADD R2, R0, R3")
	for n := range 2 {
		k.load(n, "R1", 16*n)
		k.shl(2+n, n, 16)
		k.v("AND.16B", n, n, upper)
		k.store(2+n, "R0", 16*n)
		k.store(n, "R3", 16*n)
	}
	k.f("ADD $64, R1")
	k.f("ADD R2, R3, R0")
	k.f("SUBS $1, R4, R4")
	k.f("BEQ %s", done)
	k.f("SUBS $1, R5, R5")
	k.f("BNE %s", line)
	k.f("ADD $1024, R1")
	k.f("B %s", tile)
	k.label(done)
	k.f("RET")
	k.pool.write(g)
}
