package main

// Offsets in a job, which is what a kernel that walks over packed panels does
// in a row: some blocks, as far apart as the arguments say.
const (
	jobA          = 0
	jobB          = 8
	jobB2         = 16
	jobC          = 24 // or where rounded rows go
	jobInit       = 32 // what the first tile of columns starts from; nil: both from zero
	jobInit2      = 40
	jobStrideInit = 48 // 0: one row for all
	jobStepsK     = 56
	jobBlocks     = 64
	jobSize       = 72
)

// walkOpen begins a walk: the arguments are in R8, and the list of jobs, of
// which count says how many are left.
func (g *asm) walkOpen(list, count string) {
	g.tileOpen()
	g.f("MOVQ %d(R8), AX", atList)
	g.f("MOVQ AX, %s", list)
	g.f("MOVQ %d(R8), AX", atCount)
	g.f("MOVQ AX, %s", count)
}

// walkAhead asks for memory that is needed later, lines of it from R10 on; AX
// is lost.
func (g *asm) walkAhead() {
	more, done := g.fresh("more"), g.fresh("done")
	g.f("MOVQ %d(R8), AX", atLines)
	g.f("TESTQ AX, AX")
	g.f("JZ %s", done)
	g.label(more)
	g.f("PREFETCHT1 (R10)")
	g.f("ADDQ $64, R10")
	g.f("DECQ AX")
	g.f("JNZ %s", more)
	g.label(done)
}

// tileTurn is the first step of a block, whose operands it loads: each tile of C
// is stored for the block before, set to what this one starts from and added to,
// in turn. Storing all four first would keep the products waiting for as long
// as one takes, 52 cycles.
func (g *asm) tileTurn(load func(), store, start func(t byte)) {
	load()
	for t := range byte(4) {
		if store != nil {
			store(t)
		}
		start(t)
		g.tdp("TDPBF16PS", 2, 0x5c, t, 4+t/2, 6+t%2)
	}
}

// genTileWalk multiplies blocks of 32 rows with packed panels, many in one call,
// because configuring tiles takes as long as half a block: down the rows, where
// A passes by and the panel stays in L1, or along the panels, where A stays.
// Between the products it asks for memory that is needed later.
//
// Unpack is Down that unpacks the next panel meanwhile instead.
func genTileWalk(g *asm, walk string) {
	name := "walk" + walk
	loadA, loadB := g.tileload, g.tilepass
	if walk != "Along" {
		loadA, loadB = loadB, loadA
	}
	g.text(name, name+"(t *tileArgs)", 32, 8)
	g.walkOpen("list-8(SP)", "count-16(SP)")
	if walk == "Unpack" {
		g.f("MOVQ %d(R8), R10", atJob)
	} else {
		g.f("MOVQ %d(R8), R10", atAhead)
	}
	g.f("MOVQ $0, before-32(SP)") // C of the block whose tiles are not stored
	job, block, loop, more, steps := g.fresh("job"), g.fresh("block"), g.fresh("loop"), g.fresh("more"), g.fresh("steps")
	g.label(job)
	g.f("MOVQ list-8(SP), AX")
	g.f("MOVQ %d(AX), R9", jobA)
	g.f("MOVQ %d(AX), R13", jobB)
	g.f("MOVQ %d(AX), R11", jobC)
	g.f("MOVQ %d(AX), R12", jobInit)
	g.f("MOVQ %d(AX), R15", jobBlocks)
	g.label(block)
	g.f("MOVQ R11, c-24(SP)")
	g.f("MOVQ list-8(SP), AX")
	g.f("MOVQ %d(AX), R14", jobStepsK)
	g.f("MOVQ %d(AX), AX", jobStrideInit)
	g.f("MOVQ %d(R8), DX", atStrideC)
	g.walkTurn(loadA, loadB)
	g.f("LEAQ 2048(R9), SI")
	g.f("LEAQ 3072(R9), DI")
	g.f("LEAQ 2048(R13), BX")
	g.f("JMP %s", steps)
	g.label(loop)
	step := func(then func()) {
		loadB(6, rBX, rCX, 0)
		loadA(4, rSI, rCX, 0)
		g.tdp("TDPBF16PS", 2, 0x5c, 0, 4, 6)
		then()
		loadB(7, rBX, rCX, 1024)
		g.tdp("TDPBF16PS", 2, 0x5c, 1, 4, 7)
		then()
		loadA(5, rDI, rCX, 0)
		g.tdp("TDPBF16PS", 2, 0x5c, 2, 5, 6)
		then()
		g.tdp("TDPBF16PS", 2, 0x5c, 3, 5, 7)
		then()
	}
	if walk == "Unpack" {
		idle, stepped := g.fresh("idle"), g.fresh("stepped")
		g.f("CMPQ %d(R10), $0", jobUnits)
		g.f("JEQ %s", idle)
		step(g.unpackSite)
		g.f("JMP %s", stepped)
		g.label(idle)
		step(func() {})
		g.label(stepped)
	} else {
		step(func() {})
	}
	for _, r := range []string{"SI", "DI", "BX"} {
		g.f("ADDQ $2048, %s", r)
	}
	// Rows of C, which the stores would wait for all at once.
	g.label(steps)
	g.f("MOVQ %d(R8), AX", atQuota)
	g.label(more)
	g.bytes("PREFETCHW (R11)", 0x41, 0x0f, 0x0d, 0x0b)
	g.bytes("PREFETCHW 64(R11)", 0x41, 0x0f, 0x0d, 0x4b, 0x40)
	g.f("ADDQ DX, R11")
	g.f("DECQ AX")
	g.f("JNZ %s", more)
	if walk != "Unpack" {
		g.walkAhead()
	}
	g.f("DECQ R14")
	g.f("JNZ %s", loop)
	g.f("MOVQ c-24(SP), R11")
	g.f("MOVQ R11, before-32(SP)")
	g.f("ADDQ %d(R8), R9", atNextA)
	g.f("ADDQ %d(R8), R13", atNextB)
	g.f("ADDQ %d(R8), R11", atNextC)
	none := g.fresh("none")
	g.f("TESTQ R12, R12")
	g.f("JZ %s", none)
	g.f("MOVQ list-8(SP), AX")
	g.f("MOVQ %d(R8), DX", atNextC)
	g.f("CMPQ %d(AX), $0", jobStrideInit)
	g.f("CMOVQEQ %d(R8), DX", atNextInit)
	g.f("ADDQ DX, R12")
	g.label(none)
	g.f("DECQ R15")
	g.f("JNZ %s", block)
	g.f("ADDQ $%d, list-8(SP)", jobSize)
	g.f("DECQ count-16(SP)")
	g.f("JNZ %s", job)
	g.f("MOVQ before-32(SP), SI")
	g.f("MOVQ %d(R8), DX", atStrideC)
	g.f("MOVQ DX, DI")
	g.f("SHLQ $4, DI")
	g.f("ADDQ SI, DI")
	for t := range byte(4) {
		g.walkStore(t)
	}
	g.tilerelease()
	if walk == "Unpack" {
		g.unpackRest()
	}
	g.f("VZEROUPPER")
	g.f("RET")
}

// walkStore stores a tile of C, whose rows DX bytes apart begin at SI and DI.
func (g *asm) walkStore(t byte) {
	g.tilestore(t, []byte{rSI, rDI}[t/2], rDX, int32(t%2)*64)
}

// walkTurn is the first step of a block of a walk: A at R9, the panel at R13, C
// from R12 on, rows AX bytes apart, where that is not nil. Four ways: there is a
// block before, or none; C starts from something, or from zero. DX is kept; BX,
// SI and DI are lost.
func (g *asm) walkTurn(loadA, loadB func(t, base, index byte, disp int32)) {
	load := func() {
		g.f("MOVQ R13, BX")
		g.f("MOVQ R9, SI")
		loadB(6, rBX, rCX, 0)
		loadA(4, rSI, rCX, 0)
		loadB(7, rBX, rCX, 1024)
		loadA(5, rSI, rCX, 1024)
	}
	zero, first, end := g.fresh("zero"), g.fresh("first"), g.fresh("end")
	before := func() {
		g.f("MOVQ before-32(SP), SI")
		g.f("MOVQ DX, DI")
		g.f("SHLQ $4, DI")
		g.f("ADDQ SI, DI")
	}
	from := func(t byte) {
		if t == 0 {
			g.f("MOVQ R12, BX")
		} else if t == 2 {
			g.f("LEAQ (BX)(AX*8), BX")
			g.f("LEAQ (BX)(AX*8), BX")
		}
		g.tileload(t, rBX, rAX, int32(t%2)*64)
	}
	g.f("CMPQ before-32(SP), $0")
	g.f("JEQ %s", first)
	g.f("TESTQ R12, R12")
	g.f("JZ %s", zero)
	g.tileTurn(func() { load(); before() }, g.walkStore, from)
	g.f("JMP %s", end)
	g.label(zero)
	g.tileTurn(func() { load(); before() }, g.walkStore, g.tilezero)
	g.f("JMP %s", end)
	g.label(first)
	zero = g.fresh("zero")
	g.f("TESTQ R12, R12")
	g.f("JZ %s", zero)
	g.tileTurn(load, nil, from)
	g.f("JMP %s", end)
	g.label(zero)
	g.tileTurn(load, nil, g.tilezero)
	g.label(end)
}

// unpackSite does one part of a unit, or two.
func (g *asm) unpackSite() {
	once := g.fresh("once")
	g.unpackPart()
	g.f("CMPQ %d(R8), $0", atTwice)
	g.f("JEQ %s", once)
	g.unpackPart()
	g.label(once)
}
