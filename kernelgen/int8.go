package main

import "fmt"

// int8Form is how a panel of int8 weights lies: for every group of K a header
// of scales, then chunks of 32 of K x 32 columns. Package int8 has the same
// table.
type int8Form struct {
	name   string
	header int  // bytes before the codes of a group
	chunk  int  // bytes of a chunk: 1024, or 512 with two codes a byte
	half   bool // scales are f16, else f32
	min    bool // a minimum a column behind the scales
	long   bool // several chunks a group
}

var int8Forms = []int8Form{
	{name: "Q8", header: 64, chunk: 1024, half: true},
	{name: "Q4", header: 128, chunk: 512, half: true, min: true},
	{name: "G128", header: 128, chunk: 1024, long: true},
}

// Offsets in package int8's dotArgs.
const (
	argA      = 8
	argSA     = 16
	argAux    = 24
	argSB     = 32
	argB      = 40
	argC      = 48
	argInit   = 56
	argLDA    = 64
	argLDS    = 72
	argLDC    = 80
	argLDI    = 88
	argGroups = 96
	argLast   = 104
	argStrips = 112
	argRows   = 120
	argBuf    = 128
	// Working copies, which Go holds as integers: a pointer behind the last
	// row must not be seen by the collector.
	curA    = 136
	curSA   = 144
	curAux  = 152
	curC    = 160
	curInit = 168

	argAhead = 216 // how far ahead of the codes to prefetch
)

// int8Copies fills the working copies by way of a register.
func int8Copies(g *asm, reg string) {
	for _, c := range [][2]int{{argA, curA}, {argSA, curSA}, {argAux, curAux}, {argC, curC}, {argInit, curInit}} {
		g.f("MOVQ %d(R8), %s", c[0], reg)
		g.f("MOVQ %s, %d(R8)", reg, c[1])
	}
}

// groupChunks is the number of chunks of a whole group of the long form.
const groupChunks = 4

// genInt8 writes the int8 dot products of every tier, the quantizers and the
// unpacking of nibbles.
func genInt8(g *asm) {
	c := &constants{}
	for _, f := range int8Forms {
		genInt8AVX2(g, c, f)
	}
	for _, f := range int8Forms {
		genInt8AVXVNNI(g, c, f)
	}
	for _, f := range int8Forms {
		genInt8VNNI(g, c, f, false)
		if !f.min {
			genInt8VNNI(g, c, f, true)
		}
	}
	for _, f := range int8Forms {
		for _, rows := range []byte{2, 1} {
			genInt8AMX(g, f, rows)
		}
	}
	genUnpackQ4(g, c)
	for _, i := range []isa{avx2, avx512} {
		for _, n := range []int{32, 128} {
			genQuantize(g, c, i, n)
		}
	}
	genInt8Lanes(g)
	c.write(g)
}

// rowAddr is element off of activation row r, up to row 6: SI is row 0, R9 row
// 3, R10 row 6 and CX the distance.
func rowAddr(r, off int) string {
	return fmt.Sprintf("%d%s", off, []string{"(SI)", "(SI)(CX*1)", "(SI)(CX*2)", "(R9)", "(SI)(CX*4)", "(R9)(CX*2)", "(R10)"}[r])
}

// int8Entry loads what all vector kernels need and jumps to the body of the
// row count: R8 args, CX the distance of rows.
func int8Entry(g *asm, name string, maxMR int) {
	g.text(name, name+"(t *dotArgs)", 16, 8)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	int8Copies(g, "CX")
	g.f("MOVQ %d(R8), CX", argLDA)
	g.f("MOVQ %d(R8), R10", argRows)
	for mr := maxMR; mr > 1; mr-- {
		g.f("CMPQ R10, $%d", mr)
		g.f("JEQ %s_%d", name, mr)
	}
}

// int8Strip points at the strip's rows and scales.
func int8Strip(g *asm, mr int) {
	g.f("MOVQ %d(R8), SI", curA)
	if mr > 3 {
		g.f("LEAQ (SI)(CX*2), R9")
		g.f("ADDQ CX, R9")
	}
	if mr > 6 {
		g.f("LEAQ (R9)(CX*2), R10")
		g.f("ADDQ CX, R10")
	}
	g.f("MOVQ %d(R8), R11", curSA)
	g.f("MOVQ %d(R8), R12", curAux)
	g.f("MOVQ %d(R8), DX", argSB)
	g.f("MOVQ %d(R8), DI", argB)
	g.f("MOVQ %d(R8), AX", argGroups)
	g.f("MOVQ %d(R8), R13", argAhead)
}

// int8Prefetch asks for an eighth of a chunk: few rows wait for memory, where
// hardware alone stops at page ends.
func int8Prefetch(g *asm, f int8Form, q int) {
	g.f("PREFETCHT0 %d(DI)(R13*1)", f.chunk/8*q)
}

// int8Chunks runs body for every chunk of a group; BX counts. body moves DI.
func int8Chunks(g *asm, f int8Form, mr int, body func()) {
	step := func() {
		body()
		g.f("ADDQ $%d, DI", f.chunk)
		g.f("ADDQ $32, SI")
		if mr > 3 {
			g.f("ADDQ $32, R9")
		}
		if mr > 6 {
			g.f("ADDQ $32, R10")
		}
	}
	if !f.long {
		step()
		return
	}
	loop := g.fresh("chunk")
	g.f("MOVQ $%d, BX", groupChunks)
	g.f("CMPQ AX, $1")
	g.f("CMOVQEQ %d(R8), BX", argLast)
	g.label(loop)
	step()
	g.f("DECQ BX")
	g.f("JNZ %s", loop)
}

// int8Next moves scales and codes to the next group; AX counts groups.
func int8Next(g *asm, f int8Form, group string) {
	if f.long { // the distance between groups varies only behind the last
		g.f("ADDQ $%d, DX", f.header+groupChunks*f.chunk)
	} else {
		g.f("ADDQ $%d, DX", f.header+f.chunk)
	}
	g.f("ADDQ $%d, DI", f.header)
	g.f("ADDQ %d(R8), R11", argLDS)
	g.f("ADDQ %d(R8), R12", argLDS)
	g.f("DECQ AX")
	g.f("JNZ %s", group)
}

// int8Scales loads scales (or minima, 64 bytes on) of two vectors.
func int8Scales(k *vkernel, f int8Form, off, r0, r1 int) {
	for n, r := range []int{r0, r1} {
		if f.half {
			k.f("VCVTPH2PS %d(DX), %s", off+n*k.lanes*2, k.v(r))
		} else {
			k.f("VMOVUPS %d(DX), %s", off+n*k.lanes*4, k.v(r))
		}
	}
}
