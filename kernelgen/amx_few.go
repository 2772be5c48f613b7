package main

// genFew writes the products of up to 16 activation rows with stored weights
// on the tiles. The weights are the left operand, in the order in which they
// lie, and the activations the right one: 16 weight rows are decoded, 32
// values of each at a time, and multiplied at once, so that every weight is
// read and decoded once for all activations and never transposed. One call
// makes groups of 16 weight rows:
//
//	name(t *fewArgs)
//
// The step before is multiplied while a step is decoded, hence two buffers.
func genFew(g *asm) {
	for _, s := range fewStorages {
		g.few(s)
	}
	g.packFew()
}

// fewStorage is a block format: 32 values in so many bytes.
type fewStorage struct {
	name  string
	bytes int
	// scales is how many f16 values each row begins a step with: a scale, and
	// perhaps a minimum. They are gathered a step ahead, the scales of the rows
	// to (R11), the minima behind them.
	scales int
	// pair leaves the 32 values at a and b, rows r and r+1, as bf16 in
	// registers, which it names. Registers t to t+3 are its own.
	pair func(g *asm, r, t int, a, b string) (int, int)
}

var fewStorages = []fewStorage{
	{"Q4_1", 20, 2, func(g *asm, r, t int, a, b string) (int, int) {
		for n := range 2 {
			g.f("VBROADCASTSS %d(R11), Z%d", 4*(r+n), t+n)
			g.f("VFMADD213PS.BCST %d(R11), Z28, Z%d", 64+4*(r+n), t+n)
		}
		return g.fewPick(t, 4, a, b)
	}},
	{"Q4_0", 18, 1, func(g *asm, r, t int, a, b string) (int, int) {
		for n := range 2 {
			g.f("VMULPS.BCST %d(R11), Z28, Z%d", 4*(r+n), t+n)
		}
		return g.fewPick(t, 2, a, b)
	}},
	{"Q8_0", 34, 1, fewEach(func(g *asm, r, n, t int, p string) {
		g.f("VPMOVSXBD %d(%s), Z%d", 2+16*n, p, t)
		g.f("VCVTDQ2PS Z%d, Z%d", t, t)
		g.f("VMULPS.BCST %d(R11), Z%d, Z%d", 4*r, t, t)
	})},
	{"F16", 64, 0, fewEach(func(g *asm, r, n, t int, p string) { g.f("VCVTPH2PS %d(%s), Z%d", 32*n, p, t) })},
	{"F32", 128, 0, fewEach(func(g *asm, r, n, t int, p string) { g.f("VMOVUPS %d(%s), Z%d", 64*n, p, t) })},
	// Rows of bf16 are tiles as they lie.
	{"BF16", 64, 0, nil},
}

// fewEach decodes halves of rows as f32: load leaves half n of row r in t.
func fewEach(load func(g *asm, r, n, t int, p string)) func(g *asm, r, t int, a, b string) (int, int) {
	return func(g *asm, r, t int, a, b string) (int, int) {
		for i, p := range []string{a, b} {
			for n := range 2 {
				load(g, r+i, n, t+2*i+n, p)
			}
			g.cvtne2(byte(t+2*i), byte(t+2*i+1), byte(t+2*i))
		}
		return t, t + 2
	}
}

// fewPick picks values by codes of 4 bits, the 16 bytes at off(a) and off(b):
// t and t+1 have what the codes stand for, which become the two halves of one
// table. Each lane of 128 bits gets the same bytes, shifted by 0, 8, 4 or 12
// bits, so that every word has another code at its end: the order of the values
// becomes that of byNibble, in activations too.
func (g *asm) fewPick(t, off int, a, b string) (int, int) {
	g.cvtne2(byte(t), byte(t+1), byte(t))
	for n, p := range []string{a, b} {
		r := t + 1 + n
		g.f("VBROADCASTI32X4 %d(%s), Z%d", off, p, r)
		g.f("VPSRLVW Z29, Z%d, Z%d", r, r)
		if n == 0 {
			g.f("VPANDD Z27, Z%d, Z%d", r, r)
		} else {
			g.f("VPTERNLOGD $0xea, Z26, Z27, Z%d", r) // what is in Z27, and the bits of Z26
		}
		g.f("VPERMW Z%d, Z%d, Z%d", t, r, r)
	}
	return t + 1, t + 2
}

// Registers: SI is the first of 16 weight rows, AX the ninth, DX their
// distance, R13 to R15 3, 5 and 7 times it; DI a buffer of the tile at hand,
// R11 the scales; BX the activations' tile, CX the distance of a tile's rows;
// R12 counts steps, R9 groups, R10 is y.
func (g *asm) few(s fewStorage) {
	name := "few" + s.name
	g.text(name, name+"(t *fewArgs)", 0, 8)
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ 0(R8), AX") // cfg
	g.ldtilecfg()
	g.f("MOVQ 8(R8), SI")   // w
	g.f("MOVQ 16(R8), DX")  // rowBytes
	g.f("MOVQ 40(R8), R10") // y
	g.f("MOVQ 72(R8), R9")  // groups
	g.f("MOVQ 80(R8), DI")  // buf
	if s.pair != nil {
		g.f("LEAQ (DX)(DX*2), R13")
		g.f("LEAQ (DX)(DX*4), R14")
		g.f("LEAQ (R13)(DX*4), R15")
		g.f("LEAQ 2048(DI), R11")
	}
	g.f("MOVQ 64(R8), AX") // bias, which moves on
	g.f("MOVQ AX, 112(R8)")
	g.f("MOVQ DX, AX")
	g.f("SHLQ $4, AX")
	g.f("ADDQ SI, AX")
	g.f("MOVQ AX, 104(R8)") // what to prefetch: the next group
	g.f("MOVQ $64, CX")
	group, loop, last, only := g.fresh("group"), g.fresh("loop"), g.fresh("last"), g.fresh("only")
	g.label(group)
	if s.scales > 0 {
		g.f("MOVQ 88(R8), AX") // tables
		for n, r := range []int{31, 30, 29, 28, 27, 26} {
			g.f("VMOVUPS %d(AX), Z%d", 64*n, r)
		}
	}
	g.tilezero(0)
	g.f("MOVQ 24(R8), BX") // x
	g.f("MOVQ 32(R8), R12")
	if s.pair == nil {
		g.label(loop)
		g.tileload(4, rSI, rDX, 0)
		g.tileload(6, rBX, rCX, 0)
		g.tdp("TDPBF16PS", 2, 0x5c, 0, 4, 6)
		g.f("ADDQ $64, SI")
		g.f("ADDQ $1024, BX")
		g.f("DECQ R12")
		g.f("JNZ %s", loop)
		g.f("MOVQ 32(R8), AX")
		g.f("SHLQ $6, AX")
	} else {
		multiply := func() {
			g.tileload(4, rDI, rCX, 0)
			g.tileload(6, rBX, rCX, 0)
			g.tdp("TDPBF16PS", 2, 0x5c, 0, 4, 6)
			g.f("ADDQ $1024, BX")
		}
		g.fewScales(s, 0)
		g.f("DECQ R12")
		g.f("JZ %s", only)
		g.fewStep(s, true)
		g.f("DECQ R12")
		g.f("JZ %s", last)
		g.label(loop)
		g.f("XORQ $1024, DI")
		g.fewStep(s, true)
		g.f("XORQ $1024, DI")
		multiply()
		g.f("XORQ $1024, DI")
		g.f("DECQ R12")
		g.f("JNZ %s", loop)
		g.label(last)
		multiply() // not as far ahead, once a group
		g.label(only)
		g.fewStep(s, false)
		multiply()
		g.f("MOVQ 32(R8), AX")
		g.f("IMULQ $%d, AX", s.bytes)
	}
	// Back to the first row, then on to the next group.
	g.f("SUBQ AX, SI")
	g.f("MOVQ DX, AX")
	g.f("SHLQ $4, AX")
	g.f("ADDQ AX, SI")
	g.fewStore()
	g.f("DECQ R9")
	g.f("JNZ %s", group)
	g.tilerelease()
	g.f("VZEROUPPER")
	g.f("RET")
}

// fewRows are the addresses of the 16 weight rows.
func fewRows() []string {
	var rows []string
	for _, base := range []string{"SI", "AX"} {
		for _, at := range []string{"", "(DX*1)", "(DX*2)", "(R13*1)", "(DX*4)", "(R14*1)", "(R13*2)", "(R15*1)"} {
			if at == "" {
				rows = append(rows, base)
			} else {
				rows = append(rows, base+")"+at[:len(at)-1])
			}
		}
	}
	return rows
}

// fewScales gathers the scales of a step ahead bytes beyond the one at hand.
func (g *asm) fewScales(s fewStorage, ahead int) {
	if s.scales == 0 {
		return
	}
	// 16 pairs of f16, then all firsts and all seconds.
	g.f("KXNORW K1, K1, K1")
	g.f("VPGATHERDD %d(SI)(Z31*1), K1, Z24", ahead)
	g.f("VPERMW Z24, Z30, Z24")
	g.f("VCVTPH2PS Y24, Z25")
	g.f("XORQ $128, R11")
	g.f("VMOVUPS Z25, (R11)")
	if s.scales == 2 {
		g.f("VEXTRACTI64X4 $1, Z24, Y24")
		g.f("VCVTPH2PS Y24, Z24")
		g.f("VMOVUPS Z24, 64(R11)")
	}
	if ahead > 0 {
		g.f("XORQ $128, R11")
	}
}

// fewStep decodes 32 values of each row into the buffer at DI, and perhaps
// gathers the scales of the step that follows.
func (g *asm) fewStep(s fewStorage, more bool) {
	g.f("LEAQ (SI)(DX*8), AX")
	if more {
		g.fewScales(s, s.bytes)
	}
	rows := fewRows()
	for r := 0; r < 16; r += 2 {
		a, b := s.pair(g, r, r/2%4*4, rows[r], rows[r+1])
		g.f("VMOVDQU64 Z%d, %d(DI)", a, 64*r)
		g.f("VMOVDQU64 Z%d, %d(DI)", b, 64*r+64)
	}
	if more && s.scales > 0 {
		g.f("XORQ $128, R11")
	}
	// As much of the next group, which lies behind this one, is asked for.
	g.f("MOVQ 104(R8), AX")
	for at := 0; at < 16*s.bytes; at += 64 {
		g.f("PREFETCHT0 %d(AX)", at)
	}
	g.f("ADDQ $%d, AX", 16*s.bytes)
	g.f("MOVQ AX, 104(R8)")
	g.f("ADDQ $%d, SI", s.bytes)
}

// fewStore leaves tile 0, [16 weight rows][16 activations], in y as columns,
// plus the bias.
func (g *asm) fewStore() {
	g.f("MOVQ 80(R8), DI")
	g.f("ADDQ $2304, DI")
	g.tilestore(0, rDI, rCX, 0)
	for r := range 16 {
		g.f("VMOVUPS %d(DI), Z%d", 64*r, r)
	}
	g.storeTile()
	g.f("MOVQ 112(R8), AX") // bias
	g.f("VMOVUPS (AX), Z0")
	g.f("ADDQ 96(R8), AX")
	g.f("MOVQ AX, 112(R8)")
	g.f("MOVQ 48(R8), R12") // bytes from one row of y to the next
	g.f("MOVQ 56(R8), BX")  // rows
	g.f("MOVQ R10, AX")
	out := g.fresh("out")
	g.label(out)
	g.f("VADDPS (DI), Z0, Z1")
	g.f("VMOVUPS Z1, (AX)")
	g.f("ADDQ $64, DI")
	g.f("ADDQ R12, AX")
	g.f("DECQ BX")
	g.f("JNZ %s", out)
	g.f("ADDQ $64, R10")
	g.f("MOVQ 80(R8), DI")
}

// packFew rounds 16 rows and makes the right operand of them: pairs of values
// as dwords, transposed. order is where each value of 32 comes from.
func (g *asm) packFew() {
	g.text("packFew", "packFew(dst *uint16, rows *[16]*float32, steps int, order *[32]uint16)", 0, 32)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ rows+8(FP), SI")
	g.f("MOVQ steps+16(FP), CX")
	g.f("MOVQ order+24(FP), DX")
	g.f("XORQ AX, AX")
	loop := g.fresh("loop")
	g.label(loop)
	g.f("VMOVDQU64 (DX), Z31")
	for r := range 16 {
		lo, hi := 16+r%4*2, 17+r%4*2
		g.f("MOVQ %d(SI), BX", 8*r)
		g.f("VMOVUPS (BX)(AX*1), Z%d", lo)
		g.f("VMOVUPS 64(BX)(AX*1), Z%d", hi)
		g.cvtne2(byte(lo), byte(hi), byte(r))
		g.f("VPERMW Z%d, Z31, Z%d", r, r)
	}
	g.storeTile()
	g.f("ADDQ $128, AX")
	g.f("ADDQ $1024, DI")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}
