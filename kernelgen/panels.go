package main

// genPanels writes the way of blocks of 32 values between 16 rows of a file and a
// panel of codes (internal/kernel/codes), both ways, with AVX2:
//
//	name(t *panelArgs)
func genPanels(g *asm) {
	for _, s := range panelStorages {
		g.panel(s, true)
		g.panel(s, false)
	}
}

// panelStorage is a block format: f16 numbers, then codes.
type panelStorage struct {
	name   string
	halves int  // f16 numbers per row
	wide   bool // codes of 8 bits
}

var panelStorages = []panelStorage{{"Q4_0", 1, false}, {"Q4_1", 2, false}, {"Q8_0", 1, true}}

// Registers: SI is the first of 16 rows, AX the ninth, DX their distance, R13 to
// R15 3, 5 and 7 times it; DI is the panel, CX counts blocks.
func (g *asm) panel(s panelStorage, pack bool) {
	name := "unpack" + s.name
	if pack {
		name = "pack" + s.name
	}
	name += "AVX2"
	g.text(name, name+"(t *panelArgs)", 0, 8)
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ 0(R8), SI")
	g.f("MOVQ 8(R8), DX")
	g.f("MOVQ 16(R8), DI")
	g.f("MOVQ 24(R8), CX")
	g.f("MOVQ 32(R8), R9") // masks
	g.f("VBROADCASTI128 (R9), Y15")
	if pack {
		g.f("VBROADCASTI128 16(R9), Y14")
	} else {
		g.f("VBROADCASTI128 32(R9), Y14")
	}
	g.f("LEAQ (DX)(DX*2), R13")
	g.f("LEAQ (DX)(DX*4), R14")
	g.f("LEAQ (R13)(DX*4), R15")
	loop := g.fresh("loop")
	g.label(loop)
	g.f("LEAQ (SI)(DX*8), AX")
	rows := fewRows()
	for n := range s.halves {
		for r, at := range rows {
			if pack {
				g.f("MOVWLZX %d(%s), BX", 2*n, at)
				g.f("MOVW BX, %d(DI)", 32*n+2*r)
			} else {
				g.f("MOVWLZX %d(DI), BX", 32*n+2*r)
				g.f("MOVW BX, %d(%s)", 2*n, at)
			}
		}
	}
	parts := 1
	if s.wide {
		parts = 2
	}
	for part := range parts {
		for half := range 2 {
			eight := rows[8*half:][:8]
			from, to := 2*s.halves+16*part, 32*s.halves+256*part+32*half
			if pack {
				for t := range 4 {
					g.f("VMOVDQU %d(%s), X%d", from, eight[t], t)
					g.f("VINSERTI128 $1, %d(%s), Y%d, Y%d", from, eight[t+4], t, t)
					if !s.wide {
						g.panelNibbles(t, true)
					}
				}
				g.panelTranspose()
				for j := range 4 {
					g.f("VMOVDQU Y%d, %d(DI)", 8+j, to+64*j)
				}
				continue
			}
			for j := range 4 {
				g.f("VMOVDQU %d(DI), Y%d", to+64*j, j)
			}
			g.panelTranspose()
			for t := range 4 {
				if !s.wide {
					g.panelNibbles(8+t, false)
				}
				g.f("VMOVDQU X%d, %d(%s)", 8+t, from, eight[t])
				g.f("VEXTRACTI128 $1, Y%d, %d(%s)", 8+t, from, eight[t+4])
			}
		}
	}
	bytes := 2*s.halves + 16*parts
	g.f("ADDQ $%d, SI", bytes)
	g.f("ADDQ $%d, DI", 16*bytes)
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}

// panelTranspose makes Y8 to Y11 of Y0 to Y3: dword t of register j becomes dword
// j of register t, in each half.
func (g *asm) panelTranspose() {
	for i := range 2 {
		g.f("VPUNPCKLDQ Y%d, Y%d, Y%d", 2*i+1, 2*i, 4+i)
		g.f("VPUNPCKHDQ Y%d, Y%d, Y%d", 2*i+1, 2*i, 6+i)
	}
	for i := range 2 {
		g.f("VPUNPCKLQDQ Y%d, Y%d, Y%d", 5+2*i, 4+2*i, 8+2*i)
		g.f("VPUNPCKHQDQ Y%d, Y%d, Y%d", 5+2*i, 4+2*i, 9+2*i)
	}
}

// panelNibbles turns the 32 codes of a row in register v from the file's order
// into a panel's, or back. Y12 and Y13 are lost.
func (g *asm) panelNibbles(v int, pack bool) {
	g.f("VPAND Y15, Y%d, Y12", v)
	g.f("VPSRLW $4, Y%d, Y13", v)
	g.f("VPAND Y15, Y13, Y13")
	if pack { // the halves' order, then quads beside each other
		g.f("VPSHUFB Y14, Y12, Y12")
		g.f("VPSHUFB Y14, Y13, Y13")
		g.f("VPUNPCKLQDQ Y13, Y12, Y%d", v)
		g.f("VPUNPCKHQDQ Y13, Y12, Y12")
		g.f("VPSLLW $4, Y12, Y12")
		g.f("VPOR Y12, Y%d, Y%d", v, v)
		return
	}
	g.f("VPUNPCKLQDQ Y13, Y12, Y%d", v)
	g.f("VPUNPCKHQDQ Y13, Y12, Y12")
	g.f("VPSHUFB Y14, Y%d, Y%d", v, v)
	g.f("VPSHUFB Y14, Y12, Y12")
	g.f("VPSLLW $4, Y12, Y12")
	g.f("VPOR Y12, Y%d, Y%d", v, v)
}
