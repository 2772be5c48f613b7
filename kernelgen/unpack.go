package main

import "fmt"

// Offsets in unpackJob.
const (
	jobUnits    = 0 // tiles that are left
	jobRowBytes = 16
	jobSteps    = 24 // of 32 of K in a row
	jobLeft     = 32 // of them in this half
	jobSrc      = 40 // bytes of it that are done with
	jobDst      = 48
	jobHalf     = 56  // bytes from halves to this one
	jobHalves   = 64  // [4]{src, dst}
	jobRows     = 128 // where the rows begin, 16 dwords
	jobStep     = 192 // steps of a long block that are done with, times 32
	jobScales   = 200 // what the steps of a long block have in common, 6 x 16 dwords
	jobNext     = 584 // the code of the next part of a tile
	jobBusy     = 592 // not 0: some parts of a tile are done
	jobTile     = 600 // where it goes
)

// Offsets in unpackTables.
const (
	tabPairs   = 0   // [2][2]: where the bytes of a pair lie, for VPERMB
	tabTwice   = 256 // [2]: lanes 0 to 7, and 8 to 15, each twice
	tabSign    = 384 // 0x80 in each byte
	tabFloat   = 388 // 2^15
	tabBias    = 392 // 2^15+128
	tabMask    = 400 // the second byte of each dword
	tabNibble  = 408 // 0x0f in each byte
	tabEight   = 412 // 2^15+8
	tabRows    = 416 // [2][2]: where the bytes of a pair of dwords of 16 rows lie, of rows 0 to 7 and 8 to 15
	tabMiddle  = 672 // 2^15+32
	tabSix     = 676 // 0x3f in each byte
	tabHigh    = 680 // 0x30 in each byte
	tabFifth   = 684 // 0x10 in each byte
	tabByte    = 688 // 0xff in each dword
	tabFifths  = 692 // where eight bits begin whose fifth is one of 8 rows' first eight, for VPMULTISHIFTQB
	tabFour    = 756 // 0x04 in each byte
	tabMiddle5 = 760 // 2^15+16
	tabLevels  = 764 // [2][16] what codes stand for, plus 128: of IQ4, and of MXFP4
	tabThree   = 796 // 0x03 in each byte
	tabLow     = 800 // 15 in each dword
	tabHalf6   = 804 // 0x20 in each byte
	tabMiddle3 = 808 // 2^15+4
	tabOne     = 812 // 1 in each dword
	tabTiny    = 816 // 2^-128
	tabQuads   = 820 // [2][2]: where bytes 0 and 2, or 1 and 3, of dwords of 16 rows lie, as tabRows
)

// unpackKinds are the storage types that go into tiles without a detour, in
// the order of their numbers in Go: the bytes of a block, its steps, and what
// fills the tile at (DI) from 16 rows at (SI), of long blocks for step CX.
var unpackKinds = []struct {
	name         string
	block, steps int
	body         func(g *asm)
}{
	{"Q8_0", 34, 1, unpackQ8},
	{"Q4_1", 20, 1, unpackQ41},
	{"Q4_0", 18, 1, unpackQ40},
	{"Q4_K", 144, 8, unpackQ4K},
	{"Q5_K", 176, 8, unpackQ5K},
	{"Q6_K", 210, 8, unpackQ6K},
	{"Q5_0", 22, 1, unpackQ50},
	{"Q5_1", 24, 1, unpackQ51},
	{"IQ4_NL", 18, 1, unpackIQ4},
	{"MXFP4", 17, 1, unpackMXFP4},
	{"Q2_K", 84, 8, unpackQ2K},
	{"Q3_K", 110, 8, unpackQ3K},
	{"IQ4_XS", 136, 8, unpackIQ4XS},
	{"PanelQ8_0", 16 * 34, 1, unpackPanelQ8},
	{"PanelQ4_1", 16 * 20, 1, unpackPanelQ41},
	{"PanelQ4_0", 16 * 18, 1, unpackPanelQ40},
	{"PanelQ4_K", 16 * 144, 8, unpackPanelQ4K},
	{"PanelQ6_K", 16 * 210, 8, unpackPanelQ6K},
}

// firstPanel is the number of the first type in panels of codes.
const firstPanel = 13

// genUnpackBF16 writes the ways of quantized rows into B tiles: 16 rows of
// 32 values, decoded, rounded and transposed without leaving registers. One
// unit is one tile. A tile kernel does units of the panel after the one that it
// multiplies with, because the vector units have nothing else to do. It does a
// unit in parts, some behind each tile product: all shuffles in a row, which go
// through the products' own port, would keep the next product waiting.
func genUnpackBF16(g *asm) {
	g.text("unpackAll", "unpackAll(j *unpackJob)", 16, 8)
	g.f("MOVQ j+0(FP), R10")
	loop, done := g.fresh("loop"), g.fresh("done")
	g.label(loop)
	g.f("CMPQ %d(R10), $0", jobUnits)
	g.f("JEQ %s", done)
	g.unpackPart()
	g.f("JMP %s", loop)
	g.label(done)
	g.f("VZEROUPPER")
	g.f("RET")

	g.text("unpackFirst", "unpackFirst(kind int) uintptr", 0, 16)
	g.f("MOVQ kind+0(FP), CX")
	for n, k := range unpackKinds {
		next := g.fresh("next")
		g.f("CMPQ CX, $%d", n)
		g.f("JNE %s", next)
		g.f("LEAQ unpack%s_0<>(SB), AX", k.name)
		g.f("MOVQ AX, ret+8(FP)")
		g.f("RET")
		g.label(next)
	}
	g.f("MOVQ $0, ret+8(FP)")
	g.f("RET")

	// unpackUnit keeps every register that holds no vector.
	g.raw("\n// The job is at R10.\nTEXT unpackUnit<>(SB), NOSPLIT, $16-0\n")
	g.f("MOVQ AX, saved-8(SP)")
	g.unpackPart()
	g.unpackRest()
	g.f("MOVQ saved-8(SP), AX")
	g.f("RET")

	g.raw("\n// Nothing is left.\nTEXT unpackNone<>(SB), NOSPLIT, $0-0\n")
	g.f("RET")
	for n, k := range unpackKinds {
		g.cuts, g.cut = 0, func(from string) {
			if g.cuts == 0 {
				g.restore()
			}
			g.cuts++
			name := fmt.Sprintf("unpack%s_%d", k.name, g.cuts)
			g.f("LEAQ %s<>(SB), AX", name)
			g.f("MOVQ AX, %d(R10)", jobNext)
			g.f("RET")
			g.raw("\nTEXT " + name + "<>(SB), NOSPLIT, $0-0\n")
			g.f("%s, AX", from)
		}
		g.raw("\n// Parts keep every register but AX and the vectors.\nTEXT unpack" + k.name + "_0<>(SB), NOSPLIT, $64-0\n")
		g.unpackBegin()
		if n < firstPanel {
			g.askRows()
		} else {
			g.askCodes(k.block/k.steps, k.steps)
		}
		if k.steps > 1 {
			g.f("MOVQ %d(R10), CX", jobStep)
			g.f("SHRQ $5, CX")
		}
		k.body(g)
		end := g.fresh("end")
		if k.steps > 1 {
			g.f("MOVQ %d(R10), AX", jobStep)
			g.f("ADDQ $32, AX")
			g.f("ANDQ $%d, AX", 32*k.steps-1)
			g.f("MOVQ AX, %d(R10)", jobStep)
			g.f("JNZ %s", end)
		}
		g.f("ADDQ $%d, %d(R10)", k.block, jobSrc)
		g.label(end)
		g.unpackEnd(k.name)
	}
}

// unpackPart does a part of a unit; AX and the vectors are lost.
func (g *asm) unpackPart() {
	g.f("MOVQ %d(R10), AX", jobNext)
	g.f("CALL AX")
}

// unpackRest does the parts that a unit lacks.
func (g *asm) unpackRest() {
	loop, done := g.fresh("loop"), g.fresh("done")
	g.label(loop)
	g.f("CMPQ %d(R10), $0", jobBusy)
	g.f("JEQ %s", done)
	g.unpackPart()
	g.f("JMP %s", loop)
	g.label(done)
}

// unpackSaved are the registers that the first part of a unit uses.
var unpackSaved = []string{"BX", "CX", "DX", "SI", "DI", "R8", "R9"}

func (g *asm) restore() {
	for n, r := range unpackSaved {
		g.f("MOVQ saved%d-%d(SP), %s", n, 8*n+8, r)
	}
}

// unpackBegin begins the first part of a unit: rows at SI, DX bytes apart, with
// three times that in R9, the tables at AX.
func (g *asm) unpackBegin() {
	for n, r := range unpackSaved {
		g.f("MOVQ %s, saved%d-%d(SP)", r, n, 8*n+8)
	}
	g.f("MOVQ $1, %d(R10)", jobBusy)
	g.f("MOVQ %d(R10), BX", jobHalf)
	g.f("MOVQ %d(R10)(BX*1), SI", jobHalves)
	g.f("MOVQ %d(R10)(BX*1), DI", jobHalves+8)
	g.f("ADDQ %d(R10), SI", jobSrc)
	g.f("ADDQ %d(R10), DI", jobDst)
	g.f("MOVQ DI, %d(R10)", jobTile)
	g.f("MOVQ %d(R10), DX", jobRowBytes)
	g.f("LEAQ (DX)(DX*2), R9")
	g.f("LEAQ ·tables(SB), AX")
}

// askRows asks for the same rows of the panel after this one, which come from
// memory.
func (g *asm) askRows() {
	g.f("MOVQ DX, R8")
	g.f("SHLQ $5, R8")
	g.f("ADDQ SI, R8")
	g.f("ADDQ %d(R10), R8", jobStep)
	for r := range 16 {
		g.f("PREFETCHT1 (R8)%s", strided[r%4])
		if r%4 == 3 && r < 15 {
			g.f("LEAQ (R8)(DX*4), R8")
		}
	}
}

// askCodes does so with panels of codes, bytes of a step.
func (g *asm) askCodes(bytes, steps int) {
	g.f("MOVQ DX, R8")
	g.f("SHLQ $5, R8")
	g.f("ADDQ SI, R8")
	if steps > 1 {
		g.f("MOVQ %d(R10), CX", jobStep)
		g.f("IMULQ $%d, CX", (bytes+31)/32)
		g.f("ADDQ CX, R8")
	}
	for at := 0; at < bytes; at += 64 {
		g.f("PREFETCHT1 %d(R8)", at)
	}
}

// unpackEnd ends the last part of a unit.
func (g *asm) unpackEnd(name string) {
	whole, more := g.fresh("whole"), g.fresh("more")
	g.f("ADDQ $2048, %d(R10)", jobDst)
	g.f("DECQ %d(R10)", jobLeft)
	g.f("JNZ %s", whole)
	g.f("MOVQ %d(R10), AX", jobSteps)
	g.f("MOVQ AX, %d(R10)", jobLeft)
	g.f("MOVQ $0, %d(R10)", jobSrc)
	g.f("MOVQ $0, %d(R10)", jobDst)
	g.f("ADDQ $16, %d(R10)", jobHalf)
	g.label(whole)
	g.f("MOVQ $0, %d(R10)", jobBusy)
	g.f("LEAQ unpack%s_0<>(SB), AX", name)
	g.f("DECQ %d(R10)", jobUnits)
	g.f("JNZ %s", more)
	g.f("LEAQ unpackNone<>(SB), AX")
	g.label(more)
	g.f("MOVQ AX, %d(R10)", jobNext)
	g.f("RET")
}

// strided are four rows, DX bytes apart, with three times that in R9.
var strided = []string{"", "(DX*1)", "(DX*2)", "(R9*1)"}

// unpackQ8 is of Q8_0, whose block is an f16 scale and 32 codes. Bytes are
// transposed before they are widened, a pair of k of 16 rows at a time, so that
// the scales of the rows lie across a register. A code with its sign turned,
// u, becomes a float as the second byte of 2^15+u: (2^15+u)·scale less
// (2^15+128)·scale is the exact product.
func unpackQ8(g *asm) {
	g.f("VPBROADCASTD %d(AX), Z31", tabSign)
	g.scalePairs()
	g.codeScales(tabBias)
	g.f("LEAQ 2(SI), BX")
	g.bytePairs(func(z int, at string) { g.f("VPXORD Z31, Z%d, Z%d", z, z) }, g.scaledCode)
}

// codeScales leaves the products of the scales in Z16 and Z17 with a constant of
// the tables, which are exact, in Z18 and Z15.
func (g *asm) codeScales(constant int) {
	g.f("VPBROADCASTD %d(AX), Z26", constant)
	g.f("VMULPS Z26, Z16, Z18")
	g.f("VMULPS Z26, Z17, Z15")
}

// scaledCode is a value of bytePairs: scale times code, less what codeScales left.
func (g *asm) scaledCode(f, scale, off, dst, _ int) {
	g.f("VMOVAPS Z%d, Z%d", scale, dst)
	g.f("VFMSUB213PS Z%d, Z%d, Z%d", off, f, dst)
}

// bytePairs makes the tile of rows of 32 bytes at BX. code emits what makes of
// the bytes in a register, rows r and r+4 of which at is the place, codes; it
// finds rows of SI in step with those of BX, four of them on at CX. value emits
// what makes of 2^15+code, and of the two vectors of its row, the weight; half
// is that of the 32 it is in.
func (g *asm) bytePairs(code func(z int, at string), value func(f, scale, other, dst, half int)) {
	for half := range 2 {
		g.f("LEAQ (BX)(DX*4), R8")
		g.f("LEAQ (SI)(DX*4), CX")
		for r, at := range strided {
			z := 4*half + r
			g.f("VMOVDQU (BX)%s, Y%d", at, z)
			g.f("VINSERTI64X4 $1, (R8)%s, Z%d, Z%d", at, z, z)
			code(z, at)
		}
		if half == 0 {
			g.f("LEAQ (BX)(DX*8), BX")
			g.f("LEAQ (SI)(DX*8), SI")
		}
	}
	g.cut("LEAQ ·tables(SB)")
	for half := range 2 {
		z := 4 * half
		g.f("VPUNPCKLDQ Z%d, Z%d, Z8", z+1, z)
		g.f("VPUNPCKHDQ Z%d, Z%d, Z9", z+1, z)
		g.f("VPUNPCKLDQ Z%d, Z%d, Z10", z+3, z+2)
		g.f("VPUNPCKHDQ Z%d, Z%d, Z11", z+3, z+2)
		for q := range 4 {
			g.f("VPUNPCK%sQDQ Z%d, Z%d, Z%d", []string{"L", "H"}[q%2], 10+q/2, 8+q/2, z+q)
		}
	}
	// Z(q) has codes 4q.. and 16+4q.. of rows 0 to 7, Z(4+q) of rows 8 to 15.
	for n := range 4 {
		g.f("VMOVDQU64 %d(AX), Z%d", tabPairs+64*n, 27+n)
		g.f("VPBROADCASTD %d(AX), Z%d", tabFloat, 20+n)
	}
	g.f("KMOVQ %d(AX), K1", tabMask)
	n := 0
	for q := range 4 {
		for pair := range 4 { // two of codes 4q.., two of codes 16+4q..
			lo, hi := 8+n%3*2, 9+n%3*2
			flo, fhi := 20+n%2*2, 21+n%2*2
			g.cutPairs(n)
			n++
			g.f("VPERMB Z%d, Z%d, K1, Z%d", q, 27+pair, flo)
			g.f("VPERMB Z%d, Z%d, K1, Z%d", 4+q, 27+pair, fhi)
			value(flo, 16, 18, lo, pair/2)
			value(fhi, 17, 15, hi, pair/2)
			g.cvtne2(byte(lo), byte(hi), byte(lo))
			g.f("VMOVDQU64 Z%d, %d(AX)", lo, 64*(pair/2*8+2*q+pair%2))
		}
	}
}

// cutPairs begins a part before some of the 16 pairs of a tile.
func (g *asm) cutPairs(n int) {
	switch n {
	case 0, 3, 6, 9, 12, 14:
		g.cut(fmt.Sprintf("MOVQ %d(R10)", jobTile))
	}
}
