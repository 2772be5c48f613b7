package main

// genHalfPanels writes the products of up to 16 activation rows with panels of codes
// on tiles of f16 numbers. Weights are rounded to f16 on their way into tiles, so
// that a tile adds up all columns of a panel; genFewPanels has to bring each product
// of 32 columns to memory and scale it there.
//
//	name(t *panelArgs)
//
// The sums of panelArgs are one factor per row here, by which results are multiplied.
func genHalfPanels(g *asm) {
	for _, s := range halfTypes {
		g.halfPanel(s)
	}
	g.packHalves()
}

// halfType is a type that has a kernel for tiles of f16.
type halfType struct {
	name  string
	head  int // bytes before the codes of 32 columns
	bytes int // of these
	// constants sets Z15 and registers from Z28 on.
	constants func(g *asm)
	// scales makes what rows need of the block at SI.
	scales func(g *asm)
	// rows leaves 16 rows of the right operand, of the codes at SI, at R10.
	rows func(g *asm)
}

// Z26 has scales and Z27 minima, both a number for each column of a row of a tile.
var halfTypes = []halfType{
	{"Q4_0", 32, 256, (*asm).halfTables, func(g *asm) {
		g.f("VPERMW (SI), Z30, Z26")
	}, func(g *asm) {
		g.nibbleRows(func(z byte) { g.mulph(26, z, z) })
	}},
	{"Q4_1", 64, 256, (*asm).halfTables, func(g *asm) {
		g.f("VPERMW (SI), Z30, Z26")
		g.f("VPERMW 32(SI), Z30, Z27")
		g.fmadd231ph(15, 26, 27)
	}, func(g *asm) {
		g.nibbleRows(func(z byte) { g.fmadd213ph(27, 26, z) })
	}},
	{"Q8_0", 32, 512, func(g *asm) {
		g.halfTables()
		g.broadcast(0x00ff00ff, 29)
		g.broadcast(0x64806480, 28) // 1024 + 128, and the bits that make 1024 + 128 + q of q
	}, func(g *asm) {
		g.f("VPERMW (SI), Z30, Z26")
	}, func(g *asm) {
		for v := range 8 {
			low, high := byte(16+v%4*2), byte(17+v%4*2)
			g.f("VMOVDQU64 %d(SI), Z%d", 64*v, low)
			g.f("VPSRAW $8, Z%d, Z%d", low, high)
			g.f("VPTERNLOGD $0x6a, Z28, Z29, Z%d", low) // (words and mask) xor bits
			g.subph(low, 28, low)
			g.cvtw2ph(high, high)
			for i, z := range []byte{low, high} {
				g.mulph(26, z, z)
				g.f("VMOVDQU64 Z%d, %d(R10)", z, 64*(2*v+i))
			}
		}
	}},
}

// nibbleRows makes rows of 32 codes of 4 bits each: numbers of the table in Z29,
// which finish completes in a register. A table of bytes is enough, because the low
// bytes of the f16 numbers -8 to 7 are 0.
func (g *asm) nibbleRows(finish func(z byte)) {
	for v := range 4 {
		codes := byte(16 + 5*(v%2))
		low, high := codes, codes+1
		g.f("VMOVDQU64 %d(SI), Z%d", 64*v, codes)
		g.f("VPSRLW $4, Z%d, Z%d", codes, high)
		for i, z := range []byte{low, high} {
			g.f("VPANDD Z28, Z%d, Z%d", z, z)
			g.f("VPSHUFB Z%d, Z29, Z%d", z, z)
			even := codes + 2 + byte(i)
			g.f("VPSLLW $8, Z%d, Z%d", z, even)
			g.f("VPANDD Z31, Z%d, Z%d", z, z)
			for j, r := range []byte{even, z} { // codes 0 and 1 of four, 4 and 5; 2 and 3, 6 and 7
				finish(r)
				g.f("VMOVDQU64 Z%d, %d(R10)", r, 64*(4*v+i+2*j))
			}
		}
	}
}

// halfTables sets the constants of codes of 4 bits: Z29 has the numbers that they
// stand for, Z30 brings numbers of 16 rows to pairs, Z28 and Z31 are masks, Z15 is 8.
func (g *asm) halfTables() {
	g.f("MOVQ %d(R8), AX", panelTables)
	for i, z := range []int{29, 30} {
		g.f("VMOVDQU64 %d(AX), Z%d", 64*i, z)
	}
	g.broadcast(0x0f0f0f0f, 28)
	g.broadcast(0xff00ff00, 31)
	g.broadcast(0x48004800, 15) // 8
}

// halfAhead is how many steps before its product a step is unpacked; see
// fewPanelType.unpackBefore.
const halfAhead = 4

// halfPanel writes the kernel of a type. Registers: SI is the codes, R9 the steps
// that are not unpacked, R10 and DI the right operands that are written and loaded,
// BX the activations' tile, CX the distance of a tile's rows, R13 the steps that a
// panel still has, R14 and R15 the results and the bias of the panel before it, R12
// the factors of rows, DX the tiles of sums in memory, R11 the steps that a panel
// still has when the sums of the one before it are finished.
//
// Products of even and odd steps are added to tiles of their own, because a product
// takes 52 cycles; and panels take turns with two such pairs.
func (g *asm) halfPanel(s halfType) {
	name := "half" + s.name
	g.text(name, name+"(t *panelArgs)", 16, 8)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ %d(R8), AX", panelCfg)
	g.ldtilecfg()
	s.constants(g)
	g.f("MOVQ %d(R8), R10", panelMem)
	g.f("MOVQ R10, DI")
	g.f("LEAQ %d(R10), DX", panelOut)
	g.f("MOVQ %d(R8), SI", panelW)
	g.f("MOVQ %d(R8), BX", panelX)
	g.f("MOVQ %d(R8), R12", panelSums)
	g.f("MOVQ %d(R8), R13", panelSteps)
	g.f("MOVQ %d(R8), R9", panelTotal)
	g.f("MOVQ R9, %d(R8)", panelMore)
	g.f("MOVQ %d(R8), AX", panelY)
	g.f("MOVQ AX, %d(R8)", panelYAt)
	g.f("MOVQ %d(R8), AX", panelBias)
	g.f("MOVQ AX, %d(R8)", panelBiasAt)
	g.f("MOVQ $1, AX")
	g.f("LEAQ -3(R13), R11")
	g.f("CMPQ R11, AX")
	g.f("CMOVQLT AX, R11")
	g.f("MOVQ $%d, R14", halfAhead)
	g.f("MOVQ %d(R8), R15", panelSize)
	g.f("LEAQ (SI)(R15*4), R15")
	g.fourPanels()
	g.f("MOVQ $64, CX")
	ahead, first := g.fresh("ahead"), g.fresh("first")
	g.label(ahead)
	g.f("DECQ R9")
	g.f("JLT %s", first)
	g.halfUnpack(s)
	g.f("DECQ R14")
	g.f("JNZ %s", ahead)
	g.label(first)
	g.f("XORQ R14, R14")
	g.tileload(4, rBX, rCX, 0)
	g.tileload(6, rDI, rCX, 0)
	g.ring("DI", 1024, ringTiles)
	g.tilezero(0)
	g.tilezero(1)
	var turns, ends [2][2]string
	for pair := range 2 {
		for turn := range 2 {
			turns[pair][turn], ends[pair][turn] = g.fresh("turn"), g.fresh("end")
		}
	}
	var last [2]string
	for pair := range byte(2) {
		last[pair] = g.fresh("last")
		for turn := range byte(2) {
			g.label(turns[pair][turn])
			g.halfTurn(s, pair, turn)
			g.f("JZ %s", ends[pair][turn])
		}
		g.f("JMP %s", turns[pair][0])
	}
	for pair := range byte(2) {
		for turn := range byte(2) {
			g.label(ends[pair][turn])
			g.f("MOVQ $1, R14")
			g.f("MOVQ %d(R8), R13", panelSteps)
			g.f("SUBQ R13, %d(R8)", panelMore)
			g.f("JLE %s", last[pair])
			g.tilezero(2 - 2*pair)
			g.tilezero(3 - 2*pair)
			g.f("JMP %s", turns[1-pair][1-turn])
		}
	}
	done := g.fresh("done")
	for pair := range byte(2) {
		g.label(last[pair])
		g.storePair(pair)
		g.f("JMP %s", done)
	}
	g.label(done)
	g.halfResults()
	g.tilerelease()
	g.ret()
}

// halfTurn multiplies the step that is loaded, loads the next one and unpacks
// another. It leaves the flags of R13.
func (g *asm) halfTurn(s halfType, pair, turn byte) {
	stored, unpacked, finished := g.fresh("stored"), g.fresh("unpacked"), g.fresh("finished")
	g.tdp("TDPFP16PS", 3, 0x5c, 2*pair+turn, 4+turn, 6+turn)
	g.f("ADDQ $1024, BX")
	g.f("CMPQ R13, $1")
	g.f("CMOVQEQ %d(R8), BX", panelX)
	g.tileload(5-turn, rBX, rCX, 0)
	g.tileload(7-turn, rDI, rCX, 0)
	g.ring("DI", 1024, ringTiles)
	g.f("CMPQ R13, R11")
	g.f("JNE %s", stored)
	g.f("TESTQ R14, R14")
	g.f("JZ %s", stored)
	g.storePair(1 - pair)
	g.label(stored)
	g.f("DECQ R9")
	g.f("JLT %s", unpacked)
	g.halfUnpack(s)
	g.label(unpacked)
	g.f("CMPQ R13, R11")
	g.f("JNE %s", finished)
	g.f("TESTQ R14, R14")
	g.f("JZ %s", finished)
	g.halfResults()
	g.label(finished)
	g.f("DECQ R13")
}

// halfUnpack makes the right operand of the step at SI, which it passes.
func (g *asm) halfUnpack(s halfType) {
	s.scales(g)
	g.fetchFour(s.head + s.bytes)
	g.f("ADDQ $%d, SI", s.head)
	s.rows(g)
	g.f("ADDQ $%d, SI", s.bytes)
	g.ring("R10", 1024, ringTiles)
}

// fetchFour asks for what the next four panels have for a step of so many bytes, a
// quarter from each, because memory delivers four streams faster than one. A quarter
// of Q4_1 is more than a line, so lines close ahead are asked for again.
func (g *asm) fetchFour(bytes int) {
	more := g.fresh("more")
	quarter := bytes / 4
	g.f("MOVQ %d(R8), AX", panelSize)
	for at := 0; at < quarter-16; at += 64 {
		g.f("PREFETCHT1 %d(R15)", at)
		g.f("PREFETCHT1 %d(R15)(AX*1)", at)
		g.f("PREFETCHT1 %d(R15)(AX*2)", at)
	}
	g.f("LEAQ (AX)(AX*2), AX")
	for at := 0; at < quarter-16; at += 64 {
		g.f("PREFETCHT1 %d(R15)(AX*1)", at)
	}
	g.f("ADDQ $%d, R15", quarter)
	g.f("DECQ %d(R8)", panelLeft)
	g.f("JNZ %s", more)
	g.f("ADDQ AX, R15")
	g.fourPanels()
	g.label(more)
	for line := 0; line < bytes; line += 64 {
		g.f("PREFETCHT0 %d(SI)", line+1024)
	}
}

// fourPanels sets the steps after which fetchFour goes on. It asks for panels from
// R15 on, or for what comes after them where no more than four panels are left.
func (g *asm) fourPanels() {
	more := g.fresh("more")
	g.f("MOVQ %d(R8), AX", panelSteps)
	g.f("SHLQ $2, AX")
	g.f("MOVQ AX, %d(R8)", panelLeft)
	g.f("CMPQ R9, AX")
	g.f("JGT %s", more)
	g.f("MOVQ %d(R8), R15", panelAfter)
	g.label(more)
}

// storePair brings a pair of tiles of sums to memory.
func (g *asm) storePair(pair byte) {
	g.tilestore(2*pair, rDX, rCX, 0)
	g.tilestore(2*pair+1, rDX, rCX, 1024)
}

// halfResults adds the two tiles of sums and leaves results at R14.
func (g *asm) halfResults() {
	done := g.fresh("done")
	g.f("MOVQ %d(R8), AX", panelM)
	g.f("MOVQ %d(R8), R14", panelBiasAt)
	g.f("VMOVUPS (R14), Z1")
	g.f("ADDQ %d(R8), R14", panelNext)
	g.f("MOVQ R14, %d(R8)", panelBiasAt)
	g.f("MOVQ %d(R8), R14", panelYAt)
	g.f("ADDQ $64, %d(R8)", panelYAt)
	for m := range 16 {
		g.f("VMOVUPS %d(DX), Z0", 64*m)
		g.f("VADDPS %d(DX), Z0, Z0", 1024+64*m)
		g.f("VFMADD132PS.BCST %d(R12), Z1, Z0", 4*m)
		g.f("VMOVUPS Z0, (R14)")
		if m < 15 {
			g.f("CMPQ AX, $%d", m+1)
			g.f("JLE %s", done)
			g.f("ADDQ %d(R8), R14", panelStrideY)
		}
	}
	g.label(done)
	g.f("XORQ R14, R14")
}
