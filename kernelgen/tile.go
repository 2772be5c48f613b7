package main

import "fmt"

// genTiles writes the f32 micro-kernels: C[mr, 2 vectors] += A·B for every
// row count up to the tier's MR, as many strips of that height as follow each
// other, and as many panels of B, nextB values apart (one where there is a
// bias): what a call costs is a third of a tile of 32 elements of K. All partial
// sums of a tile live in registers: 14x2 zmm or 6x2 ymm, two registers hold the
// row of B and two more alternate as the broadcast element of A.
func genTiles(g *asm) {
	genTile(g, avx512, 14)
	genTile(g, avx2, 6)
}

func genTile(g *asm, i isa, maxMR int) {
	name := "tile" + i.name
	nacc := 2 * maxMR
	b0, b1 := i.v(nacc), i.v(nacc+1)
	w := i.width()
	g.text(name, name+"(a, b, c, bias *float32, k, ldc, mr, strips, load, nextB, panels int)", 16, 88)
	g.ftz()
	g.f("MOVQ a+0(FP), R13")
	g.f("MOVQ c+16(FP), DX")
	g.f("MOVQ bias+24(FP), BX")
	g.f("MOVQ ldc+40(FP), R9")
	g.f("SHLQ $2, R9")
	g.f("MOVQ mr+48(FP), R10")
	g.f("MOVQ strips+56(FP), R15")
	g.f("MOVQ load+64(FP), R11")
	g.f("MOVQ k+32(FP), AX")
	g.f("LEAQ 3(AX), R14") // bytes of a strip of A, in whole chunks
	g.f("ANDQ $~3, R14")
	g.f("SHLQ $2, R14")
	g.f("IMULQ R10, R14")
	for mr := maxMR; mr > 1; mr-- {
		g.f("CMPQ R10, $%d", mr)
		g.f("JEQ %s_%d", name, mr)
	}
	for mr := 1; mr <= maxMR; mr++ {
		lab := func(s string) string { return fmt.Sprintf("%s_%d%s", name, mr, s) }
		g.label(lab(""))
		g.f("MOVQ R13, SI")
		g.f("MOVQ b+8(FP), DI")
		g.f("MOVQ AX, CX")
		g.f("MOVQ AX, R12")
		g.f("SHRQ $2, CX")
		g.f("ANDQ $3, R12") // elements of K after the last whole chunk
		g.f("TESTQ R11, R11")
		g.f("JZ %s", lab("zero"))
		g.f("MOVQ DX, R8")
		for r := range mr {
			g.f("VMOVUPS (R8), %s", i.v(2*r))
			g.f("VMOVUPS %d(R8), %s", w, i.v(2*r+1))
			if r < mr-1 {
				g.f("ADDQ R9, R8")
			}
		}
		g.f("JMP %s", lab("bias"))
		g.label(lab("zero"))
		for n := range 2 * mr {
			g.zero(i, n)
		}
		g.label(lab("bias"))
		g.f("TESTQ BX, BX")
		g.f("JZ %s", lab("sum"))
		g.f("VMOVUPS (BX), %s", b0)
		g.f("VMOVUPS %d(BX), %s", w, b1)
		for r := range mr {
			g.f("VADDPS %s, %s, %s", b0, i.v(2*r), i.v(2*r))
			g.f("VADDPS %s, %s, %s", b1, i.v(2*r+1), i.v(2*r+1))
		}
		step := func(kk int) {
			g.f("VMOVUPS %d(DI), %s", kk*2*w, b0)
			g.f("VMOVUPS %d(DI), %s", kk*2*w+w, b1)
			for r := range mr {
				bc := i.v(nacc + 2 + r%2)
				g.f("VBROADCASTSS %d(SI), %s", r*16+kk*4, bc)
				g.f("VFMADD231PS %s, %s, %s", b0, bc, i.v(2*r))
				g.f("VFMADD231PS %s, %s, %s", b1, bc, i.v(2*r+1))
			}
		}
		g.label(lab("sum"))
		g.f("TESTQ CX, CX")
		g.f("JZ %s", lab("tail"))
		g.raw("\n\tPCALIGN $32\n")
		g.label(lab("loop"))
		for kk := range 4 {
			step(kk)
		}
		g.f("ADDQ $%d, SI", mr*16)
		g.f("ADDQ $%d, DI", 4*2*w)
		g.f("DECQ CX")
		g.f("JNZ %s", lab("loop"))
		g.label(lab("tail"))
		g.f("TESTQ R12, R12")
		g.f("JZ %s", lab("store"))
		g.label(lab("one"))
		step(0)
		g.f("ADDQ $4, SI")
		g.f("ADDQ $%d, DI", 2*w)
		g.f("DECQ R12")
		g.f("JNZ %s", lab("one"))
		g.label(lab("store"))
		for r := range mr {
			g.f("VMOVUPS %s, (DX)", i.v(2*r))
			g.f("VMOVUPS %s, %d(DX)", i.v(2*r+1), w)
			g.f("ADDQ R9, DX")
		}
		g.f("ADDQ R14, R13")
		g.f("DECQ R15")
		g.f("JNZ %s", lab(""))
		g.f("DECQ panels+80(FP)")
		g.f("JZ %s", lab("done"))
		g.f("MOVQ a+0(FP), R13")
		g.f("MOVQ nextB+72(FP), DI")
		g.f("SHLQ $2, DI")
		g.f("ADDQ DI, b+8(FP)")
		g.f("ADDQ $%d, c+16(FP)", 2*w)
		g.f("MOVQ c+16(FP), DX")
		g.f("MOVQ strips+56(FP), R15")
		g.f("JMP %s", lab(""))
		g.label(lab("done"))
		g.ret()
	}
}
