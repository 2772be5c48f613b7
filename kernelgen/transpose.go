package main

// genTranspose writes the f32 block transposes behind packing: 8 rows of n
// columns (n a multiple of 8) become n rows of 8 columns.
func genTranspose(g *asm) {
	i := avx2
	g.text("transpose8AVX2", "transpose8AVX2(dst, src *float32, ldd, lds, n int)", 0, 40)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ldd+16(FP), R8")
	g.f("SHLQ $2, R8")
	g.f("MOVQ lds+24(FP), R9")
	g.f("SHLQ $2, R9")
	g.f("MOVQ n+32(FP), CX")
	g.f("SHRQ $3, CX")
	g.f("JZ done")
	g.f("LEAQ (R9)(R9*2), R10")
	g.f("LEAQ (R8)(R8*2), R11")
	g.label("loop")
	// Rows r and r+4 share a register, so that what is left after two rounds
	// of shuffles inside the 128-bit halves is a whole output row.
	g.f("LEAQ (SI)(R9*4), BX")
	addr := []string{"(SI)", "(SI)(R9*1)", "(SI)(R9*2)", "(SI)(R10*1)"}
	addr4 := []string{"(BX)", "(BX)(R9*1)", "(BX)(R9*2)", "(BX)(R10*1)"}
	off := func(s string) string { return "16" + s }
	for r := range 4 {
		g.f("VMOVUPS %s, X%d", addr[r], r)
		g.f("VINSERTF128 $1, %s, %s, %s", addr4[r], i.v(r), i.v(r))
		g.f("VMOVUPS %s, X%d", off(addr[r]), 4+r)
		g.f("VINSERTF128 $1, %s, %s, %s", off(addr4[r]), i.v(4+r), i.v(4+r))
	}
	for h := range 2 {
		r := 4 * h
		g.f("VUNPCKLPS Y%d, Y%d, Y8", r+1, r) // a0 b0 a1 b1
		g.f("VUNPCKHPS Y%d, Y%d, Y9", r+1, r) // a2 b2 a3 b3
		g.f("VUNPCKLPS Y%d, Y%d, Y10", r+3, r+2)
		g.f("VUNPCKHPS Y%d, Y%d, Y11", r+3, r+2)
		g.f("VUNPCKLPD Y10, Y8, Y%d", r)
		g.f("VUNPCKHPD Y10, Y8, Y%d", r+1)
		g.f("VUNPCKLPD Y11, Y9, Y%d", r+2)
		g.f("VUNPCKHPD Y11, Y9, Y%d", r+3)
	}
	for h := range 2 {
		for r, a := range []string{"(DI)", "(DI)(R8*1)", "(DI)(R8*2)", "(DI)(R11*1)"} {
			g.f("VMOVUPS Y%d, %s", 4*h+r, a)
		}
		g.f("LEAQ (DI)(R8*4), DI")
	}
	g.f("ADDQ $32, SI")
	g.f("DECQ CX")
	g.f("JNZ loop")
	g.label("done")
	g.f("VZEROUPPER")
	g.f("RET")

	// packA: mr rows of k floats (k a multiple of 4) into [k/4][mr][4].
	g.text("packAAVX2", "packAAVX2(dst, src *float32, lds, mr, k int)", 0, 40)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ lds+16(FP), R9")
	g.f("SHLQ $2, R9")
	g.f("MOVQ mr+24(FP), DX")
	g.f("MOVQ DX, R8")
	g.f("SHLQ $4, R8") // bytes of one chunk of the strip
	g.f("LEAQ (R8)(R8*2), R11")
	g.label("rows")
	g.f("MOVQ k+32(FP), CX")
	g.f("MOVQ SI, AX")
	g.f("MOVQ DI, BX")
	g.f("MOVQ CX, R12")
	g.f("ANDQ $15, R12")
	g.f("SHRQ $4, CX")
	g.f("JZ few")
	g.label("cols")
	for c, a := range []string{"(BX)", "(BX)(R8*1)", "(BX)(R8*2)", "(BX)(R11*1)"} {
		g.f("VMOVUPS %d(AX), X%d", 16*c, c)
		g.f("VMOVUPS X%d, %s", c, a)
	}
	g.f("ADDQ $64, AX")
	g.f("LEAQ (BX)(R8*4), BX")
	g.f("DECQ CX")
	g.f("JNZ cols")
	g.label("few")
	g.f("SUBQ $4, R12")
	g.f("JLT next")
	g.f("VMOVUPS (AX), X0")
	g.f("VMOVUPS X0, (BX)")
	g.f("ADDQ $16, AX")
	g.f("ADDQ R8, BX")
	g.f("JMP few")
	g.label("next")
	g.f("ADDQ R9, SI")
	g.f("ADDQ $16, DI")
	g.f("DECQ DX")
	g.f("JNZ rows")
	g.f("RET")

	// packAT: the transpose of the above for groups of 4 rows that lie as 4
	// adjacent columns: src is [k][4] with row distance lds, dst chunks of
	// [mr][4] are ldd bytes apart.
	g.text("packATAVX2", "packATAVX2(dst, src *float32, ldd, lds, k int)", 0, 40)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ldd+16(FP), R8")
	g.f("SHLQ $2, R8")
	g.f("MOVQ lds+24(FP), R9")
	g.f("SHLQ $2, R9")
	g.f("MOVQ k+32(FP), CX")
	g.f("SHRQ $2, CX")
	g.f("JZ tdone")
	g.f("LEAQ (R9)(R9*2), R10")
	g.label("tloop")
	for r, a := range addr {
		g.f("VMOVUPS %s, X%d", a, r)
	}
	g.f("VUNPCKLPS X1, X0, X8")
	g.f("VUNPCKHPS X1, X0, X9")
	g.f("VUNPCKLPS X3, X2, X10")
	g.f("VUNPCKHPS X3, X2, X11")
	g.f("VUNPCKLPD X10, X8, X0")
	g.f("VUNPCKHPD X10, X8, X1")
	g.f("VUNPCKLPD X11, X9, X2")
	g.f("VUNPCKHPD X11, X9, X3")
	for r := range 4 {
		g.f("VMOVUPS X%d, %d(DI)", r, 16*r)
	}
	g.f("ADDQ R8, DI")
	g.f("LEAQ (SI)(R9*4), SI")
	g.f("DECQ CX")
	g.f("JNZ tloop")
	g.label("tdone")
	g.f("RET")
}
