package main

import "fmt"

// AMX instructions are unknown to the Go assembler: they are spelled as bytes.
// Registers by their number; only 0 to 7 are used, which need no extra bits.
const (
	rAX = 0
	rCX = 1
	rDX = 2
	rBX = 3
	rSI = 6
	rDI = 7
)

func (g *asm) bytes(comment string, bs ...byte) {
	s := ""
	for i, b := range bs {
		if i > 0 {
			s += "; "
		}
		s += fmt.Sprintf("BYTE $0x%02x", b)
	}
	g.f("%s // %s", s, comment)
}

// ldtilecfg loads the 64 bytes at (AX).
func (g *asm) ldtilecfg()   { g.bytes("LDTILECFG (AX)", 0xc4, 0xe2, 0x78, 0x49, 0x00) }
func (g *asm) tilerelease() { g.bytes("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0) }
func (g *asm) tilezero(t byte) {
	g.bytes(fmt.Sprintf("TILEZERO TMM%d", t), 0xc4, 0xe2, 0x7b, 0x49, 0xc0|t<<3)
}

// tileMem moves a tile between memory at base+disp, rows index bytes apart.
func (g *asm) tileMem(name string, pp, t, base, index byte, disp int32) {
	g.bytes(fmt.Sprintf("%s TMM%d, %d(r%d)(r%d*1)", name, t, disp, base, index),
		0xc4, 0xe2, pp, 0x4b, 0x84|t<<3, index<<3|base,
		byte(disp), byte(disp>>8), byte(disp>>16), byte(disp>>24))
}
func (g *asm) tileload(t, base, index byte, disp int32) {
	g.tileMem("TILELOADD", 0x7b, t, base, index, disp)
}

// tilepass loads what passes by: it does not drive out of L1 what stays.
func (g *asm) tilepass(t, base, index byte, disp int32) {
	g.tileMem("TILELOADDT1", 0x79, t, base, index, disp)
}
func (g *asm) tilestore(t, base, index byte, disp int32) {
	g.tileMem("TILESTORED", 0x7a, t, base, index, disp)
}

// tdp is a dot product: opcode 5c with pp 2 for bf16, 5e with pp 3 for signed
// int8 (c += a*b).
func (g *asm) tdp(name string, pp, op, c, a, b byte) {
	g.bytes(fmt.Sprintf("%s TMM%d += TMM%d*TMM%d", name, c, a, b),
		0xc4, 0xe2, (^b&15)<<3|pp, op, 0xc0|c<<3|a)
}

// Offsets in tileArgs.
const (
	atCfg        = 0
	atA          = 8
	atB          = 16
	atC          = 24
	atInit       = 32 // what the first tile of columns starts from; nil: both from zero
	atStrideA    = 40
	atStrideC    = 48
	atStrideInit = 56 // 0: one row for all
	atSteps      = 64
	atBlocks     = 72
	atNextA      = 80 // bytes from one block to the next
	atNextB      = 88
	atNextC      = 96
	atNextInit   = 104
	atOut        = 112 // where rounded rows go
	atTiles      = 120 // two buffers in turn, each of one block
	atQuota      = 128 // rows of C that are asked for in each step of K
	atB2         = 136 // the second tile of columns
	atInit2      = 144
	atStepA      = 152 // bytes from one step of K to the next
	atJob        = 160 // a panel to unpack meanwhile
	atList       = 168 // jobs of a walk
	atCount      = 176
	atAhead      = 184 // what is asked for meanwhile
	atLines      = 192 // lines of it in each step of K; along panels, not zero: they come from afar
	atTwice      = 200 // not 0: two parts of a unit behind a product
)

// genAMX writes the tile kernels. Tiles 0-3 are C (row block x column block),
// 4-5 A, 6-7 B. One call configures, multiplies and releases, because tile
// state does not survive the scheduler.
func genAMX(g *asm) {
	for _, rows := range []byte{2, 1} {
		genTileBF16(g, rows)
	}
	for _, walk := range []string{"Down", "Unpack", "Along"} {
		genTileWalk(g, walk)
	}
	genRoundRows(g)
	genPackBF16(g)
	genPackEnd(g)
	genUnpackBF16(g)
	consts := &constants{}
	genSoftmaxBF16(g, consts)
	genDivideRows(g, consts, false)
	genDivideRows(g, consts, true)
	for _, act := range outActs {
		genTileOut(g, consts, act, false)
		if act.name != "Plain" {
			genTileOut(g, consts, act, true)
		}
	}
	consts.write(g)
}

// tileOpen begins a kernel with its arguments at R8: A in R9, its stride in CX,
// blocks in R15.
func (g *asm) tileOpen() {
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ %d(R8), AX", atCfg)
	g.ldtilecfg()
	g.f("MOVQ %d(R8), R9", atA)
	g.f("MOVQ %d(R8), CX", atStrideA)
	g.f("MOVQ %d(R8), R15", atBlocks)
}

// tileInit sets C to what it starts from, R12 bytes on. AX, SI, DI and DX are
// lost.
func (g *asm) tileInit(rows byte) {
	zero, done := g.fresh("zero"), g.fresh("init")
	g.f("MOVQ %d(R8), SI", atInit)
	g.f("TESTQ SI, SI")
	g.f("JZ %s", zero)
	g.f("MOVQ %d(R8), DI", atInit2)
	g.f("MOVQ %d(R8), AX", atStrideInit)
	g.f("ADDQ R12, SI")
	g.f("ADDQ R12, DI")
	for r := byte(0); r < rows; r++ {
		if r > 0 {
			g.f("MOVQ AX, DX")
			g.f("SHLQ $4, DX")
			g.f("ADDQ DX, SI")
			g.f("ADDQ DX, DI")
		}
		g.tileload(2*r, rSI, rAX, 0)
		g.tileload(2*r+1, rDI, rAX, 0)
	}
	g.f("JMP %s", done)
	g.label(zero)
	for t := range 2 * rows {
		g.tilezero(t)
	}
	g.label(done)
}

// tileLoop adds the products of 16*rows rows at R9 with two tiles of columns,
// R13 bytes on in B, which passes by, over all of K. Each step does a unit of
// unpacking, where there is one. AX, BX, DX, SI, DI, R10, R14 and the vectors are
// lost.
func (g *asm) tileLoop(rows byte) {
	loop, idle := g.fresh("loop"), g.fresh("idle")
	g.f("MOVQ R9, SI")
	if rows == 2 {
		g.f("MOVQ CX, DI")
		g.f("SHLQ $4, DI")
		g.f("ADDQ R9, DI") // rows 16 to 31
	}
	g.f("MOVQ %d(R8), BX", atB)
	g.f("MOVQ %d(R8), DX", atB2)
	g.f("ADDQ R13, BX")
	g.f("ADDQ R13, DX")
	g.f("MOVQ $64, AX")
	g.f("MOVQ %d(R8), R10", atJob)
	g.f("MOVQ %d(R8), R14", atSteps) // of 32 of K
	g.label(loop)
	g.tilepass(6, rBX, rAX, 0)
	g.tileload(4, rSI, rCX, 0)
	g.tdp("TDPBF16PS", 2, 0x5c, 0, 4, 6)
	g.tilepass(7, rDX, rAX, 0)
	g.tdp("TDPBF16PS", 2, 0x5c, 1, 4, 7)
	if rows == 2 {
		g.tileload(5, rDI, rCX, 0)
		g.tdp("TDPBF16PS", 2, 0x5c, 2, 5, 6)
		g.tdp("TDPBF16PS", 2, 0x5c, 3, 5, 7)
		g.f("ADDQ %d(R8), DI", atStepA)
	}
	g.f("ADDQ %d(R8), SI", atStepA)
	g.f("ADDQ $2048, BX")
	g.f("ADDQ $2048, DX")
	g.askPanel()
	g.f("CMPQ %d(R10), $0", jobUnits)
	g.f("JEQ %s", idle)
	g.f("CALL unpackUnit<>(SB)")
	g.label(idle)
	g.f("DECQ R14")
	g.f("JNZ %s", loop)
}

// tileSteps is the loop of a kernel that walks, over R14 steps of K: A at SI and
// DI, both tiles of columns at BX and DX, rows CX bytes apart. The rest is as in
// tileLoop.
func (g *asm) tileSteps(vectors, then func()) {
	loop, idle, done := g.fresh("loop"), g.fresh("idle"), g.fresh("done")
	step := func(then func()) {
		g.tileload(6, rBX, rCX, 0)
		g.tilepass(4, rSI, rCX, 0)
		g.tdp("TDPBF16PS", 2, 0x5c, 0, 4, 6)
		then()
		g.tileload(7, rDX, rCX, 0)
		g.tdp("TDPBF16PS", 2, 0x5c, 1, 4, 7)
		then()
		g.tilepass(5, rDI, rCX, 0)
		g.tdp("TDPBF16PS", 2, 0x5c, 2, 5, 6)
		then()
		g.tdp("TDPBF16PS", 2, 0x5c, 3, 5, 7)
	}
	g.label(loop)
	g.f("MOVQ %d(R8), R10", atJob)
	g.f("CMPQ %d(R10), $0", jobUnits)
	g.f("JEQ %s", idle)
	step(func() {
		g.unpackPart()
		g.unpackPart()
	})
	g.unpackRest()
	vectors()
	g.f("JMP %s", done)
	g.label(idle)
	step(func() {})
	g.label(done)
	for _, r := range []string{"SI", "DI", "BX", "DX"} {
		g.f("ADDQ $2048, %s", r)
	}
	then()
	g.f("DECQ R14")
	g.f("JNZ %s", loop)
}

// genTileBF16 multiplies 16*rows rows with panels of 32 columns, the same or others,
// block after block.
func genTileBF16(g *asm, rows byte) {
	name := fmt.Sprintf("tileAlong%d", rows)
	g.text(name, name+"(t *tileArgs)", 16, 8)
	g.tileOpen()
	g.f("MOVQ %d(R8), R11", atC)
	g.f("XORQ R12, R12")
	g.f("XORQ R13, R13")
	block := g.fresh("block")
	g.label(block)
	g.tileInit(rows)
	g.tileLoop(rows)
	g.f("MOVQ %d(R8), DX", atStrideC)
	g.f("MOVQ R11, SI")
	for r := byte(0); r < rows; r++ {
		if r > 0 {
			g.f("MOVQ DX, DI")
			g.f("SHLQ $4, DI")
			g.f("ADDQ DI, SI")
		}
		g.tilestore(2*r, rSI, rDX, 0)
		g.tilestore(2*r+1, rSI, rDX, 64)
	}
	g.f("ADDQ %d(R8), R9", atNextA) // where panels meet rows of their own
	g.f("ADDQ %d(R8), R13", atNextB)
	g.f("ADDQ %d(R8), R11", atNextC)
	g.f("ADDQ %d(R8), R12", atNextInit)
	g.f("DECQ R15")
	g.f("JNZ %s", block)
	g.tilerelease()
	g.f("VZEROUPPER")
	g.f("RET")
}

// panelAhead is how many bytes of a panel are on their way where it comes from
// beyond L2: as many as the loads of one core can wait for.
const panelAhead = 4096

// askPanel asks for what both tiles of columns, whose next step is at BX and DX,
// need later; where lines is zero they are near.
func (g *asm) askPanel() {
	near := g.fresh("near")
	g.f("CMPQ %d(R8), $0", atLines)
	g.f("JEQ %s", near)
	for i := range 16 {
		g.f("PREFETCHT0 %d(BX)", panelAhead-2048+64*i)
		g.f("PREFETCHT0 %d(DX)", panelAhead-2048+64*i)
	}
	g.label(near)
}

// cvtne2 is VCVTNE2PS2BF16: dst = bf16 of lo, then of hi.
func (g *asm) cvtne2(lo, hi, dst byte) {
	not := func(r byte, bit uint) byte { return ^r >> bit & 1 }
	g.bytes(fmt.Sprintf("VCVTNE2PS2BF16 Z%d, Z%d, Z%d", lo, hi, dst), 0x62,
		not(dst, 3)<<7|not(lo, 4)<<6|not(lo, 3)<<5|not(dst, 4)<<4|2,
		(^hi&15)<<3|4|3,
		0x40|not(hi, 4)<<3,
		0x72, 0xc0|(dst&7)<<3|lo&7)
}

// cvtne is VCVTNEPS2BF16: the lower half of dst = bf16 of src.
func (g *asm) cvtne(src, dst byte) {
	not := func(r byte, bit uint) byte { return ^r >> bit & 1 }
	g.bytes(fmt.Sprintf("VCVTNEPS2BF16 Z%d, Y%d", src, dst), 0x62,
		not(dst, 3)<<7|not(src, 4)<<6|not(src, 3)<<5|not(dst, 4)<<4|2,
		0x7e, 0x48, 0x72, 0xc0|(dst&7)<<3|src&7)
}

// genPackBF16 writes the two ways of f32 into B tiles.
func genPackBF16(g *asm) {
	// 16 rows of weights, steps x 32 of K each: pairs of k become dwords, and
	// a 16x16 transpose of dwords a tile.
	g.text("packRowsBF16", "packRowsBF16(dst *uint16, src *float32, ld, steps int)", 0, 32)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ld+16(FP), DX") // bytes
	g.f("MOVQ steps+24(FP), CX")
	loop := g.fresh("loop")
	g.label(loop)
	g.f("MOVQ SI, BX")
	for r := byte(0); r < 16; r++ {
		lo, hi := 16+r%8*2, 17+r%8*2
		g.f("VMOVUPS (BX), Z%d", lo)
		g.f("VMOVUPS 64(BX), Z%d", hi)
		g.cvtne2(lo, hi, r)
		if r < 15 {
			g.f("ADDQ DX, BX")
		}
	}
	g.storeTile()
	g.f("ADDQ $128, SI")
	g.f("ADDQ $2048, DI")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")

	// 16 columns of B in its natural order, steps x 32 rows of K: two rows
	// become one row of pairs.
	g.text("packColsBF16", "packColsBF16(dst *uint16, src *float32, ld, steps int, interleave *uint16)", 0, 40)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ld+16(FP), DX")
	g.f("MOVQ steps+24(FP), CX")
	g.f("MOVQ interleave+32(FP), AX")
	g.f("VMOVDQU64 (AX), Z31")
	loop = g.fresh("loop")
	g.label(loop)
	for p := byte(0); p < 16; p++ {
		lo, hi := p%4*2, p%4*2+1
		g.f("VMOVUPS (SI), Z%d", lo)
		g.f("VMOVUPS (SI)(DX*1), Z%d", hi)
		g.cvtne2(lo, hi, 8+p%4)
		g.f("VPERMW Z%d, Z31, Z%d", 8+p%4, 12+p%4)
		g.f("VMOVDQU64 Z%d, %d(DI)", 12+p%4, int(p)*64)
		g.f("LEAQ (SI)(DX*2), SI")
	}
	g.f("ADDQ $2048, DI")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}

// genPackEnd writes the end of 16 columns in natural order: 1 to 31 rows of K, and
// zeros behind them.
func genPackEnd(g *asm) {
	g.text("packEndBF16", "packEndBF16(dst *uint16, src *float32, ld, rows int, interleave *uint16)", 0, 40)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ ld+16(FP), DX") // bytes
	g.f("MOVQ rows+24(FP), CX")
	g.f("MOVQ interleave+32(FP), AX")
	g.f("VMOVDQU64 (AX), Z31")
	g.zero(avx512, 3)
	g.f("LEAQ 1024(DI), R8") // behind the tile
	pair, last, zeros := g.fresh("pair"), g.fresh("last"), g.fresh("zeros")
	g.label(pair)
	g.f("CMPQ CX, $2")
	g.f("JLT %s", last)
	g.f("VMOVUPS (SI), Z0")
	g.f("VMOVUPS (SI)(DX*1), Z1")
	g.cvtne2(0, 1, 2)
	g.f("VPERMW Z2, Z31, Z2")
	g.f("VMOVDQU64 Z2, (DI)")
	g.f("LEAQ (SI)(DX*2), SI")
	g.f("ADDQ $64, DI")
	g.f("SUBQ $2, CX")
	g.f("JMP %s", pair)
	g.label(last)
	g.f("TESTQ CX, CX")
	g.f("JZ %s", zeros)
	g.f("VMOVUPS (SI), Z0")
	g.cvtne2(0, 3, 2)
	g.f("VPERMW Z2, Z31, Z2")
	g.f("VMOVDQU64 Z2, (DI)")
	g.f("ADDQ $64, DI")
	g.label(zeros)
	done := g.fresh("done")
	g.f("CMPQ DI, R8")
	g.f("JEQ %s", done)
	g.f("VMOVDQU64 Z3, (DI)")
	g.f("ADDQ $64, DI")
	g.f("JMP %s", zeros)
	g.label(done)
	g.f("VZEROUPPER")
	g.f("RET")
}

// storeTile transposes the 16x16 dwords in Z0 to Z15, a row each, and stores
// them as a tile at (DI). Z16 to Z31 are lost.
func (g *asm) storeTile() {
	// Rows 4q..4q+3 in Z(4q)..: dwords, then qwords, within each 128-bit lane.
	for q := 0; q < 16; q += 4 {
		for _, p := range []int{q, q + 2} {
			g.f("VPUNPCKLDQ Z%d, Z%d, Z%d", p+1, p, 16+p)
			g.f("VPUNPCKHDQ Z%d, Z%d, Z%d", p+1, p, 17+p)
		}
		for h := range 2 {
			g.f("VPUNPCKLQDQ Z%d, Z%d, Z%d", 18+q+h, 16+q+h, q+2*h)
			g.f("VPUNPCKHQDQ Z%d, Z%d, Z%d", 18+q+h, 16+q+h, q+2*h+1)
		}
	}
	// Z(4q+j) has, in lane l, column 4l+j of the rows of group q.
	for j := range 4 {
		g.f("VSHUFI32X4 $0x88, Z%d, Z%d, Z16", 4+j, j)
		g.f("VSHUFI32X4 $0xdd, Z%d, Z%d, Z17", 4+j, j)
		g.f("VSHUFI32X4 $0x88, Z%d, Z%d, Z18", 12+j, 8+j)
		g.f("VSHUFI32X4 $0xdd, Z%d, Z%d, Z19", 12+j, 8+j)
		for l, s := range []string{"$0x88, Z18, Z16", "$0x88, Z19, Z17", "$0xdd, Z18, Z16", "$0xdd, Z19, Z17"} {
			g.f("VSHUFI32X4 %s, Z%d", s, 20+l)
			g.f("VMOVDQU64 Z%d, %d(DI)", 20+l, (4*l+j)*64)
		}
	}
}
