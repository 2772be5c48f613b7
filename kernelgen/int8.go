package main

import "fmt"

// int8Group is the number of values of K that share a scale.
const int8Group = 32

// int8Form is how a panel of int8 weights lies: for every group of K a header
// of f16 scales, then the codes of 32 columns. Package int8 has the same table.
type int8Form struct {
	name   string
	header int  // bytes before the codes of a group
	codes  int  // bytes of a group's codes: 1024, or 512 with two codes per byte
	min    bool // one f16 minimum per column behind the scales
}

// block is the bytes of a group.
func (f int8Form) block() int { return f.header + f.codes }

var int8Forms = []int8Form{
	{name: "Q8", header: 64, codes: 1024},
	{name: "Q4", header: 128, codes: 512, min: true},
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
	argStrips = 104
	argRows   = 112
	argBuf    = 120
	// Working copies, which Go holds as integers: a pointer behind the last
	// row must not be seen by the collector.
	curA    = 128
	curSA   = 136
	curAux  = 144
	curC    = 152
	curInit = 160

	argAhead = 208 // how far ahead of the codes to prefetch
)

// int8Copies fills the working copies by way of a register.
func int8Copies(g *asm, reg string) {
	for _, c := range [][2]int{{argA, curA}, {argSA, curSA}, {argAux, curAux}, {argC, curC}, {argInit, curInit}} {
		g.f("MOVQ %d(R8), %s", c[0], reg)
		g.f("MOVQ %s, %d(R8)", reg, c[1])
	}
}

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
		genQuantize(g, c, i)
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

// int8Prefetch asks for an eighth of a group's codes: few rows wait for memory, where
// hardware alone stops at page ends.
func int8Prefetch(g *asm, f int8Form, q int) {
	g.f("PREFETCHT0 %d(DI)(R13*1)", f.codes/8*q)
}

// int8Behind moves weights and rows behind the codes of a group.
func int8Behind(g *asm, f int8Form, mr int) {
	g.f("ADDQ $%d, DI", f.codes)
	g.f("ADDQ $%d, SI", int8Group)
	if mr > 3 {
		g.f("ADDQ $%d, R9", int8Group)
	}
	if mr > 6 {
		g.f("ADDQ $%d, R10", int8Group)
	}
}

// int8Next moves scales to the next group and weights behind its header; AX
// counts groups.
func int8Next(g *asm, f int8Form, group string) {
	g.f("ADDQ $%d, DX", f.block())
	g.f("ADDQ $%d, DI", f.header)
	g.f("ADDQ %d(R8), R11", argLDS)
	g.f("ADDQ %d(R8), R12", argLDS)
	g.f("DECQ AX")
	g.f("JNZ %s", group)
}

// int8Scales loads scales (or minima, 64 bytes on) of two vectors.
func int8Scales(k *vkernel, off, r0, r1 int) {
	for n, r := range []int{r0, r1} {
		k.f("VCVTPH2PS %d(DX), %s", off+n*k.lanes*2, k.v(r))
	}
}
