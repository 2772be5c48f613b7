package main

import (
	"bytes"
	"fmt"
	"strings"
)

// asm collects the text of one file.
type asm struct {
	bytes.Buffer
	labels int
	cut    func(from string) // ends a part of a unit of unpacking and begins the next, with AX from there
	cuts   int
}

func (g *asm) raw(s string) { g.WriteString(s) }

// f writes one instruction.
func (g *asm) f(format string, args ...any) {
	fmt.Fprintf(g, "\t"+format+"\n", args...)
}

// weave writes what parts emit, line by line in turn, so that no chain of
// instructions waits for itself.
func (g *asm) weave(parts ...func()) {
	start := g.Len()
	lines := make([][]string, len(parts))
	for i, part := range parts {
		part()
		lines[i] = strings.SplitAfter(string(g.Bytes()[start:]), "\n")
		g.Truncate(start)
	}
	for n := range lines[0] {
		for _, l := range lines {
			g.raw(l[n])
		}
	}
}

// label defines a label.
func (g *asm) label(name string) { fmt.Fprintf(g, "\n%s:\n", name) }

// fresh makes a label name that no other in the file has.
func (g *asm) fresh(prefix string) string {
	g.labels++
	return fmt.Sprintf("%s%d", prefix, g.labels)
}

// text opens a function; decl is its Go declaration after "func ".
func (g *asm) text(name, decl string, frame, args int) {
	fmt.Fprintf(g, "\n// func %s\nTEXT ·%s(SB), NOSPLIT, $%d-%d\n", decl, name, frame, args)
}

// ftz makes the processor flush denormals, which cost a hundredfold in FMA
// loops, and keeps the caller's setting in the frame (16 bytes at its top).
// AX is lost.
func (g *asm) ftz() {
	g.f("STMXCSR save-8(SP)")
	g.f("MOVL save-8(SP), AX")
	g.f("ORL $0x8040, AX")
	g.f("MOVL AX, ftz-16(SP)")
	g.f("LDMXCSR ftz-16(SP)")
}

// ret restores what ftz changed and returns. LDMXCSR takes 300 ns on Sapphire Rapids while
// upper halves of registers are in use.
func (g *asm) ret() {
	g.f("VZEROUPPER")
	g.f("LDMXCSR save-8(SP)")
	g.f("RET")
}

// isa is what differs between the vector widths.
type isa struct {
	name  string // suffix of function names
	reg   string // Y or Z
	lanes int    // f32 values in a register
}

var (
	avx2   = isa{"AVX2", "Y", 8}
	avx512 = isa{"AVX512", "Z", 16}
	neon   = isa{"NEON", "V", 4}
)

// v names a vector register.
func (i isa) v(n int) string { return fmt.Sprintf("%s%d", i.reg, n) }

// width is the size of a register in bytes.
func (i isa) width() int { return i.lanes * 4 }

// zero clears a vector register; the 128-bit form clears all of it and is the
// one that every processor recognises as free, but it reaches only 0 to 15.
func (g *asm) zero(i isa, n int) {
	if n < 16 {
		g.f("VXORPS X%d, X%d, X%d", n, n, n)
	} else {
		g.f("VPXORD %s, %s, %s", i.v(n), i.v(n), i.v(n))
	}
}
