package main

import "fmt"

// genTileNEON writes the f32 micro-kernels of NEON and the transpose that
// packs for them. A tile is up to 8 x 8: 16 registers of sums, 8 that hold
// four elements of K of a row of A each, whose lanes multiply, and the rest
// for B.
func genTileNEON(g *asm) {
	k := &nasm{asm: g}
	k.tile(8)
	k.transpose4()
}

func (k *nasm) tile(maxMR int) {
	const name = "tileNEON"
	k.text(name, name+"(a, b, c, bias *float32, k, ldc, mr, load int)", 0, 64)
	k.f("MOVD a+0(FP), R0")
	k.f("MOVD b+8(FP), R1")
	k.f("MOVD c+16(FP), R2")
	k.f("MOVD bias+24(FP), R3")
	k.f("MOVD k+32(FP), R4")
	k.f("MOVD ldc+40(FP), R5")
	k.f("LSL $2, R5")
	k.f("MOVD mr+48(FP), R6")
	k.f("MOVD load+56(FP), R7")
	k.f("AND $3, R4, R8") // elements of K after the last whole chunk
	k.f("LSR $2, R4")
	for mr := maxMR; mr > 1; mr-- {
		k.f("CMP $%d, R6", mr)
		k.f("BEQ %s_%d", name, mr)
	}
	for mr := 1; mr <= maxMR; mr++ {
		lab := func(s string) string { return fmt.Sprintf("%s_%d%s", name, mr, s) }
		a := func(r int) int { return 16 + r }
		k.label(lab(""))
		k.f("CBZ R7, %s", lab("zero"))
		k.f("MOVD R2, R9")
		for r := range mr {
			k.load(2*r, "R9", 0)
			k.load(2*r+1, "R9", 16)
			k.f("ADD R5, R9")
		}
		k.f("JMP %s", lab("bias"))
		k.label(lab("zero"))
		for n := range 2 * mr {
			k.zero(n)
		}
		k.label(lab("bias"))
		k.f("CBZ R3, %s", lab("sum"))
		k.load(24, "R3", 0)
		k.load(25, "R3", 16)
		for r := range mr {
			k.v("FADD.4S", 2*r, 2*r, 24)
			k.v("FADD.4S", 2*r+1, 2*r+1, 25)
		}
		step := func(kk, lane int) {
			b := 24 + 2*(kk%2)
			k.load(b, "R1", 32*kk)
			k.load(b+1, "R1", 32*kk+16)
			for r := range mr {
				k.mlaLane(2*r, b, a(r), lane)
				k.mlaLane(2*r+1, b+1, a(r), lane)
			}
		}
		k.label(lab("sum"))
		k.f("CBZ R4, %s", lab("tail"))
		k.label(lab("loop"))
		for r := range mr {
			k.load(a(r), "R0", 16*r)
		}
		for kk := range 4 {
			step(kk, kk)
		}
		k.f("ADD $%d, R0", 16*mr)
		k.f("ADD $128, R1")
		k.f("SUBS $1, R4, R4")
		k.f("BNE %s", lab("loop"))
		k.label(lab("tail"))
		k.f("CBZ R8, %s", lab("store"))
		k.label(lab("one"))
		for r := range mr {
			k.f("FMOVS %d(R0), F%d", 16*r, a(r))
		}
		step(0, 0)
		k.f("ADD $4, R0")
		k.f("ADD $32, R1")
		k.f("SUBS $1, R8, R8")
		k.f("BNE %s", lab("one"))
		k.label(lab("store"))
		for r := range mr {
			k.store(2*r, "R2", 0)
			k.store(2*r+1, "R2", 16)
			k.f("ADD R5, R2")
		}
		k.f("RET")
	}
}

// transpose4 writes dst[j][i] = src[i][j] for four rows and n columns, a
// multiple of 4.
func (k *nasm) transpose4() {
	k.text("transpose4NEON", "transpose4NEON(dst, src *float32, ldd, lds, n int)", 0, 40)
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD src+8(FP), R1")
	k.f("MOVD ldd+16(FP), R5")
	k.f("LSL $2, R5")
	k.f("MOVD lds+24(FP), R6")
	k.f("ADD R6<<2, R1, R2")
	k.f("ADD R6<<2, R2, R3")
	k.f("ADD R6<<2, R3, R4")
	k.f("MOVD n+32(FP), R7")
	k.label("columns")
	for r := range 4 {
		k.load(r, fmt.Sprintf("R%d", 1+r), 0)
	}
	k.v("TRN1.4S", 4, 0, 1)
	k.v("TRN2.4S", 5, 0, 1)
	k.v("TRN1.4S", 6, 2, 3)
	k.v("TRN2.4S", 7, 2, 3)
	k.v("ZIP1.2D", 0, 4, 6)
	k.v("ZIP1.2D", 1, 5, 7)
	k.v("ZIP2.2D", 2, 4, 6)
	k.v("ZIP2.2D", 3, 5, 7)
	for r := range 4 {
		k.store(r, "R0", 0)
		k.f("ADD R5, R0")
		k.f("ADD $16, R%d", 1+r)
	}
	k.f("SUBS $4, R7, R7")
	k.f("BNE columns")
	k.f("RET")
}
