package main

import "fmt"

// Products of one activation row with two, four or eight panels of codes at once, with the
// bits of genStream. Memory delivers several streams faster than one: two cores read
// weights 10 to 15 per cent faster in four, and 25 per cent from L3; eight give another
// 5 to 10 per cent from memory. A stream is a panel long or longer: the processor's
// prefetcher has to find each stream anew where it begins.
//
// Registers, where they are not those of codes: streams 0 to 3 are at SI, each R9 bytes
// behind the one before, and streams 4 to 7 at CX. BX is three times R9. L2 is asked for
// lines at R13 and R14 in the same way. DX is scales of types with long blocks, DI counts
// parts of their blocks. Sums are in Z16 and up.

// panelsAtOnce are how many panels there are kernels for.
var panelsAtOnce = []int{2, 4, 8}

// L2 is asked for lines manyFar bytes ahead, or one block ahead where blocks have 256
// columns. L1 is asked for lines manyNear bytes ahead: with half of that, products of one
// row take 2 per cent longer in eight streams, and 1 to 5 in four.
const (
	manyFar  = 2 << 10
	manyNear = 512
)

// panel is the addresses of a stream: of weights, and of what L2 is asked for.
type panel struct{ w, ahead string }

// panels are those of n streams.
func panels(n int) (all []panel) {
	index := []string{"", "(R9*1)", "(R9*2)", "(BX*1)"}
	for p := range n {
		base := [][2]string{{"(SI)", "(R13)"}, {"(CX)", "(R14)"}}[p/4]
		all = append(all, panel{base[0] + index[p%4], base[1] + index[p%4]})
	}
	return all
}

// streamMany writes the kernel for n panels of blocks of 32 columns.
func (g *asm) streamMany(s streamStorage, n int) {
	g.codeHead(fmt.Sprintf("stream%sx1by%d", s.name, n))
	g.manyGroups(n, manyFar, (manyFar+s.bytes-1)/s.bytes, func() {
		for p, of := range panels(n) {
			at := 32
			g.f("VCVTPH2PS %s, Z25", of.w)
			if s.minimum {
				g.f("VCVTPH2PS 32%s, Z24", of.w)
				at = 64
			} else {
				g.f("VMULPS Z28, Z25, Z24")
			}
			if s.wide {
				for q := range 8 {
					g.f("VPXORD %d%s, Z29, Z%d", at+64*q, of.w, q)
				}
			} else {
				g.panelNibbles(at, of.w)
			}
			g.manyFetch(s.bytes, of)
			g.panelDots(p, 0, 8, 0)
		}
		g.manyNext(n, s.bytes)
		g.f("ADDQ $128, AX")
	})
}

// manyGroups multiplies with the panels of n streams, the next of each at a time, and
// ends the kernel: step adds the products of the columns that are counted as one and moves
// the streams on. L2 is asked for what lies far bytes ahead. In the last steps, that is
// the n streams that come next, codeBehind bytes behind the end of the first.
func (g *asm) manyGroups(n, far, last int, step func()) {
	group, loop, same := g.fresh("group"), g.fresh("loop"), g.fresh("same")
	g.f("MOVQ R14, bias-24(SP)")
	g.f("MOVQ %d(R8), R9", codeRowBytes)
	g.f("LEAQ (R9)(R9*2), BX")
	g.f("LEAQ %d(SI), R13", far)
	if n > 4 {
		g.f("LEAQ (SI)(R9*4), CX")
		g.f("LEAQ (R13)(R9*4), R14")
	}
	g.label(group)
	g.f("MOVQ bias-24(SP), AX")
	g.f("MOVQ AX, DX")
	g.f("ADDQ %d(R8), DX", codeNextBias)
	g.f("MOVQ DX, bias-24(SP)")
	for p := range n {
		g.f("VMOVUPS (AX), Z%d", 16+p)
		g.f("ADDQ %d(R8), AX", codeCount)
	}
	g.f("MOVQ %d(R8), AX", codeX)
	g.f("MOVQ %d(R8), R12", codeSteps)
	g.label(loop)
	g.f("CMPQ R12, $%d", last)
	g.f("JNE %s", same)
	g.f("CMPQ R11, $1")
	g.f("JNE %s", same)
	g.f("ADDQ %d(R8), R13", codeBehind)
	if n > 4 {
		g.f("LEAQ (R13)(R9*4), R14")
	}
	g.label(same)
	step()
	g.f("DECQ R12")
	g.f("JNZ %s", loop)
	g.f("MOVQ R10, AX")
	for p := range n {
		g.f("VMOVUPS Z%d, (AX)", 16+p)
		g.f("ADDQ %d(R8), AX", codeStrideY)
	}
	g.f("ADDQ $64, R10")
	g.f("DECQ R11")
	g.f("JNZ %s", group)
	g.ret()
}

// manyFetch asks for as many bytes of a panel as manyNext moves on.
func (g *asm) manyFetch(bytes int, of panel) {
	for line := 0; line < bytes; line += 64 {
		g.f("PREFETCHT1 %d%s", line, of.ahead)
		g.f("PREFETCHT0 %d%s", line+manyNear, of.w)
	}
}

func (g *asm) manyNext(n, bytes int) {
	bases := []string{"SI", "R13"}
	if n > 4 {
		bases = append(bases, "CX", "R14")
	}
	for _, r := range bases {
		g.f("ADDQ $%d, %s", bytes, r)
	}
}

// panelDots adds the products with quads [q0,q1) to the sums of panel p. The sum of
// x over their columns is sum bytes behind that of 32 columns. Even and odd quads
// have sums of their own until their end: a dot product waits for the one before it
// in the same sum, and the processor does not look far enough ahead for others.
func (g *asm) panelDots(p, q0, q1, sum int) {
	const lo, hi = 8, 10 // of even quads; then of odd ones
	for z := lo; z < hi+2; z++ {
		g.zero(avx512, z)
	}
	for q := q0; q < q1; q++ {
		g.f("VPDPBUSD.BCST %d(AX), Z%d, Z%d", 4*q, q, lo+q%2)
		g.f("VPDPBUSD.BCST %d(AX), Z%d, Z%d", 32+4*q, q, hi+q%2)
	}
	for _, z := range []int{hi, lo} {
		g.f("VPADDD Z%d, Z%d, Z%d", z+1, z, z)
	}
	g.codeSum(lo, hi, 64, 64+32+sum, 16+p)
}

// manyQ4_K writes the kernel for n panels of Q4_K. Scales of all panels are made at the
// beginning of a block: 8 times 32 columns, n panels, scale and minimum.
func (g *asm) manyQ4_K(n int) {
	const header, part, parts = 256, 256, 8
	g.codeHead(fmt.Sprintf("streamQ4_Kx1by%d", n))
	g.manyGroups(n, header+part*parts, 1, func() {
		g.manyScales()
		for p, of := range panels(n) {
			g.f("VCVTPH2PS %s, Z26", of.w)
			g.f("VCVTPH2PS 32%s, Z27", of.w)
			g.f("VPXORD.BCST %d(R15), Z27, Z27", codeSign)
			g.f("VMOVDQU64 192%s, Z3", of.w)
			g.f("VPBROADCASTD %d(R15), Z5", codeHigh)
			for v := range 2 {
				g.f("VMOVDQU64 %d%s, Z0", 64+64*v, of.w)
				g.f("VPANDD.BCST %d(R15), Z0, Z1", codeSix)
				if v == 1 {
					g.f("VPSRLD $4, Z3, Z3")
				}
				g.f("VPANDD Z29, Z3, Z2")
				g.f("VPSRLD $2, Z0, Z0")
				g.f("VPTERNLOGD $0xf8, Z5, Z0, Z2") // or what is in both
				for i := range parts {
					four := 1 + i/4
					g.f("VPANDD.BCST %d(R15), Z%d, Z4", codeByte, four)
					g.f("VPSRLD $8, Z%d, Z%d", four, four)
					g.f("VCVTDQ2PS Z4, Z4")
					g.f("VMULPS Z%d, Z4, Z4", 26+v)
					g.f("VMOVUPS Z4, %d(DX)", 128*(n*i+p)+64*v)
				}
			}
			g.manyFetch(header, of)
		}
		g.manyNext(n, header)
		g.manyParts(parts, func() {
			for p, of := range panels(n) {
				g.f("VMOVUPS %d(DX), Z25", 128*p)
				g.f("VMOVUPS %d(DX), Z24", 128*p+64)
				g.panelNibbles(0, of.w)
				g.manyFetch(part, of)
				g.panelDots(p, 0, 8, 0)
			}
			g.manyNext(n, part)
			g.f("ADDQ $%d, DX", 128*n)
			g.f("ADDQ $128, AX")
		})
	})
}

// manyQ6_K writes the kernel for n panels of Q6_K. Scales of all panels are made at the
// beginning of a block: 16 times 16 columns, n panels.
func (g *asm) manyQ6_K(n int) {
	const header, part, parts = 288, 384, 8
	g.codeHead(fmt.Sprintf("streamQ6_Kx1by%d", n))
	g.f("VPBROADCASTD %d(R15), Z30", codeHigh)
	g.manyGroups(n, header+part*parts, 1, func() {
		g.manyScales()
		for p, of := range panels(n) {
			g.f("VCVTPH2PS %s, Z26", of.w)
			for i := range 2 * parts {
				if i%4 == 0 {
					g.f("VMOVDQU64 %d%s, Z0", 32+16*i, of.w)
				}
				from := 0
				if at := i % 4; at < 3 {
					from = 1
					g.f("VPSLLD $%d, Z0, Z1", 24-8*at)
				}
				g.f("VPSRAD $24, Z%d, Z1", from)
				g.f("VCVTDQ2PS Z1, Z1")
				g.f("VMULPS Z26, Z1, Z1")
				g.f("VMOVUPS Z1, %d(DX)", 64*(n*i+p))
			}
			g.manyFetch(header, of)
		}
		g.manyNext(n, header)
		g.manyParts(parts, func() {
			for p, of := range panels(n) {
				g.panelNibbles(0, of.w)
				for h := range 2 {
					g.f("VMOVDQU64 %d%s, Z31", 256+64*h, of.w)
					g.highBits(4 * h)
				}
				g.manyFetch(part, of)
				for h := range 2 {
					g.f("VMOVUPS %d(DX), Z25", 64*(n*h+p))
					g.f("VMULPS Z28, Z25, Z24")
					g.panelDots(p, 4*h, 4*h+4, 32*h)
				}
			}
			g.manyNext(n, part)
			g.f("ADDQ $%d, DX", 128*n)
			g.f("ADDQ $192, AX")
		})
	})
}

// manyScales points DX to the room for scales.
func (g *asm) manyScales() {
	g.f("LEAQ %d(R15), DX", tabScales+63)
	g.f("ANDQ $-64, DX")
}

// manyParts repeats a part of a block.
func (g *asm) manyParts(parts int, part func()) {
	inner := g.fresh("inner")
	g.f("MOVQ $%d, DI", parts)
	g.label(inner)
	part()
	g.f("DECQ DI")
	g.f("JNZ %s", inner)
}
