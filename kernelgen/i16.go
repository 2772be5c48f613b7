package main

import "fmt"

// Offsets in i16's dotArgs.
const (
	i16A       = 0  // codes of the activations, strips of rows
	i16StrideA = 8  // bytes of a row, 64 a group
	i16W       = 16 // codes of a panel, [K/2][16][2]
	i16WScale  = 24 // [K/32][16]
	i16XScale  = 32 // [K/32][rows of the strip]
	i16C       = 40
	i16StrideC = 48 // bytes
	i16Init    = 56 // [16] a row, what C starts from
	i16StrideI = 64 // bytes; 0: one row for all
	i16Groups  = 72
	i16Strips  = 80  // counted down
	i16Sums    = 88  // [rows of the strip][16], workspace
	i16Ahead   = 96  // what will be read after this panel
	i16Step    = 104 // bytes of it that are asked for with each group
	i16Began   = 112 // bytes of init's rows that strips before this one have used
	i16Act     = 120 // which of i16Acts follows; 0: none
)

// i16Acts are the activations that a product may end with, from 1 on.
var i16Acts = [][]float32{geluPoly, tanhPoly}

// genI16 writes products of 16-bit codes with one scale per 32 of K: strips
// of rows times 16 columns.
func genI16(g *asm) {
	c := &constants{}
	genI16YMM(g, c, "dotAVX2", 4, func(first bool, acc, w, x, tmp byte) {
		if first { // of a group: nothing to add to
			tmp = acc
		}
		g.f("VPMADDWD Y%d, Y%d, Y%d", w, x, tmp)
		if !first {
			g.f("VPADDD Y%d, Y%d, Y%d", tmp, acc, acc)
		}
	})
	genI16YMM(g, c, "dotAVXVNNI", 6, func(first bool, acc, w, x, _ byte) {
		if first {
			g.f("VPMADDWD Y%d, Y%d, Y%d", w, x, acc)
		} else {
			g.vpdpwssdVEX(acc, w, x)
		}
	})
	genI16ZMM(g, c)
	genI16Quantize(g, c)
	genI16Widen(g)
	genI16Pairs(g)
	c.write(g)
}

// vpdpwssdVEX is acc += pairs of a · pairs of b on ymm registers, in the
// encoding of processors without AVX-512.
func (g *asm) vpdpwssdVEX(acc, a, b byte) {
	g.bytes(fmt.Sprintf("VPDPWSSD Y%d, Y%d, Y%d (VEX)", b, a, acc),
		0xc4, (^acc>>3&1)<<7|1<<6|(^b>>3&1)<<5|2, (^a&15)<<3|5, 0x52, 0xc0|(acc&7)<<3|b&7)
}

// i16Bases holds pointers to every third row of a strip.
func i16Bases(mr int) []string { return []string{"SI", "R9", "R10", "AX"}[:(mr+2)/3] }

// i16Rows makes pointers to every third row of a strip: row r is at
// base[r/3] + r%3 strides, which are in CX.
func i16Rows(g *asm, mr int) func(r, offset int) string {
	bases := i16Bases(mr)
	for b := 1; b < len(bases); b++ {
		g.f("LEAQ (%s)(CX*2), %s", bases[b-1], bases[b])
		g.f("ADDQ CX, %s", bases[b])
	}
	return func(r, offset int) string {
		s := fmt.Sprintf("%d(%s)", offset, bases[r/3])
		if r%3 > 0 {
			s += fmt.Sprintf("(CX*%d)", r%3)
		}
		return s
	}
}

func i16Open(g *asm, name string, mr int) (at func(r, offset int) string) {
	g.text(name, name+"(t *dotArgs)", 16, 8)
	g.ftz()
	g.f("MOVQ t+0(FP), R8")
	g.f("MOVQ %d(R8), SI", i16A)
	g.f("MOVQ %d(R8), CX", i16StrideA)
	g.f("MOVQ %d(R8), R11", i16XScale)
	g.f("MOVQ %d(R8), DX", i16C)
	g.f("MOVQ %d(R8), R12", i16StrideC)
	at = i16Rows(g, mr)
	g.f("MOVQ CX, R14") // the next strip
	g.f("IMULQ $%d, R14", mr)
	g.f("ADDQ SI, R14")
	g.f("MOVQ %d(R8), R15", i16Ahead)
	return at
}

// i16Strip begins a strip: init takes the rows that it starts from, then the
// panel is read from its start. R13 is lost.
func i16Strip(g *asm, mr int, init func(r int)) (strip string) {
	strip = g.fresh("strip")
	g.label(strip)
	g.f("MOVQ %d(R8), DI", i16Init)
	g.f("ADDQ %d(R8), DI", i16Began)
	g.f("MOVQ %d(R8), R13", i16StrideI)
	for r := range mr {
		init(r)
		g.f("ADDQ R13, DI")
	}
	g.f("IMULQ $%d, R13", mr)
	g.f("ADDQ R13, %d(R8)", i16Began)
	g.f("MOVQ %d(R8), DI", i16W)
	g.f("MOVQ %d(R8), BX", i16WScale)
	g.f("MOVQ %d(R8), R13", i16Groups)
	return strip
}

// i16Fetch asks for a line of the next strip: its rows are four to twelve
// short streams, which the processor's own prefetching is late for. 64 bytes a
// row and group are the whole strip. Two lines more are of the next panel,
// which may be as far as memory.
func i16Fetch(g *asm, q, mr int) {
	switch {
	case q < mr:
		g.f("PREFETCHT0 %d(R14)", 64*q)
	case q < mr+2:
		g.f("PREFETCHT1 %d(R15)", 64*(q-mr))
	}
}

// i16Next moves on to the next group, while there is one.
func i16Next(g *asm, mr int, group string) {
	for _, base := range i16Bases(mr) {
		g.f("ADDQ $64, %s", base)
	}
	g.f("ADDQ $%d, R14", 64*mr)
	g.f("ADDQ %d(R8), R15", i16Step)
	g.f("ADDQ $1024, DI")
	g.f("ADDQ $64, BX")
	g.f("ADDQ $%d, R11", 4*mr)
	g.f("DECQ R13")
	g.f("JNZ %s", group)
}

// i16Close ends a strip. The pointers to its rows stand at the row after.
func i16Close(g *asm, mr int, strip string) {
	g.f("MOVQ CX, R13")
	g.f("IMULQ $%d, R13", mr-1)
	for _, base := range i16Bases(mr) {
		g.f("ADDQ R13, %s", base)
	}
	g.f("DECQ %d(R8)", i16Strips)
	g.f("JNZ %s", strip)
	g.ret()
}

// i16Activate passes n sums, from register first on, through the activation
// that is asked for, a few at a time: they are long chains, which have to run
// beside each other. free registers from tmp on may be lost.
func i16Activate(k *vkernel, first, n, tmp, free int) {
	done := k.fresh("done")
	k.f("MOVQ %d(R8), R13", i16Act)
	for i, poly := range i16Acts {
		next := k.fresh("next")
		k.f("CMPQ R13, $%d", i+1)
		k.f("JNE %s", next)
		for x, some := first, 0; x < first+n; x += some {
			some = min(free/2, first+n-x)
			k.geluNear(poly, x, tmp, some)
		}
		k.f("JMP %s", done)
		k.label(next)
	}
	k.label(done)
}

// geluNear leaves x·Phi(x) in n registers from x on, as good as the polynomial;
// it uses 2n from tmp on.
func (k *vkernel) geluNear(poly []float32, x, tmp, n int) {
	each := func(f func(x, u, q int)) {
		for i := range n {
			f(x+i, tmp+2*i, tmp+2*i+1)
		}
	}
	last := len(poly) - 1
	each(func(x, u, q int) { k.op("VMULPS", x, x, u) })
	each(func(x, u, q int) { k.op("VMINPS", k.c(geluEdge*geluEdge), u, u) })
	each(func(x, u, q int) { k.op("VMOVUPS", k.c(poly[last]), q) })
	for n := last - 1; n >= 0; n-- {
		each(func(x, u, q int) { k.op("VFMADD213PS", k.c(poly[n]), u, q) })
	}
	each(func(x, u, q int) { k.op("VMINPS", k.c(geluEdge), x, u) })
	each(func(x, u, q int) { k.op("VMAXPS", k.c(-geluEdge), u, u) })
	each(func(x, u, q int) { k.op("VFMADD213PS", k.c(0.5), u, q) })
	each(func(x, u, q int) { k.op("VMULPS", q, x, x) })
}

// genI16YMM keeps the integer sums of a group in registers and the f32 sums in
// a workspace, where they are added to once per group: C itself is not in L1
// when a strip begins. Registers: 0 to 2mr-1 sums, then two of weights, one of
// activations, and what mac needs.
func genI16YMM(g *asm, c *constants, name string, mr int, mac func(first bool, acc, w, x, tmp byte)) {
	at := i16Open(g, name, mr)
	w0, x0 := byte(2*mr), byte(2*mr+2)
	tmp := x0 + 1
	g.f("MOVQ %d(R8), AX", i16Sums)
	strip := i16Strip(g, mr, func(r int) {
		for n := range 2 {
			g.f("VMOVUPS %d(DI), Y%d", 32*n, n)
			g.f("VMOVUPS Y%d, %d(AX)", n, 64*r+32*n)
		}
	})
	group := g.fresh("group")
	g.label(group)
	for q := range 16 {
		i16Fetch(g, q, mr)
		g.f("VMOVDQU %d(DI), Y%d", 64*q, w0)
		g.f("VMOVDQU %d(DI), Y%d", 64*q+32, w0+1)
		for r := range mr {
			x := x0
			if mr > 4 { // no products to hold: two in turn
				x += byte(r % 2)
			}
			g.f("VPBROADCASTD %s, Y%d", at(r, 4*q), x)
			for n := byte(0); n < 2; n++ {
				mac(q == 0, byte(2*r)+n, w0+n, x, tmp+n)
			}
		}
	}
	g.f("VMOVUPS (BX), Y%d", w0)
	g.f("VMOVUPS 32(BX), Y%d", w0+1)
	for r := range mr {
		g.f("VBROADCASTSS %d(R11), Y%d", 4*r, x0)
		for n := range 2 {
			acc := 2*r + n
			g.f("VCVTDQ2PS Y%d, Y%d", acc, acc)
			g.f("VMULPS Y%d, Y%d, Y%d", x0, acc, acc)
			g.f("VFMADD213PS %d(AX), Y%d, Y%d", 64*r+32*n, int(w0)+n, acc)
			g.f("VMOVUPS Y%d, %d(AX)", acc, 64*r+32*n)
		}
	}
	i16Next(g, mr, group)
	// The registers still hold the sums.
	i16Activate(&vkernel{asm: g, isa: avx2, consts: c}, 0, 2*mr, 2*mr, 16-2*mr)
	for r := range mr {
		for n := range 2 {
			g.f("VMOVUPS Y%d, %d(DX)", 2*r+n, 32*n)
		}
		g.f("ADDQ R12, DX")
	}
	i16Close(g, mr, strip)
}

// genI16ZMM has registers for both kinds of sums: 0-11 integers, 12-23 f32, 24
// and 25 weights, 26 scales.
func genI16ZMM(g *asm, c *constants) {
	const mr = 12
	at := i16Open(g, "dotVNNI", mr)
	strip := i16Strip(g, mr, func(r int) { g.f("VMOVUPS (DI), Z%d", 12+r) })
	group := g.fresh("group")
	g.label(group)
	for r := range mr {
		g.zero(avx512, r)
	}
	for q := range 16 {
		i16Fetch(g, q, mr)
		w := 24 + q%2
		g.f("VMOVDQU64 %d(DI), Z%d", 64*q, w)
		for r := range mr {
			g.f("VPDPWSSD.BCST %s, Z%d, Z%d", at(r, 4*q), w, r)
		}
	}
	g.f("VMOVUPS (BX), Z24")
	for r := range mr {
		g.f("VCVTDQ2PS Z%d, Z%d", r, r)
		g.f("VMULPS.BCST %d(R11), Z24, Z26", 4*r)
		g.f("VFMADD231PS Z%d, Z26, Z%d", r, 12+r)
	}
	i16Next(g, mr, group)
	i16Activate(&vkernel{asm: g, isa: avx512, consts: c}, mr, mr, 0, mr)
	for r := range mr {
		g.f("VMOVUPS Z%d, (DX)", 12+r)
		g.f("ADDQ R12, DX")
	}
	i16Close(g, mr, strip)
}

// genI16Quantize makes codes of rows of values, one scale per 32: the largest
// magnitude becomes limit. Scales of a row lie stride apart, those of rows
// beside each other. Values are f32, or any storage of blocks of 32, which are
// decoded in registers.
func genI16Quantize(g *asm, c *constants) {
	k := &vkernel{asm: g, isa: avx2, consts: c}
	for _, s := range storages {
		if s.name != "Q8_0" { // whose codes are taken as they are
			k.i16Quantize(s)
		}
	}
}

func (k *vkernel) i16Quantize(s storage) {
	name := "quantize" + s.name + "AVX2"
	k.text(name, name+"(dst *int16, src *byte, scales *float32, rowBytes, stride, groups, rows int, limit, inverse float32)", 16, 64)
	k.ftz()
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ src+8(FP), R8")
	k.f("MOVQ scales+16(FP), R9")
	k.f("MOVQ rowBytes+24(FP), R10")
	k.f("MOVQ stride+32(FP), DX")
	k.f("MOVQ rows+48(FP), R11")
	k.f("VMOVSS limit+56(FP), X15")
	k.f("VMOVSS inverse+60(FP), X12")
	k.f("VMOVUPS %s, Y14", k.consts.bits(0x7fffffff))
	k.f("VMOVUPS %s, Y13", k.consts.bits(0x0d800000)) // 2^-100: less counts as nothing, its inverse would overflow
	row := k.fresh("row")
	k.label(row)
	k.f("MOVQ R8, SI")
	k.f("MOVQ R9, BX")
	k.f("MOVQ groups+40(FP), CX")
	loop := k.fresh("loop")
	k.label(loop)
	s.decode(k, "SI")
	for n := range 4 {
		k.f("VPAND Y%d, Y14, Y%d", n, 4+n)
	}
	// Of the bits, where a NaN is greatest.
	k.f("VPMAXUD Y5, Y4, Y4")
	k.f("VPMAXUD Y7, Y6, Y6")
	k.f("VPMAXUD Y6, Y4, Y4")
	k.f("VEXTRACTI128 $1, Y4, X5")
	k.f("VPMAXUD X5, X4, X4")
	k.f("VPSHUFD $0x4e, X4, X5")
	k.f("VPMAXUD X5, X4, X4")
	k.f("VPSHUFD $0xb1, X4, X5")
	k.f("VPMAXUD X5, X4, X4")
	k.f("VPMAXUD X13, X4, X4") // a floor
	k.f("VMULSS X12, X4, X5")  // scale
	k.f("VMOVSS X5, (BX)")
	k.f("VDIVSS X4, X15, X5") // about its inverse
	k.f("VBROADCASTSS X5, Y5")
	for n := range 4 {
		k.f("VMULPS Y%d, Y5, Y%d", n, n)
		k.f("VCVTPS2DQ Y%d, Y%d", n, n)
	}
	for n := range 2 {
		k.f("VPACKSSDW Y%d, Y%d, Y%d", 2*n+1, 2*n, 2*n)
		k.f("VPERMQ $0xd8, Y%d, Y%d", 2*n, 2*n)
		k.f("VMOVDQU Y%d, %d(DI)", 2*n, 32*n)
	}
	k.f("ADDQ $%d, SI", s.bytes)
	k.f("ADDQ $64, DI")
	k.f("ADDQ DX, BX")
	k.f("DECQ CX")
	k.f("JNZ %s", loop)
	k.f("ADDQ R10, R8")
	k.f("ADDQ $4, R9")
	k.f("DECQ R11")
	k.f("JNZ %s", row)
	k.ret()
}

// genI16Widen takes the codes of Q8_0 rows as they are; scales as above.
func genI16Widen(g *asm) {
	name := "widenQ8AVX2"
	g.text(name, name+"(dst *int16, src *byte, scales *float32, ldd, rowBytes, stride, groups, rows int)", 0, 64)
	g.f("MOVQ dst+0(FP), R8")
	g.f("MOVQ src+8(FP), R9")
	g.f("MOVQ scales+16(FP), R10")
	g.f("MOVQ ldd+24(FP), R12")
	g.f("MOVQ rowBytes+32(FP), R13")
	g.f("MOVQ stride+40(FP), DX")
	g.f("MOVQ rows+56(FP), R11")
	row := g.fresh("row")
	g.label(row)
	g.f("MOVQ R8, DI")
	g.f("MOVQ R9, SI")
	g.f("MOVQ R10, BX")
	g.f("MOVQ groups+48(FP), CX")
	loop := g.fresh("loop")
	g.label(loop)
	g.f("VPMOVSXBW 2(SI), Y0")
	g.f("VPMOVSXBW 18(SI), Y1")
	g.f("VPBROADCASTW (SI), X2")
	g.f("VCVTPH2PS X2, X2")
	g.f("VMOVDQU Y0, (DI)")
	g.f("VMOVDQU Y1, 32(DI)")
	g.f("VMOVSS X2, (BX)")
	g.f("ADDQ $34, SI")
	g.f("ADDQ $64, DI")
	g.f("ADDQ DX, BX")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("ADDQ R12, R8")
	g.f("ADDQ R13, R9")
	g.f("ADDQ $4, R10")
	g.f("DECQ R11")
	g.f("JNZ %s", row)
	g.f("VZEROUPPER")
	g.f("RET")
}

// genI16Pairs makes eight columns of a panel of as many rows of Q8_0: pairs of
// codes are transposed while they are bytes, then widened.
func genI16Pairs(g *asm) {
	name := "pairsQ8AVX2"
	g.text(name, name+"(dst *int16, src *byte, scales *float32, rowBytes, groups int)", 0, 40)
	g.f("MOVQ dst+0(FP), DI")
	g.f("MOVQ src+8(FP), SI")
	g.f("MOVQ scales+16(FP), BX")
	g.f("MOVQ rowBytes+24(FP), DX")
	g.f("MOVQ groups+32(FP), CX")
	g.f("LEAQ (SI)(DX*2), R9")
	g.f("ADDQ DX, R9")
	g.f("LEAQ (R9)(DX*2), R10")
	g.f("ADDQ DX, R10")
	row := func(r, off int) string {
		s := fmt.Sprintf("%d(%s)", off, []string{"SI", "R9", "R10"}[r/3])
		if r%3 > 0 {
			s += fmt.Sprintf("(DX*%d)", r%3)
		}
		return s
	}
	loop := g.fresh("loop")
	g.label(loop)
	g.f("VPXOR X15, X15, X15")
	for r := range 8 {
		g.f("VMOVDQU %s, Y%d", row(r, 2), r)
		g.f("VPINSRW $%d, %s, X15, X15", r, row(r, 0))
	}
	g.f("VCVTPH2PS X15, Y15")
	g.f("VMOVUPS Y15, (BX)")
	unpack := func(kind string, a, b, low, high int) {
		g.f("VPUNPCKL%s Y%d, Y%d, Y%d", kind, b, a, low)
		g.f("VPUNPCKH%s Y%d, Y%d, Y%d", kind, b, a, high)
	}
	// Words of two rows become neighbours, then of four, then of eight.
	unpack("WD", 0, 1, 8, 9)
	unpack("WD", 2, 3, 10, 11)
	unpack("WD", 4, 5, 12, 13)
	unpack("WD", 6, 7, 14, 15)
	unpack("DQ", 8, 10, 0, 1)
	unpack("DQ", 9, 11, 2, 3)
	unpack("DQ", 12, 14, 4, 5)
	unpack("DQ", 13, 15, 6, 7)
	for j := range 4 { // pairs 2j and 2j+1, and those eight on
		unpack("QDQ", j, 4+j, 8+2*j, 9+2*j)
	}
	for j := range 8 {
		g.f("VPMOVSXBW X%d, Y0", 8+j)
		g.f("VEXTRACTI128 $1, Y%d, X1", 8+j)
		g.f("VPMOVSXBW X1, Y1")
		g.f("VMOVDQU Y0, %d(DI)", 64*j)
		g.f("VMOVDQU Y1, %d(DI)", 64*(j+8))
	}
	for _, p := range []string{"SI", "R9", "R10"} {
		g.f("ADDQ $34, %s", p)
	}
	g.f("ADDQ $1024, DI")
	g.f("ADDQ $64, BX")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("VZEROUPPER")
	g.f("RET")
}
