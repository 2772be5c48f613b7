package main

// genFewPanels writes the products of up to 16 activation rows with panels of codes
// (package codes) on the tiles. Codes become integers in bf16, which are exact;
// 32 columns of a panel are the right operand of one tile product, and its result
// is scaled in f32 while it is added up. The integers are too large by a constant,
// because that takes a shift and a mask and no table; the product of the constant
// with the sum of the activations is taken off again. One call makes the columns
// of some panels that lie behind each other:
//
//	name(t *panelArgs)
//
// Three stages run side by side, some steps of 32 columns apart and across panels:
// codes become tiles, tiles are multiplied, products are scaled. So nothing waits
// for a tile product, which takes 52 cycles.
func genFewPanels(g *asm) {
	for _, s := range fewPanelTypes {
		g.fewPanel(s)
	}
	g.packLines()
	g.sumLines()
}

// fewPanelType is a type that has panels of codes.
type fewPanelType struct {
	name  string
	steps int // of 32 columns in a block
	head  int // bytes before the codes of its first step
	bytes int // of the codes of a step
	// scales leaves the scales of all steps of the block at SI in the ring at
	// R11, 128 bytes each: factors of products, then factors of the sums of
	// activations.
	scales func(g *asm)
	// rows are the rows of the step's right operands: the first 16 of one tile,
	// others of a second that is added to it.
	rows []panelTileRow
	// words are the constants of rows: pairs of a mask and of what is flipped.
	words [][2]int
	// split says that 16 columns share a scale: steps have two products, and the
	// ring has two scales for products and none for sums.
	split bool
}

// panelTileRow is made of the words of a vector, off bytes into the step: shifted to
// the right, masked, and with bits flipped that make numbers of them. A code q
// becomes 128+q, whose bits in bf16 are 0x4300+q.
type panelTileRow struct {
	off, shift, words int
	// high, if not 0, is a vector with two more bits of each code, turn bits to the
	// left of where they belong.
	high, turn int
}

// Offsets in panelArgs.
const (
	panelCfg     = 0
	panelW       = 8
	panelX       = 16
	panelSums    = 24
	panelSteps   = 32
	panelY       = 40
	panelStrideY = 48 // bytes
	panelM       = 56
	panelBias    = 64
	panelNext    = 72 // bytes from one panel's bias to the next one's
	panelTotal   = 80 // steps of all panels
	panelMem     = 88
	panelBiasAt  = 96
	panelLeft    = 104 // steps that a block still has
	panelYAt     = 112 // y, which moves on
	panelMore    = 120 // steps of a panel that are not multiplied
	panelOffset  = 128 // what the rows of codes are too large by, times -1
)

// Offsets in panelMemory, whose rings are as large as their alignment allows.
const (
	panelTiles  = 0     // [4][2] right operands of steps
	panelScales = 8192  // [16][2][16] scales of steps
	panelOut    = 16384 // [4][2] products of steps
	ringTiles   = 13    // the bit that an address gets behind a ring's end
	ringScales  = 11
)

// codesAhead is how far beyond the codes at hand memory is asked for, in bytes.
const codesAhead = 2048

// Steps are unpacked so many steps before they are multiplied, and flushed so many
// behind: tiles are loaded from memory, not from stores on their way to it, so
// less would wait for these.
const (
	unpackBefore = 3
	flushBehind  = 3
)

// panelNibbles are the rows of 32 codes of 4 bits.
var panelNibbles = func() (rows []panelTileRow) {
	for r := range 16 {
		rows = append(rows, panelTileRow{off: 64 * (r / 4), shift: 4 * (r % 4)})
	}
	return rows
}()

// panelBytes are the rows of 32 codes of 8 bits: their low halves u as 128+u,
// then their high halves u, with another sign, as 256+16u. A row has every
// second code of four.
var panelBytes = func() (rows []panelTileRow) {
	for high := range 2 {
		for r := range 16 {
			rows = append(rows, panelTileRow{off: 64 * (r / 2), shift: 8*(r%2) + high, words: high})
		}
	}
	return rows
}()

// panelSixths are the rows of 32 codes of 6 bits: nibbles, and their high bits in
// two vectors behind them.
var panelSixths = func() (rows []panelTileRow) {
	for r, row := range panelNibbles {
		pair := r % 4
		row.high, row.turn = 256+64*(r/8), r/4%2*4+pair%2*2+pair/2*8-4
		rows = append(rows, row)
	}
	return rows
}()

var fewPanelTypes = []fewPanelType{
	{name: "Q4_0", steps: 1, head: 32, bytes: 256, rows: panelNibbles, words: [][2]int{{0xf, 0x4300}}, scales: func(g *asm) {
		g.stepScales()
		g.f("VMULPS.BCST %d(R8), Z24, Z25", panelOffset) // -136
		g.f("VMOVUPS Z25, 64(R11)")
	}},
	{name: "Q4_1", steps: 1, head: 64, bytes: 256, rows: panelNibbles, words: [][2]int{{0xf, 0x4300}}, scales: func(g *asm) {
		g.stepScales()
		g.f("VCVTPH2PS 32(SI), Z25")
		g.f("VFMADD231PS.BCST %d(R8), Z24, Z25", panelOffset) // -128
		g.f("VMOVUPS Z25, 64(R11)")
	}},
	{name: "Q8_0", steps: 1, head: 32, bytes: 512, rows: panelBytes, words: [][2]int{{0xf, 0x4300}, {0x78, 0x4380 ^ 0x40}}, scales: func(g *asm) {
		g.stepScales()
		g.f("VMULPS.BCST %d(R8), Z24, Z25", panelOffset) // -512
		g.f("VMOVUPS Z25, 64(R11)")
	}},
	{name: "Q4_K", steps: 8, head: 256, bytes: 256, rows: panelNibbles, words: [][2]int{{0xf, 0x4300}}, scales: (*asm).stepScalesK},
	{name: "Q6_K", steps: 8, head: 288, bytes: 384, rows: panelSixths, words: [][2]int{{0xf, 0x4300}, {0x30, 0}}, split: true, scales: func(g *asm) {
		g.f("VCVTPH2PS (SI), Z16")
		for q := range 4 {
			g.f("VMOVDQU64 %d(SI), Z17", 32+64*q)
			for b := range 4 {
				z := 18 + b
				g.f("VPSLLD $%d, Z17, Z%d", 24-8*b, z)
				g.f("VPSRAD $24, Z%d, Z%d", z, z)
				g.f("VCVTDQ2PS Z%d, Z%d", z, z)
				g.f("VMULPS Z16, Z%d, Z%d", z, z)
				g.f("VMOVUPS Z%d, %d(R11)", z, 64*(4*q+b))
			}
		}
	}},
}

// broadcast leaves 32 bits in all dwords of a register. AX is lost.
func (g *asm) broadcast(bits, z int) {
	g.f("MOVL $0x%08x, AX", bits)
	g.f("VPBROADCASTD AX, Z%d", z)
}

// stepScalesK is of Q4_K: f16 factors of scales and of minima, and 6 bits of both
// for each step, as the file packs them.
func (g *asm) stepScalesK() {
	g.f("VCVTPH2PS (SI), Z16")
	g.f("VCVTPH2PS 32(SI), Z17")
	g.broadcast(0x0f0f0f0f, 24)
	g.broadcast(0x30303030, 25)
	g.broadcast(0x3f3f3f3f, 26)
	g.broadcast(0xff, 27)
	// Bytes of the first four steps in Z18 and Z19, of the others in Z20 and Z21.
	g.f("VMOVDQU64 64(SI), Z18")
	g.f("VMOVDQU64 128(SI), Z19")
	g.f("VMOVDQU64 192(SI), Z20")
	g.f("VPSRLD $4, Z20, Z21")
	for n := range 2 {
		low, high := 18+n, 20+n
		g.f("VPSRLD $2, Z%d, Z22", low)
		g.f("VPANDD Z24, Z%d, Z%d", high, high)
		g.f("VPTERNLOGD $0xf8, Z25, Z22, Z%d", high) // or what is in both
		g.f("VPANDD Z26, Z%d, Z%d", low, low)
	}
	for i := range 8 {
		for n := range 2 { // scale, minimum
			from, z := 18+n+i/4*2, 22+n
			if i%4 > 0 {
				g.f("VPSRLD $%d, Z%d, Z%d", 8*(i%4), from, z)
				from = z
			}
			g.f("VPANDD Z27, Z%d, Z%d", from, z)
			g.f("VCVTDQ2PS Z%d, Z%d", z, z)
		}
		g.f("VMULPS Z16, Z22, Z22")
		g.f("VMULPS Z17, Z23, Z23")
		g.f("VMOVUPS Z22, %d(R11)", 128*i)
		g.f("VFMSUB132PS.BCST %d(R8), Z23, Z22", panelOffset) // -128
		g.f("VMOVUPS Z22, %d(R11)", 128*i+64)
	}
}

// stepScales widens the 16 scales that a block begins with.
func (g *asm) stepScales() {
	g.f("VCVTPH2PS (SI), Z24")
	g.f("VMOVUPS Z24, (R11)")
}

// fewPanel writes the kernel of a type. Registers: SI is the codes, DI the right
// operands, DX the products, BX the activations' tile, CX the distance of a
// tile's rows; R9 is the step that is multiplied, R10 is y, R11 and R15 the
// scales that are written and read, R12 and R13 the steps that a panel still
// has, R14 the sums.
func (g *asm) fewPanel(s fewPanelType) {
	name := "panel" + s.name
	g.text(name, name+"(t *panelArgs)", 16, 8)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ %d(R8), AX", panelCfg)
	g.ldtilecfg()
	for i, w := range s.words {
		for n, bits := range w {
			g.broadcast(bits<<16|bits, 31-2*i-n)
		}
	}
	g.f("MOVQ %d(R8), DI", panelMem)
	g.f("MOVQ DI, R10")
	g.f("LEAQ %d(DI), DX", panelOut)
	g.f("MOVQ DX, R12")
	g.f("LEAQ %d(DI), R11", panelScales)
	g.f("MOVQ R11, R15")
	g.f("MOVQ %d(R8), SI", panelW)
	g.f("MOVQ %d(R8), BX", panelX)
	g.f("MOVQ %d(R8), R14", panelSums)
	g.f("MOVQ %d(R8), R13", panelSteps)
	g.f("MOVQ R13, %d(R8)", panelMore)
	g.f("MOVQ %d(R8), AX", panelY)
	g.f("MOVQ AX, %d(R8)", panelYAt)
	g.f("MOVQ %d(R8), AX", panelBias)
	g.f("MOVQ AX, %d(R8)", panelBiasAt)
	g.f("MOVQ $0, %d(R8)", panelLeft)
	g.startSums()
	g.f("MOVQ $64, CX")
	g.f("MOVQ $-%d, R9", unpackBefore)
	loop, multiply, flush, done := g.fresh("loop"), g.fresh("multiply"), g.fresh("flush"), g.fresh("done")
	g.label(loop)
	g.f("LEAQ %d(R9), AX", unpackBefore)
	g.f("CMPQ AX, %d(R8)", panelTotal)
	g.f("JCC %s", multiply)
	g.unpackStep(s)
	g.label(multiply)
	g.f("CMPQ R9, %d(R8)", panelTotal)
	g.f("JCC %s", flush)
	g.multiplyStep(s)
	g.label(flush)
	g.f("LEAQ -%d(R9), AX", flushBehind)
	g.f("INCQ R9")
	g.f("CMPQ AX, %d(R8)", panelTotal)
	g.f("JGE %s", done)
	g.f("TESTQ AX, AX")
	g.f("JLT %s", loop)
	g.flushStep(s)
	g.f("DECQ R13")
	g.f("JNZ %s", loop)
	g.storeSums()
	g.f("LEAQ -%d(R9), AX", flushBehind)
	g.f("CMPQ AX, %d(R8)", panelTotal)
	g.f("JGE %s", done)
	g.startSums()
	g.f("JMP %s", loop)
	g.label(done)
	g.tilerelease()
	g.ret()
}

// unpackStep makes the right operands of the step at SI, which it passes.
func (g *asm) unpackStep(s fewPanelType) {
	ready := g.fresh("ready")
	if s.steps > 1 {
		g.f("DECQ %d(R8)", panelLeft)
		g.f("JGE %s", ready)
		g.f("MOVQ $%d, %d(R8)", s.steps-1, panelLeft)
	}
	s.scales(g)
	g.f("ADDQ $%d, SI", s.head)
	if s.steps > 1 {
		g.label(ready)
	}
	for at := 0; at < s.bytes+s.head/s.steps; at += 64 {
		g.f("PREFETCHT0 %d(SI)", codesAhead+at)
	}
	n := 0
	for off := 0; off <= s.rows[len(s.rows)-1].off; off += 64 {
		g.f("VMOVDQU64 %d(SI), Z%d", off, 16+off/64%2)
		// What is not shifted comes last, because it is made in place.
		for i := len(s.rows) - 1; i >= 0; i-- {
			r, z := s.rows[i], 16+off/64%2
			if r.off != off {
				continue
			}
			if r.shift > 0 {
				g.f("VPSRLW $%d, Z%d, Z%d", r.shift, z, 18+n%6)
				z = 18 + n%6
				n++
			}
			g.f("VPTERNLOGD $0x6a, Z%d, Z%d, Z%d", 30-2*r.words, 31-2*r.words, z) // (words and mask) xor bits
			if r.high > 0 {
				g.f("VMOVDQU64 %d(SI), Z%d", r.high, 24+i%2)
				switch {
				case r.turn > 0:
					g.f("VPSRLW $%d, Z%d, Z%d", r.turn, 24+i%2, 24+i%2)
				case r.turn < 0:
					g.f("VPSLLW $%d, Z%d, Z%d", -r.turn, 24+i%2, 24+i%2)
				}
				g.f("VPTERNLOGD $0xf8, Z29, Z%d, Z%d", 24+i%2, z) // or what is in both
			}
			g.f("VMOVDQU64 Z%d, %d(R10)", z, 64*i)
		}
	}
	g.f("ADDQ $%d, SI", s.bytes)
	g.ring("R11", 128, ringScales)
	g.ring("R10", 2048, ringTiles)
}

// multiplyStep multiplies the tile at BX with the operands at DI.
func (g *asm) multiplyStep(s fewPanelType) {
	if s.split { // 16 columns each
		for c := range byte(2) {
			g.tilezero(c)
			g.tileload(4+c, rBX, rCX, 32*int32(c))
			g.tileload(6+c, rDI, rCX, 512*int32(c))
			g.tdp("TDPBF16PS", 2, 0x5c, c, 4+c, 6+c)
			g.tilestore(c, rDX, rCX, 1024*int32(c))
		}
	} else {
		g.tilezero(0)
		g.tileload(4, rBX, rCX, 0)
		for i := range byte(len(s.rows) / 16) {
			g.tileload(6+i, rDI, rCX, 1024*int32(i))
			g.tdp("TDPBF16PS", 2, 0x5c, 0, 4, 6+i)
		}
		g.tilestore(0, rDX, rCX, 0)
	}
	g.ring("DI", 2048, ringTiles)
	g.ring("DX", 2048, ringTiles)
	more := g.fresh("more")
	g.f("ADDQ $1024, BX")
	g.f("DECQ %d(R8)", panelMore)
	g.f("JNZ %s", more)
	g.f("MOVQ %d(R8), BX", panelX)
	g.f("MOVQ %d(R8), AX", panelSteps)
	g.f("MOVQ AX, %d(R8)", panelMore)
	g.label(more)
}

// ring moves a register on in a ring.
func (g *asm) ring(r string, bytes, bit int) {
	g.f("ADDQ $%d, %s", bytes, r)
	g.f("BTRQ $%d, %s", bit, r)
}

// startSums begins a panel's sums with the bias, in Z0 to Z15.
func (g *asm) startSums() {
	g.f("MOVQ %d(R8), AX", panelBiasAt)
	g.f("VMOVUPS (AX), Z0")
	for m := 1; m < 16; m++ {
		g.f("VMOVAPS Z0, Z%d", m)
	}
	g.f("ADDQ %d(R8), AX", panelNext)
	g.f("MOVQ AX, %d(R8)", panelBiasAt)
}

// flushStep adds the scaled products at DX to the sums.
func (g *asm) flushStep(s fewPanelType) {
	done := g.fresh("done")
	g.f("MOVQ %d(R8), AX", panelM)
	g.f("VMOVUPS (R15), Z26")
	g.f("VMOVUPS 64(R15), Z27")
	sums := 64
	if s.split {
		sums = 128
		g.f("VMULPS.BCST %d(R8), Z26, Z24", panelOffset)
		g.f("VMULPS.BCST %d(R8), Z27, Z25", panelOffset)
	}
	for m := range 16 {
		if m > 0 && m%4 == 0 {
			g.f("CMPQ AX, $%d", m)
			g.f("JLE %s", done)
		}
		g.f("VFMADD231PS %d(R12), Z26, Z%d", 64*m, m)
		if s.split {
			g.f("VFMADD231PS.BCST %d(R14), Z24, Z%d", 4*m, m)
			g.f("VFMADD231PS %d(R12), Z27, Z%d", 1024+64*m, m)
			g.f("VFMADD231PS.BCST %d(R14), Z25, Z%d", 64+4*m, m)
		} else {
			g.f("VFMADD231PS.BCST %d(R14), Z27, Z%d", 4*m, m)
		}
	}
	g.label(done)
	g.f("ADDQ $%d, R14", sums)
	g.ring("R15", 128, ringScales)
	g.ring("R12", 2048, ringTiles)
}

// storeSums leaves the sums of a panel in y.
func (g *asm) storeSums() {
	done := g.fresh("done")
	g.f("MOVQ %d(R8), AX", panelM)
	g.f("MOVQ %d(R8), R13", panelYAt)
	g.f("ADDQ $64, %d(R8)", panelYAt)
	for m := range 16 {
		g.f("VMOVUPS Z%d, (R13)", m)
		if m < 15 {
			g.f("CMPQ AX, $%d", m+1)
			g.f("JLE %s", done)
			g.f("ADDQ %d(R8), R13", panelStrideY)
		}
	}
	g.label(done)
	g.f("MOVQ %d(R8), R13", panelSteps)
	g.f("MOVQ %d(R8), R14", panelSums)
}

// packLines rounds rows and makes left operands of them, 1 KB per step. order
// is where each value of 32 comes from.
func (g *asm) packLines() {
	g.text("packLines", "packLines(dst *uint16, src *float32, lds, steps, rows int, order *[32]uint16)", 0, 48)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ lds+16(FP), R9") // bytes
	g.f("MOVQ rows+32(FP), R11")
	g.f("MOVQ order+40(FP), DX")
	g.f("VMOVDQU64 (DX), Z31")
	row, loop := g.fresh("row"), g.fresh("loop")
	g.label(row)
	g.f("MOVQ steps+24(FP), CX")
	g.f("MOVQ SI, BX")
	g.f("MOVQ DI, DX")
	g.label(loop)
	g.f("VMOVUPS (BX), Z1")
	g.f("VMOVUPS 64(BX), Z2")
	g.cvtne2(1, 2, 0)
	g.f("VPERMW Z0, Z31, Z0")
	g.f("VMOVDQU64 Z0, (DX)")
	g.f("ADDQ $128, BX")
	g.f("ADDQ $1024, DX")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("ADDQ $64, DI")
	g.f("ADDQ R9, SI")
	g.f("DECQ R11")
	g.f("JNZ %s", row)
	g.f("VZEROUPPER")
	g.f("RET")
}

// sumLines adds up the values of each row of each step, [steps][16 rows] of them,
// on tiles: a step is multiplied with a column of ones, 16 steps with 16 columns.
// From one step to the next are next bytes, and turn says which bits of that are
// others from there to the one after. ones is 31 pairs, all zero but the one in
// the middle; out is a tile.
func (g *asm) sumLines() {
	g.text("sumLines", "sumLines(cfg *[64]byte, sums *float32, x *uint16, steps, next, turn int, ones *[31]uint32, out *float32)", 0, 64)
	g.f("MOVQ cfg+0(FP), AX")
	g.ldtilecfg()
	g.f("MOVQ sums+8(FP), DI")
	g.f("MOVQ x+16(FP), BX")
	g.f("MOVQ steps+24(FP), R12")
	g.f("MOVQ next+32(FP), R10")
	g.f("MOVQ turn+40(FP), R11")
	g.f("MOVQ out+56(FP), DX")
	g.f("MOVQ $64, CX")
	g.f("XORQ AX, AX")
	tile, loop, store := g.fresh("tile"), g.fresh("loop"), g.fresh("store")
	g.label(tile)
	g.f("MOVQ ones+48(FP), SI")
	g.f("LEAQ -4(SI), R9")
	g.f("ADDQ $60, SI")
	g.tilezero(0)
	g.label(loop)
	g.tileload(4, rBX, rCX, 0)
	g.tileload(6, rSI, rAX, 0)
	g.tdp("TDPBF16PS", 2, 0x5c, 0, 4, 6)
	g.f("ADDQ R10, BX")
	g.f("XORQ R11, R10")
	g.f("SUBQ $4, SI")
	g.f("DECQ R12")
	g.f("JZ %s", store)
	g.f("CMPQ SI, R9")
	g.f("JNE %s", loop)
	g.label(store)
	g.tilestore(0, rDX, rCX, 0)
	for r := range 16 {
		g.f("VMOVUPS %d(DX), Z%d", 64*r, r)
	}
	g.storeTile()
	g.f("ADDQ $1024, DI")
	g.f("TESTQ R12, R12")
	g.f("JNZ %s", tile)
	g.tilerelease()
	g.f("VZEROUPPER")
	g.f("RET")
}
