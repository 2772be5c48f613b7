package main

// genPanels writes the way of blocks between 16 rows of a file and a panel of codes
// (internal/kernel/codes), both ways, with AVX2:
//
//	name(t *panelArgs)
func genPanels(g *asm) {
	for _, s := range panelStorages {
		g.panel(s, true)
		g.panel(s, false)
	}
}

// panelStorage is a block format: f16 numbers, then what body moves of 8 rows at
// rows, into the half of a panel's vectors that begins at half.
type panelStorage struct {
	name   string
	halves []int // where the f16 numbers of a row are
	bytes  int   // of a row
	body   func(g *asm, pack bool, rows []string, half int)
}

var panelStorages = []panelStorage{
	{"Q4_0", []int{0}, 18, func(g *asm, pack bool, rows []string, half int) { g.panelHalves(pack, rows, 2, 32+half) }},
	{"Q4_1", []int{0, 2}, 20, func(g *asm, pack bool, rows []string, half int) { g.panelHalves(pack, rows, 4, 64+half) }},
	{"Q8_0", []int{0}, 34, func(g *asm, pack bool, rows []string, half int) {
		g.panelBytes(pack, rows, 2, 32+half, 0)
		g.panelBytes(pack, rows, 18, 288+half, 0)
	}},
	{"Q4_K", []int{0, 2}, 144, func(g *asm, pack bool, rows []string, half int) {
		g.panelBytes(pack, rows, 0, half, 1) // the numbers lie where a vector would
		for n := range 8 {
			g.panelBits(pack, rows, 16+32*(n/2), 4*(n%2), 256+256*n+half)
		}
	}},
	{"Q6_K", []int{208}, 210, func(g *asm, pack bool, rows []string, half int) {
		g.panelBytes(pack, rows, 192, 32+half, 0)
		for n := range 8 {
			h, at := n/4, n%4
			g.panelBits(pack, rows, 64*h+32*(at%2), 4*(at/2), 288+384*n+half)
			g.panelHigh(pack, rows, 128+32*h, 2*at, 544+384*n+half)
		}
	}},
}

// Offsets of 32 bytes each in the masks.
const (
	maskNibble = 0
	maskPack   = 32 // the order in which codes of 16 columns lie in a panel
	maskUnpack = 64 // and back
	maskPair   = 96
	maskShifts = 128 // of the quads of high bits
)

// Registers: SI is the first of 16 rows, AX the ninth, DX their distance, R13 to
// R15 3, 5 and 7 times it; DI is the panel, CX counts blocks, R9 is the masks.
func (g *asm) panel(s panelStorage, pack bool) {
	name, order := "unpack"+s.name+"AVX2", maskUnpack
	if pack {
		name, order = "pack"+s.name+"AVX2", maskPack
	}
	g.text(name, name+"(t *panelArgs)", 0, 8)
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ 0(R8), SI")
	g.f("MOVQ 8(R8), DX")
	g.f("MOVQ 16(R8), DI")
	g.f("MOVQ 24(R8), CX")
	g.f("MOVQ 32(R8), R9")
	g.f("VMOVDQU %d(R9), Y15", maskNibble)
	g.f("VMOVDQU %d(R9), Y14", order)
	g.f("LEAQ (DX)(DX*2), R13")
	g.f("LEAQ (DX)(DX*4), R14")
	g.f("LEAQ (R13)(DX*4), R15")
	loop := g.fresh("loop")
	g.label(loop)
	g.f("LEAQ (SI)(DX*8), AX")
	rows := fewRows()
	for half := range 2 {
		s.body(g, pack, rows[8*half:][:8], 32*half)
	}
	for n, from := range s.halves {
		for r, at := range rows {
			if pack {
				g.f("MOVWLZX %d(%s), BX", from, at)
				g.f("MOVW BX, %d(DI)", 32*n+2*r)
			} else {
				g.f("MOVWLZX %d(DI), BX", 32*n+2*r)
				g.f("MOVW BX, %d(%s)", from, at)
			}
		}
	}
	g.f("ADDQ $%d, SI", s.bytes)
	g.f("ADDQ $%d, DI", 16*s.bytes)
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}

// panelLoad leaves 16 bytes of rows t and t+4 in the halves of register v,
// panelStore puts them back.
func (g *asm) panelLoad(rows []string, t, from, v int) {
	g.f("VMOVDQU %d(%s), X%d", from, rows[t], v)
	g.f("VINSERTI128 $1, %d(%s), Y%d, Y%d", from, rows[t+4], v, v)
}

func (g *asm) panelStore(rows []string, t, to, v int) {
	g.f("VMOVDQU X%d, %d(%s)", v, to, rows[t])
	g.f("VEXTRACTI128 $1, Y%d, %d(%s)", v, to, rows[t+4])
}

// panelBytes moves 16 bytes per row to or from four vectors, but for the first
// ones.
func (g *asm) panelBytes(pack bool, rows []string, file, panel, first int) {
	if pack {
		for t := range 4 {
			g.panelLoad(rows, t, file, t)
		}
		g.panelTranspose()
		for j := first; j < 4; j++ {
			g.f("VMOVDQU Y%d, %d(DI)", 8+j, panel+64*j)
		}
		return
	}
	for j := range 4 {
		if j < first {
			g.zero(avx2, j)
		} else {
			g.f("VMOVDQU %d(DI), Y%d", panel+64*j, j)
		}
	}
	g.panelTranspose()
	for t := range 4 {
		g.panelStore(rows, t, file, 8+t)
	}
}

// panelHalves moves 32 codes per row, the low nibbles of 16 bytes and then the
// high ones.
func (g *asm) panelHalves(pack bool, rows []string, file, panel int) {
	if pack {
		for t := range 4 {
			g.panelLoad(rows, t, file, t)
			g.f("VPSRLW $4, Y%d, Y13", t)
			g.f("VPAND Y15, Y%d, Y12", t)
			g.f("VPAND Y15, Y13, Y13")
			g.panelJoin(t)
		}
		g.panelPut(panel)
		return
	}
	g.panelGet(panel)
	for t := range 4 {
		g.panelSplit(8 + t)
		g.f("VPSLLW $4, Y13, Y13")
		g.f("VPOR Y13, Y12, Y12")
		g.panelStore(rows, t, file, 12)
	}
}

// panelBits moves 32 codes per row that are at a bit of 32 bytes. Codes at bit 0
// are unpacked first.
func (g *asm) panelBits(pack bool, rows []string, file, shift, panel int) {
	if pack {
		for t := range 4 {
			for n := range 2 {
				g.panelLoad(rows, t, file+16*n, 12+n)
				if shift > 0 {
					g.f("VPSRLW $%d, Y%d, Y%d", shift, 12+n, 12+n)
				}
				g.f("VPAND Y15, Y%d, Y%d", 12+n, 12+n)
			}
			g.panelJoin(t)
		}
		g.panelPut(panel)
		return
	}
	g.panelGet(panel)
	for t := range 4 {
		g.panelSplit(8 + t)
		g.panelMerge(rows, t, file, shift)
	}
}

// panelHigh moves the high bits of 32 codes per row, at a bit of 32 bytes.
func (g *asm) panelHigh(pack bool, rows []string, file, shift, panel int) {
	if pack {
		for t := range 4 {
			for n := range 2 {
				g.panelLoad(rows, t, file+16*n, 12+n)
				if shift > 0 {
					g.f("VPSRLW $%d, Y%d, Y%d", shift, 12+n, 12+n)
				}
				g.f("VPAND %d(R9), Y%d, Y%d", maskPair, 12+n, 12+n)
				g.f("VPSHUFB Y14, Y%d, Y%d", 12+n, 12+n)
				g.f("VPSLLVD %d(R9), Y%d, Y%d", maskShifts, 12+n, 12+n)
				for _, swap := range []int{0x4e, 0xb1} {
					g.f("VPSHUFD $%d, Y%d, Y11", swap, 12+n)
					g.f("VPOR Y11, Y%d, Y%d", 12+n, 12+n)
				}
			}
			g.f("VPBLENDD $0xaa, Y13, Y12, Y%d", t)
		}
		g.panelTranspose()
		for h := range 2 {
			g.f("VMOVDQU Y%d, %d(DI)", 8+h, panel+64*h)
		}
		return
	}
	for h := range 4 {
		g.f("VMOVDQU %d(DI), Y%d", panel+64*(h%2), h)
	}
	g.panelTranspose()
	for t := range 4 {
		for n := range 2 {
			g.f("VPSHUFD $%d, Y%d, Y%d", 0x55*n, 8+t, 12+n)
			g.f("VPSRLVD %d(R9), Y%d, Y%d", maskShifts, 12+n, 12+n)
			g.f("VPAND %d(R9), Y%d, Y%d", maskPair, 12+n, 12+n)
			g.f("VPSHUFB Y14, Y%d, Y%d", 12+n, 12+n)
		}
		g.panelMerge(rows, t, file, shift)
	}
}

// panelMerge puts the codes in Y12 and Y13 to a bit of 32 bytes of rows t and t+4.
func (g *asm) panelMerge(rows []string, t, file, shift int) {
	for n := range 2 {
		if shift > 0 {
			g.f("VPSLLW $%d, Y%d, Y%d", shift, 12+n, 12+n)
			g.panelLoad(rows, t, file+16*n, 0)
			g.f("VPOR Y0, Y%d, Y%d", 12+n, 12+n)
		}
		g.panelStore(rows, t, file+16*n, 12+n)
	}
}

// panelPut transposes Y0 to Y3 into four vectors, panelGet four vectors into Y8 to
// Y11.
func (g *asm) panelPut(panel int) {
	g.panelTranspose()
	for j := range 4 {
		g.f("VMOVDQU Y%d, %d(DI)", 8+j, panel+64*j)
	}
}

func (g *asm) panelGet(panel int) {
	for j := range 4 {
		g.f("VMOVDQU %d(DI), Y%d", panel+64*j, j)
	}
	g.panelTranspose()
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

// panelJoin makes the dwords of a row in register v of its codes: those of the
// first 16 columns in Y12, of the others in Y13, a byte each.
func (g *asm) panelJoin(v int) {
	g.f("VPSHUFB Y14, Y12, Y12")
	g.f("VPSHUFB Y14, Y13, Y13")
	g.f("VPUNPCKLQDQ Y13, Y12, Y%d", v)
	g.f("VPUNPCKHQDQ Y13, Y12, Y12")
	g.f("VPSLLW $4, Y12, Y12")
	g.f("VPOR Y12, Y%d, Y%d", v, v)
}

// panelSplit is the inverse.
func (g *asm) panelSplit(v int) {
	g.f("VPSRLW $4, Y%d, Y13", v)
	g.f("VPAND Y15, Y%d, Y12", v)
	g.f("VPAND Y15, Y13, Y13")
	g.f("VPUNPCKLQDQ Y13, Y12, Y%d", v)
	g.f("VPUNPCKHQDQ Y13, Y12, Y13")
	g.f("VPSHUFB Y14, Y%d, Y12", v)
	g.f("VPSHUFB Y14, Y13, Y13")
}
