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
// Four stages run side by side, some steps of 32 columns apart and across panels:
// codes become tiles, tiles are multiplied, products go to memory, and are scaled.
// So nothing waits for a tile product, which takes 52 cycles.
func genFewPanels(g *asm) {
	for _, s := range fewPanelTypes {
		g.fewPanel(s)
	}
	g.packLines()
	g.sumLines()
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
	panelFactor  = 132 // of the codes in rows, inverted
	panelTables  = 136
	panelSize    = 144 // bytes of a panel
	panelAfter   = 152 // what is read after these panels
)

// Offsets in panelMemory. Operands and products of steps are rings of four tiles,
// 4 KB each, so that a load of one step never has the low 12 bits of the address of
// a store of the three steps before it, which it would wait for. For the same
// reason products begin at the last tile of their ring.
const (
	panelPlane  = 4096              // from a step's first product to its second
	panelOut    = 2 * panelPlane    // products
	panelScales = 4 * panelPlane    // [16][2][16] scales of steps
	panelFirst  = panelPlane - 1024 // product of the first step
	ringTiles   = 12                // the bit that an address gets behind a ring's end
	ringScales  = 11
)

// Steps are flushed so many steps after they are multiplied. Products go to memory
// one step behind: a tile that is stored at once keeps the next product waiting for
// its own, which takes 52 cycles.
const flushBehind = 4

// unpackBefore is how many steps before a step is multiplied it is unpacked: tiles
// are loaded from memory, not from stores on their way to it, so less would wait
// for these.
func (s fewPanelType) unpackBefore() int {
	if s.split {
		return 3
	}
	return 4 // one of them before they are loaded
}

// fewPanel writes the kernel of a type. Registers: SI is the codes; R10 and DI are
// the right operands that are written and multiplied, DX and R12 the products that
// are written and flushed, R11 and R15 the scales that are written and read, or R15
// the block whose step is flushed; BX is the activations' tile, CX the distance of
// a tile's rows, R9 the step that is multiplied, R13 the steps that a panel still
// has to flush, R14 the sums of the activations. Z0 to Z15 are the sums of a panel,
// a row of activations each.
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
	g.f("LEAQ %d(DI), DX", panelOut+panelFirst)
	g.f("MOVQ DX, R12")
	g.f("LEAQ %d(DI), R11", panelScales)
	g.f("MOVQ R11, R15")
	if !s.split {
		g.f("ADDQ $%d, DI", panelFirst)
	}
	g.f("MOVQ DI, R10")
	g.f("MOVQ %d(R8), SI", panelW)
	if s.factors != nil {
		g.f("MOVQ SI, R15")
	}
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
	g.f("MOVQ $-%d, R9", s.unpackBefore())
	done := g.fresh("done")
	turns := g.fresh("turns")
	g.label(turns)
	for turn := range byte(2) {
		g.panelTurn(s, turn, done)
	}
	g.f("JMP %s", turns)
	g.label(done)
	g.tilerelease()
	g.ret()
}

// panelTurn is one turn of the stages: step R9 is multiplied, others are flushed,
// stored and unpacked, in this order: a flush then loads nothing whose address has
// the low 12 bits of a store of the same turn. Products of even and odd steps are
// in tiles of their own: each goes to memory while the next one is made.
func (g *asm) panelTurn(s fewPanelType, turn byte, done string) {
	flush, load, store, unpack, next := g.fresh("flush"), g.fresh("load"), g.fresh("store"), g.fresh("unpack"), g.fresh("next")
	g.f("CMPQ R9, %d(R8)", panelTotal)
	g.f("JCC %s", flush)
	g.multiplyStep(s, turn)
	g.label(flush)
	if !s.split {
		g.f("LEAQ 1(R9), AX")
		g.f("CMPQ AX, %d(R8)", panelTotal)
		g.f("JCC %s", load)
		g.loadStep(1 - turn)
		g.label(load)
	}
	g.f("LEAQ -%d(R9), AX", flushBehind)
	g.f("TESTQ AX, AX")
	g.f("JLT %s", store)
	g.flushStep(s)
	g.f("DECQ R13")
	g.f("JNZ %s", store)
	g.storeSums()
	g.f("LEAQ -%d(R9), AX", flushBehind-1)
	g.f("CMPQ AX, %d(R8)", panelTotal)
	g.f("JGE %s", done)
	g.startSums()
	g.label(store)
	g.f("LEAQ -1(R9), AX")
	g.f("CMPQ AX, %d(R8)", panelTotal)
	g.f("JCC %s", unpack)
	g.storeStep(s, 1-turn)
	g.label(unpack)
	g.f("LEAQ %d(R9), AX", s.unpackBefore())
	g.f("CMPQ AX, %d(R8)", panelTotal)
	g.f("JCC %s", next)
	g.unpackStep(s)
	g.label(next)
	g.f("INCQ R9")
}

// unpackStep makes the right operands of the step at SI, which it passes.
func (g *asm) unpackStep(s fewPanelType) {
	ready := g.fresh("ready")
	if s.steps > 1 {
		g.f("DECQ %d(R8)", panelLeft)
		g.f("JGE %s", ready)
		g.f("MOVQ $%d, %d(R8)", s.steps-1, panelLeft)
	}
	if s.scales != nil {
		s.scales(g)
	}
	g.f("ADDQ $%d, SI", s.head)
	if s.steps > 1 {
		g.label(ready)
	}
	near := sparseNibbles
	if s.halves {
		near = sparseBytes
	}
	g.sparseFetch(s.bytes+s.head/s.steps, near)
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
			if s.halves {
				g.subph(byte(z), 29, byte(z))
				g.f("VPSHRDW $3, Z28, Z%d, Z%d", z, z)
			}
			g.f("VMOVDQU64 Z%d, %d(R10)", z, 64*i)
		}
	}
	g.f("ADDQ $%d, SI", s.bytes)
	if s.scales != nil {
		g.ring("R11", 128, ringScales)
	}
	g.ring("R10", 1024, ringTiles)
}

// multiplyStep multiplies the tiles that loadStep has loaded. A split step loads its
// own, because it needs four.
func (g *asm) multiplyStep(s fewPanelType, turn byte) {
	if !s.split {
		g.tilezero(2 * turn)
		g.tdp("TDPBF16PS", 2, 0x5c, 2*turn, 4+turn, 6+turn)
		return
	}
	for c := range byte(2) { // 16 columns each
		g.tilezero(2*turn + c)
		g.tileload(4, rBX, rCX, 32*int32(c))
		g.tileload(6, rDI, rCX, 512*int32(c))
		g.tdp("TDPBF16PS", 2, 0x5c, 2*turn+c, 4, 6)
	}
	g.nextOperands()
}

// loadStep loads the tile at BX and the operands at DI for the turn after this one. A
// product whose operands are there takes 52 cycles; one that waits for their loads
// keeps what follows it from retiring for twice as long, and while another program
// runs on the same core there is room for one turn and a half that has not retired.
func (g *asm) loadStep(turn byte) {
	g.tileload(4+turn, rBX, rCX, 0)
	g.tileload(6+turn, rDI, rCX, 0)
	g.nextOperands()
}

// nextOperands moves on to the operands of the next step.
func (g *asm) nextOperands() {
	g.ring("DI", 1024, ringTiles)
	more := g.fresh("more")
	g.f("ADDQ $1024, BX")
	g.f("DECQ %d(R8)", panelMore)
	g.f("JNZ %s", more)
	g.f("MOVQ %d(R8), BX", panelX)
	g.f("MOVQ %d(R8), AX", panelSteps)
	g.f("MOVQ AX, %d(R8)", panelMore)
	g.label(more)
}

// storeStep brings the products of a step to memory.
func (g *asm) storeStep(s fewPanelType, turn byte) {
	g.tilestore(2*turn, rDX, rCX, 0)
	if s.split {
		g.tilestore(2*turn+1, rDX, rCX, panelPlane)
	}
	g.ring("DX", 1024, ringTiles)
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
	if s.factors != nil {
		s.factors(g)
	} else {
		g.f("VMOVUPS (R15), Z26")
		g.f("VMOVUPS 64(R15), Z27")
	}
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
			g.f("VFMADD231PS %d(R12), Z27, Z%d", panelPlane+64*m, m)
			g.f("VFMADD231PS.BCST %d(R14), Z25, Z%d", 64+4*m, m)
		} else {
			g.f("VFMADD231PS.BCST %d(R14), Z27, Z%d", 4*m, m)
		}
	}
	g.label(done)
	g.f("ADDQ $%d, R14", sums)
	if s.factors != nil {
		g.f("ADDQ $%d, R15", s.head+s.bytes)
	} else {
		g.ring("R15", 128, ringScales)
	}
	g.ring("R12", 1024, ringTiles)
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
