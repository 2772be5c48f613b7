package main

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
	// factors, of a type with one step per block instead of scales, makes the
	// factors of products in Z26 and those of sums in Z27 from the block at R15.
	// That saves two stores per step, of which a core has one per cycle.
	factors func(g *asm)
	rows    []panelTileRow // 16 rows of the step's right operand
	// words are the constants of rows: pairs of a mask and of what is flipped.
	words [][2]int
	// halves says that rows are f16 numbers, which become bf16: Z29 is subtracted,
	// and results are shifted right by three behind the lowest bits of Z28.
	halves bool
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

// panelNibbles are the rows of 32 codes of 4 bits.
var panelNibbles = func() (rows []panelTileRow) {
	for r := range 16 {
		rows = append(rows, panelTileRow{off: 64 * (r / 4), shift: 4 * (r % 4)})
	}
	return rows
}()

// panelBytes are the rows of 32 codes q of 8 bits. A row has every second code of
// four. Eight bits do not fit into bf16 numbers with one exponent, so the numbers
// are made in f16: bits 0x6800 + (q+128) are 2048 + 2(q+128), and subph subtracts
// 2046, which leaves 2(q+129). That is at least 2, so its bits, shifted right by
// three behind a bit of the exponent, are the bf16 number (q+129)<<17.
var panelBytes = func() (rows []panelTileRow) {
	for r := range 16 {
		rows = append(rows, panelTileRow{off: 64 * (r / 2), shift: 8 * (r % 2)})
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
	{name: "Q4_0", steps: 1, head: 32, bytes: 256, rows: panelNibbles, words: [][2]int{{0xf, 0x4300}}, factors: func(g *asm) {
		g.f("VCVTPH2PS (R15), Z26")
		g.f("VMULPS.BCST %d(R8), Z26, Z27", panelOffset) // -136
	}},
	{name: "Q4_1", steps: 1, head: 64, bytes: 256, rows: panelNibbles, words: [][2]int{{0xf, 0x4300}}, factors: func(g *asm) {
		g.f("VCVTPH2PS (R15), Z26")
		g.f("VCVTPH2PS 32(R15), Z27")
		g.f("VFMADD231PS.BCST %d(R8), Z26, Z27", panelOffset) // -128
	}},
	{name: "Q8_0", steps: 1, head: 32, bytes: 512, rows: panelBytes, words: [][2]int{{0xff, 0x6800 ^ 0x80}, {0x67fe, 2}}, halves: true, factors: func(g *asm) {
		g.f("VCVTPH2PS (R15), Z26")
		g.f("VMULPS.BCST %d(R8), Z26, Z27", panelOffset) // -129
		g.f("VMULPS.BCST %d(R8), Z26, Z26", panelFactor)
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
