package main

import "fmt"

// genStream writes the products of up to 8 activation rows with panels of codes
// (internal/kernel/codes). They are those of genCodes, bit for bit, but read one
// stream: nothing is gathered or transposed.
//
//	name(t *codeArgs)
func genStream(g *asm) {
	for _, s := range streamStorages {
		for _, rows := range codeRows {
			g.stream(s, rows)
		}
		for _, n := range panelsAtOnce {
			g.streamMany(s, n)
		}
	}
	for _, rows := range codeRows {
		g.streamQ4_K(rows)
		g.streamQ6_K(rows)
	}
	for _, n := range panelsAtOnce {
		g.manyQ4_K(n)
		g.manyQ6_K(n)
	}
}

// Lines are asked for into L2 and then into L1 so many bytes ahead. A single
// stream needs both: either alone reads 96 MB at two thirds of the speed. Two cores
// that decode read 7 per cent faster with these distances than with 16 KB and 2 KB.
const (
	streamFar  = 4 << 10
	streamNear = 1 << 10
)

// sparseFar is what streamFar is, for sparseFetch.
const sparseFar = 16 << 10

// streamStorage is a panel format whose blocks are 32 columns.
type streamStorage struct {
	name    string
	bytes   int  // of a block of 16 rows
	minimum bool // behind the scales
	wide    bool // codes of 8 bits, signed
}

var streamStorages = []streamStorage{
	{"Q4_1", 320, true, false},
	{"Q4_0", 288, false, false},
	{"Q8_0", 544, false, true},
}

// stream writes the kernel for so many rows. Registers are those of codes.
func (g *asm) stream(s streamStorage, rows int) {
	g.codeHead(fmt.Sprintf("stream%sx%d", s.name, rows))
	g.codeGroups(rows, func() {
		at := 32
		g.f("VCVTPH2PS (SI), Z25")
		if s.minimum {
			g.f("VCVTPH2PS 32(SI), Z24")
			at = 64
		} else {
			g.f("VMULPS Z28, Z25, Z24")
		}
		if s.wide {
			for q := range 8 {
				g.f("VPXORD %d(SI), Z29, Z%d", at+64*q, q)
			}
		} else {
			g.streamNibbles(at)
		}
		if s.wide || rows < 3 {
			g.streamFetch(s.bytes)
		} else {
			g.sparseFetch(s.bytes, sparseNibbles)
		}
		g.f("ADDQ $%d, SI", s.bytes)
		g.allDots(rows)
	}, func() {})
	g.ret()
}

// sparseFetch is streamFetch for kernels that compute about as long as memory takes.
// It asks for one line of three far ahead, which starts the processor's own
// prefetcher there, and for all lines less far ahead, near says how. To ask for all
// lines far ahead costs these kernels up to a tenth more time: each request keeps
// one of the core's few line buffers, for which loads then wait.
func (g *asm) sparseFetch(bytes int, near sparseNear) {
	for line := 0; line < bytes-128; line += 192 {
		g.f("PREFETCHT1 %d(SI)", line+sparseFar)
	}
	for line := 0; line < bytes; line += 64 {
		g.f("%s %d(SI)", near.op, line+near.ahead)
	}
}

// sparseNear is an instruction that asks for a line, and how many bytes ahead.
type sparseNear struct {
	op    string
	ahead int
}

// sparseBytes is for codes of 8 bits, sparseNibbles for codes of 4 or 6 bits, whose
// kernels compute longer per byte.
var (
	sparseBytes   = sparseNear{"PREFETCHT0", 4 << 10}
	sparseNibbles = sparseNear{"PREFETCHT1", 6 << 10}
)

// streamFetch asks for as many bytes as SI is about to move on.
func (g *asm) streamFetch(bytes int) {
	for line := 0; line < bytes; line += 64 {
		g.f("PREFETCHT1 %d(SI)", line+streamFar)
		g.f("PREFETCHT0 %d(SI)", line+streamNear)
	}
}

// streamNibbles leaves the quads of 32 columns, which begin at(SI), in Z0 to Z7.
func (g *asm) streamNibbles(at int) { g.panelNibbles(at, "(SI)") }

// panelNibbles is streamNibbles for a panel at an address.
func (g *asm) panelNibbles(at int, panel string) {
	for j := range 4 {
		g.f("VMOVDQU64 %d%s, Z%d", at+64*j, panel, 2*j+1)
		g.f("VPANDD Z29, Z%d, Z%d", 2*j+1, 2*j)
		g.f("VPSRLD $4, Z%d, Z%d", 2*j+1, 2*j+1)
		g.f("VPANDD Z29, Z%d, Z%d", 2*j+1, 2*j+1)
	}
}
