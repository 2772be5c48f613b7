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
