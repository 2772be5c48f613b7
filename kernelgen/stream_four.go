package main

import "fmt"

// Products of one activation row with four panels of codes at once, with the bits
// of genStream. Memory delivers four streams faster than one: two cores read
// weights 10 to 15 per cent faster so, and 25 per cent from L3. A stream is many
// panels long: the processor's prefetcher has to find each stream anew where it
// begins.
//
// Registers, where they are not those of codes: the streams are at SI, each R9
// bytes behind the one before, BX is three times R9. R13 is what L2 is asked for,
// CX the bytes of y between streams, DX scales of types with long blocks, DI counts
// parts of their blocks. Sums are in Z16 to Z19.

// fourPanels is how many panels are multiplied at once.
const fourPanels = 4

// L2 is asked for lines fourFar bytes ahead, or one block ahead where blocks have 256
// columns. L1 is asked for lines fourNear bytes ahead.
const (
	fourFar  = 2 << 10
	fourNear = 256
)

// ofPanel is the index that turns an address in the first stream into one in stream p.
var ofPanel = [fourPanels]string{"", "(R9*1)", "(R9*2)", "(BX*1)"}

// streamFour writes the kernel for blocks of 32 columns.
func (g *asm) streamFour(s streamStorage) {
	g.codeHead(fmt.Sprintf("stream%sx1by4", s.name))
	g.fourGroups(fourFar, (fourFar+s.bytes-1)/s.bytes, func() {
		for p, panel := range ofPanel {
			at := 32
			g.f("VCVTPH2PS (SI)%s, Z25", panel)
			if s.minimum {
				g.f("VCVTPH2PS 32(SI)%s, Z24", panel)
				at = 64
			} else {
				g.f("VMULPS Z28, Z25, Z24")
			}
			if s.wide {
				for q := range 8 {
					g.f("VPXORD %d(SI)%s, Z29, Z%d", at+64*q, panel, q)
				}
			} else {
				g.panelNibbles(at, panel)
			}
			g.fourFetch(s.bytes, panel)
			g.panelDots(p, 0, 8, 0)
		}
		g.fourNext(s.bytes)
		g.f("ADDQ $128, AX")
	})
}

// fourGroups multiplies with the panels of four streams, the next of each at a time,
// and ends the kernel: step adds the products of the columns that are counted as one
// and moves SI and R13 on. L2 is asked for what lies far bytes ahead. In the last
// steps, that is the four streams behind these.
func (g *asm) fourGroups(far, last int, step func()) {
	group, loop, same := g.fresh("group"), g.fresh("loop"), g.fresh("same")
	g.f("MOVQ %d(R8), R9", codeRowBytes)
	g.f("LEAQ (R9)(R9*2), BX")
	g.f("MOVQ %d(R8), CX", codeStrideY)
	g.f("LEAQ %d(SI), R13", far)
	g.label(group)
	g.f("MOVQ R14, AX")
	for p := range fourPanels {
		g.f("VMOVUPS (AX), Z%d", 16+p)
		g.f("ADDQ %d(R8), AX", codeCount)
	}
	g.f("ADDQ %d(R8), R14", codeNextBias)
	g.f("MOVQ %d(R8), AX", codeX)
	g.f("MOVQ %d(R8), R12", codeSteps)
	g.label(loop)
	g.f("CMPQ R12, $%d", last)
	g.f("JNE %s", same)
	g.f("CMPQ R11, $1")
	g.f("JNE %s", same)
	g.f("ADDQ BX, R13")
	g.label(same)
	step()
	g.f("DECQ R12")
	g.f("JNZ %s", loop)
	g.f("MOVQ R10, AX")
	for p := range fourPanels {
		g.f("VMOVUPS Z%d, (AX)", 16+p)
		g.f("ADDQ CX, AX")
	}
	g.f("ADDQ $64, R10")
	g.f("DECQ R11")
	g.f("JNZ %s", group)
	g.ret()
}

// fourFetch asks for as many bytes of a panel as fourNext moves on.
func (g *asm) fourFetch(bytes int, panel string) {
	for line := 0; line < bytes; line += 64 {
		g.f("PREFETCHT1 %d(R13)%s", line, panel)
		g.f("PREFETCHT0 %d(SI)%s", line+fourNear, panel)
	}
}

func (g *asm) fourNext(bytes int) {
	g.f("ADDQ $%d, SI", bytes)
	g.f("ADDQ $%d, R13", bytes)
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

// fourQ4_K writes the kernel for Q4_K. Scales of all four panels are made at the
// beginning of a block: 8 times 32 columns, four panels, scale and minimum.
func (g *asm) fourQ4_K() {
	const header, part, parts = 256, 256, 8
	g.codeHead("streamQ4_Kx1by4")
	g.fourGroups(header+part*parts, 1, func() {
		g.fourScales()
		for p, panel := range ofPanel {
			g.f("VCVTPH2PS (SI)%s, Z26", panel)
			g.f("VCVTPH2PS 32(SI)%s, Z27", panel)
			g.f("VPXORD.BCST %d(R15), Z27, Z27", codeSign)
			g.f("VMOVDQU64 192(SI)%s, Z3", panel)
			g.f("VPBROADCASTD %d(R15), Z5", codeHigh)
			for v := range 2 {
				g.f("VMOVDQU64 %d(SI)%s, Z0", 64+64*v, panel)
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
					g.f("VMOVUPS Z4, %d(DX)", 512*i+128*p+64*v)
				}
			}
			g.fourFetch(header, panel)
		}
		g.fourNext(header)
		g.fourParts(parts, func() {
			for p, panel := range ofPanel {
				g.f("VMOVUPS %d(DX), Z25", 128*p)
				g.f("VMOVUPS %d(DX), Z24", 128*p+64)
				g.panelNibbles(0, panel)
				g.fourFetch(part, panel)
				g.panelDots(p, 0, 8, 0)
			}
			g.fourNext(part)
			g.f("ADDQ $512, DX")
			g.f("ADDQ $128, AX")
		})
	})
}

// fourQ6_K writes the kernel for Q6_K. Scales of all four panels are made at the
// beginning of a block: 16 times 16 columns, four panels.
func (g *asm) fourQ6_K() {
	const header, part, parts = 288, 384, 8
	g.codeHead("streamQ6_Kx1by4")
	g.f("VPBROADCASTD %d(R15), Z30", codeHigh)
	g.fourGroups(header+part*parts, 1, func() {
		g.fourScales()
		for p, panel := range ofPanel {
			g.f("VCVTPH2PS (SI)%s, Z26", panel)
			for i := range 2 * parts {
				if i%4 == 0 {
					g.f("VMOVDQU64 %d(SI)%s, Z0", 32+16*i, panel)
				}
				from := 0
				if at := i % 4; at < 3 {
					from = 1
					g.f("VPSLLD $%d, Z0, Z1", 24-8*at)
				}
				g.f("VPSRAD $24, Z%d, Z1", from)
				g.f("VCVTDQ2PS Z1, Z1")
				g.f("VMULPS Z26, Z1, Z1")
				g.f("VMOVUPS Z1, %d(DX)", 256*i+64*p)
			}
			g.fourFetch(header, panel)
		}
		g.fourNext(header)
		g.fourParts(parts, func() {
			for p, panel := range ofPanel {
				g.panelNibbles(0, panel)
				for h := range 2 {
					g.f("VMOVDQU64 %d(SI)%s, Z31", 256+64*h, panel)
					g.highBits(4 * h)
				}
				g.fourFetch(part, panel)
				for h := range 2 {
					g.f("VMOVUPS %d(DX), Z25", 256*h+64*p)
					g.f("VMULPS Z28, Z25, Z24")
					g.panelDots(p, 4*h, 4*h+4, 32*h)
				}
			}
			g.fourNext(part)
			g.f("ADDQ $512, DX")
			g.f("ADDQ $192, AX")
		})
	})
}

// fourScales points DX to the room for scales.
func (g *asm) fourScales() {
	g.f("LEAQ %d(R15), DX", tabScales+63)
	g.f("ANDQ $-64, DX")
}

// fourParts repeats a part of a block.
func (g *asm) fourParts(parts int, part func()) {
	inner := g.fresh("inner")
	g.f("MOVQ $%d, DI", parts)
	g.label(inner)
	part()
	g.f("DECQ DI")
	g.f("JNZ %s", inner)
}
