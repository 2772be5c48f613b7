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

// genTileWalk multiplies blocks of 32 rows with packed panels, many in one call,
// because configuring tiles takes as long as half a block: down the rows, where
// A passes by and the panel stays in L1, or along the panels, where A stays.
// Between the products it asks for memory that is needed later.
func genTileWalk(g *asm, walk string) {
	name := "walk" + walk
	loadA, loadB := g.tileload, g.tilepass
	if walk == "Down" {
		loadA, loadB = loadB, loadA
	}
	g.text(name, name+"(t *tileArgs)", 24, 8)
	g.walkOpen("list-8(SP)", "count-16(SP)")
	g.f("MOVQ %d(R8), R10", atAhead)
	job, block, loop, more, zero, begin := g.fresh("job"), g.fresh("block"), g.fresh("loop"), g.fresh("more"), g.fresh("zero"), g.fresh("begin")
	g.label(job)
	g.f("MOVQ list-8(SP), AX")
	g.f("MOVQ %d(AX), R9", jobA)
	g.f("MOVQ %d(AX), R13", jobB)
	g.f("MOVQ %d(AX), R11", jobC)
	g.f("MOVQ %d(AX), R12", jobInit)
	g.f("MOVQ %d(AX), R15", jobBlocks)
	g.label(block)
	g.f("MOVQ list-8(SP), BX")
	g.f("TESTQ R12, R12")
	g.f("JZ %s", zero)
	g.f("MOVQ %d(BX), AX", jobStrideInit)
	g.f("MOVQ AX, DI")
	g.f("SHLQ $4, DI")
	g.f("ADDQ R12, DI")
	g.f("MOVQ R12, SI")
	g.tileload(0, rSI, rAX, 0)
	g.tileload(1, rSI, rAX, 64)
	g.tileload(2, rDI, rAX, 0)
	g.tileload(3, rDI, rAX, 64)
	g.f("JMP %s", begin)
	g.label(zero)
	for t := range byte(4) {
		g.tilezero(t)
	}
	g.label(begin)
	g.f("MOVQ %d(BX), R14", jobStepsK)
	g.f("MOVQ R9, SI")
	g.f("LEAQ 1024(R9), DI")
	g.f("MOVQ R13, BX")
	g.f("MOVQ R11, c-24(SP)")
	g.f("MOVQ %d(R8), DX", atStrideC)
	g.label(loop)
	loadB(6, rBX, rCX, 0)
	loadA(4, rSI, rCX, 0)
	g.tdp("TDPBF16PS", 2, 0x5c, 0, 4, 6)
	loadB(7, rBX, rCX, 1024)
	g.tdp("TDPBF16PS", 2, 0x5c, 1, 4, 7)
	loadA(5, rDI, rCX, 0)
	g.tdp("TDPBF16PS", 2, 0x5c, 2, 5, 6)
	g.tdp("TDPBF16PS", 2, 0x5c, 3, 5, 7)
	for _, r := range []string{"SI", "DI", "BX"} {
		g.f("ADDQ $2048, %s", r)
	}
	// Rows of C, which the stores would wait for all at once.
	g.f("MOVQ %d(R8), AX", atQuota)
	g.label(more)
	g.bytes("PREFETCHW (R11)", 0x41, 0x0f, 0x0d, 0x0b)
	g.bytes("PREFETCHW 64(R11)", 0x41, 0x0f, 0x0d, 0x4b, 0x40)
	g.f("ADDQ DX, R11")
	g.f("DECQ AX")
	g.f("JNZ %s", more)
	g.walkAhead()
	g.f("DECQ R14")
	g.f("JNZ %s", loop)
	g.f("MOVQ c-24(SP), R11")
	g.f("MOVQ DX, DI")
	g.f("SHLQ $4, DI")
	g.f("ADDQ R11, DI")
	g.f("MOVQ R11, SI")
	g.tilestore(0, rSI, rDX, 0)
	g.tilestore(1, rSI, rDX, 64)
	g.tilestore(2, rDI, rDX, 0)
	g.tilestore(3, rDI, rDX, 64)
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
	g.tilerelease()
	g.f("VZEROUPPER")
	g.f("RET")
}
