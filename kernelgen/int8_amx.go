package main

import "fmt"

const (
	rR9  = 9
	rR14 = 14
)

// Working fields of dotArgs that only the tile kernels use.
const (
	argSrc   = 168 // where the f32 sums come from
	argLDSrc = 176
	argLDDst = 184
	argBackS = 192 // from behind a group's scales to the next group's
	argLeft  = 200 // groups to multiply
)

// tileMemR is tileMem for all sixteen registers.
func (g *asm) tileMemR(name string, pp, t, base, index byte, disp int32) {
	g.bytes(fmt.Sprintf("%s TMM%d, %d(r%d)(r%d*1)", name, t, disp, base, index),
		0xc4, 0x80|(^index>>3&1)<<6|(^base>>3&1)<<5|2, pp, 0x4b, 0x84|t<<3, (index&7)<<3|base&7,
		byte(disp), byte(disp>>8), byte(disp>>16), byte(disp>>24))
}

// genInt8AMX multiplies blocks of up to 16·rows rows with a panel of 32
// columns. Tiles as in genAMX. Integer sums go through memory to be scaled:
// while tiles multiply group g+2, the vector units scale and add group g. Not
// g+1, because loads wait until the stores of a tile have left the processor.
// Three buffers of integer sums go round; the f32 sums stay in a fourth, dense
// one; the first group reads init, the last writes C.
//
// SI and R14 are the rows, BX the codes, R9 the buffer to fill, R10 the one to
// empty, R11 and AX scales and sums of the rows, R12 the header, R13 and DI
// the f32 sums.
func genInt8AMX(g *asm, f int8Form, rows byte) {
	name := fmt.Sprintf("dot%sAMXx%d", f.name, rows)
	f.codes = 1024 // Q4 comes unpacked
	t := &int8Tiles{g, f, rows}
	g.text(name, name+"(t *dotArgs)", 16, 8)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ 0(R8), AX")
	g.ldtilecfg()
	g.f("MOVQ %d(R8), CX", argLDA)
	g.f("MOVQ $128, DX")
	g.f("MOVQ %d(R8), R11", argLDS)
	g.f("MOVQ %d(R8), R15", argRows)
	g.f("SHLQ $2, R15")
	g.f("SUBQ R15, R11")
	g.f("MOVQ R11, %d(R8)", argBackS)
	int8Copies(g, "R11")
	strip, group, drain, last := g.fresh("strip"), g.fresh("group"), g.fresh("drain"), g.fresh("last")
	g.label(strip)
	g.f("MOVQ %d(R8), SI", curA)
	g.f("MOVQ CX, R14")
	g.f("SHLQ $4, R14")
	g.f("ADDQ SI, R14")
	g.f("MOVQ %d(R8), R12", argSB)
	g.f("LEAQ %d(R12), BX", f.header)
	g.f("MOVQ %d(R8), R9", argBuf)
	g.f("MOVQ R9, R10")
	g.f("MOVQ %d(R8), R11", curSA)
	g.f("MOVQ %d(R8), AX", curAux)
	for _, c := range [][2]int{{curInit, argSrc}, {argLDI, argLDSrc}, {argGroups, argLeft}} {
		g.f("MOVQ %d(R8), DI", c[0])
		g.f("MOVQ DI, %d(R8)", c[1])
	}
	g.f("MOVQ $128, %d(R8)", argLDDst)
	t.multiply(false)
	g.f("CMPQ %d(R8), $0", argLeft)
	g.f("JEQ %s", last)
	t.multiply(false)
	g.label(group)
	g.f("CMPQ %d(R8), $0", argLeft)
	g.f("JEQ %s", drain)
	t.sums()
	t.multiply(true)
	t.onward()
	g.f("JMP %s", group)
	g.label(drain)
	t.sums()
	for part := range int(rows) {
		t.flush(part)
	}
	t.onward()
	g.label(last)
	g.f("MOVQ %d(R8), DI", argLDC)
	g.f("MOVQ DI, %d(R8)", argLDDst)
	g.f("MOVQ %d(R8), DI", curC)
	for part := range int(rows) {
		t.flush(part)
	}
	// The next block of rows.
	for _, p := range [][2]int{{argLDA, curA}, {argLDC, curC}, {argLDI, curInit}} {
		g.f("MOVQ %d(R8), DI", p[0])
		g.f("IMULQ %d(R8), DI", argRows)
		g.f("ADDQ DI, %d(R8)", p[1])
	}
	g.f("MOVQ %d(R8), DI", argRows)
	g.f("SHLQ $2, DI")
	g.f("ADDQ DI, %d(R8)", curSA)
	g.f("ADDQ DI, %d(R8)", curAux)
	g.f("DECQ %d(R8)", argStrips)
	g.f("JNZ %s", strip)
	g.tilerelease()
	g.ret()
}

type int8Tiles struct {
	*asm
	form int8Form
	rows byte
}

// int8Buffers is the size of all buffers of integer sums.
const int8Buffers = 3 * 4096

// sums points DI at the dense f32 sums.
func (t *int8Tiles) sums() {
	t.f("MOVQ %d(R8), DI", argBuf)
	t.f("ADDQ $%d, DI", int8Buffers)
}

// onward makes the dense sums the source of the next group, and goes to its
// header.
func (t *int8Tiles) onward() {
	t.f("MOVQ %d(R8), R13", argBuf)
	t.f("ADDQ $%d, R13", int8Buffers)
	t.f("MOVQ R13, %d(R8)", argSrc)
	t.f("MOVQ $128, %d(R8)", argLDSrc)
	t.f("ADDQ $%d, R12", t.form.block())
}

// wrap moves a register to the next buffer.
func (t *int8Tiles) wrap(reg string) {
	t.f("ADDQ $4096, %s", reg)
	t.f("MOVQ %d(R8), R15", argBuf)
	t.f("LEAQ %d(R15), R13", int8Buffers)
	t.f("CMPQ %s, R13", reg)
	t.f("CMOVQCC R15, %s", reg)
}

// multiply sums the next group in tiles and leaves it in the buffer R9, while
// the buffer R10 is emptied where flush says so.
func (t *int8Tiles) multiply(flush bool) {
	for n := range 2 * t.rows {
		t.tilezero(n)
	}
	a := func(tile, base byte) { t.tileMemR("TILELOADD", 0x7b, tile, base, rCX, 0) }
	b := func(tile byte) { t.tileMemR("TILELOADD", 0x7b, tile, rBX, rDX, int32(tile-6)*64) }
	dot := func(c, a, b byte) { t.tdp("TDPBSSD", 3, 0x5e, c, a, b) }
	b(6)
	a(4, rSI)
	dot(0, 4, 6)
	b(7)
	dot(1, 4, 7)
	if flush {
		t.flush(0)
	}
	if t.rows == 2 {
		a(5, rR14)
		dot(2, 5, 6)
		dot(3, 5, 7)
		t.f("ADDQ $%d, R14", int8Group)
	}
	t.f("ADDQ $%d, SI", int8Group)
	t.f("ADDQ $%d, BX", t.form.codes)
	if flush && t.rows == 2 {
		t.flush(1)
	}
	t.f("ADDQ $%d, BX", t.form.header)
	for n := range 2 * t.rows {
		t.tileMemR("TILESTORED", 0x7a, n, rR9, rDX, int32(n/2)*2048+int32(n%2)*64)
	}
	t.wrap("R9")
	t.f("DECQ %d(R8)", argLeft)
}

// flush scales half of the rows, or the only ones, of the buffer R10 and adds
// them up; the first part also loads the scales of the columns.
func (t *int8Tiles) flush(part int) {
	if part == 0 {
		k := &vkernel{asm: t.asm, isa: avx512}
		for n := range 2 {
			k.f("VCVTPH2PS %d(R12), Z%d", 32*n, 28+n)
			if t.form.min {
				k.f("VCVTPH2PS %d(R12), Z%d", 64+32*n, 30+n)
			}
		}
		t.f("MOVQ %d(R8), R13", argSrc)
	}
	switch {
	case t.rows == 1:
		t.f("MOVQ %d(R8), R15", argRows)
	case part == 0:
		t.f("MOVQ $16, R15")
	default:
		t.f("MOVQ %d(R8), R15", argRows)
		t.f("SUBQ $16, R15")
	}
	if t.rows == 2 && part == 0 {
		t.rowLoop(4)
	} else {
		// Four rows a round, then the others.
		rest, done := t.fresh("rest"), t.fresh("done")
		t.f("SUBQ $4, R15")
		t.f("JCS %s", rest)
		t.f("ADDQ $4, R15")
		t.rowLoop(4)
		t.label(rest)
		t.f("ADDQ $4, R15")
		t.f("JEQ %s", done)
		t.rowLoop(1)
		t.label(done)
	}
	if part == int(t.rows)-1 {
		t.f("MOVQ %d(R8), R15", argRows)
		t.f("SHLQ $7, R15")
		t.f("SUBQ R15, R10")
		t.wrap("R10")
		t.f("ADDQ %d(R8), R11", argBackS)
		if t.form.min {
			t.f("ADDQ %d(R8), AX", argBackS)
		}
	}
}

// rowLoop empties n rows a round while R15 has as many left, and leaves it at
// what is missing to the next round.
func (t *int8Tiles) rowLoop(n int) {
	loop := t.fresh("row")
	t.f("SUBQ $%d, R15", n)
	t.label(loop)
	for r := range n {
		t.f("VBROADCASTSS %d(R11), Z%d", 4*r, 4+r)
		for h := range 2 {
			v := 8 + 2*r + h
			t.f("VCVTDQ2PS %d(R10), Z%d", 128*r+64*h, v)
			t.f("VMULPS Z%d, Z%d, Z%d", 28+h, v, v)
			t.f("VFMADD213PS %d(R13), Z%d, Z%d", 64*h, 4+r, v)
			if t.form.min {
				t.f("VFMADD231PS.BCST %d(AX), Z%d, Z%d", 4*r, 30+h, v)
			}
			t.f("VMOVUPS Z%d, %d(DI)", v, 64*h)
		}
		t.f("ADDQ %d(R8), R13", argLDSrc)
		t.f("ADDQ %d(R8), DI", argLDDst)
	}
	t.f("ADDQ $%d, R10", 128*n)
	t.f("ADDQ $%d, R11", 4*n)
	if t.form.min {
		t.f("ADDQ $%d, AX", 4*n)
	}
	t.f("SUBQ $%d, R15", n)
	t.f("JCC %s", loop)
}
