package main

import (
	"fmt"
	"slices"
	"strings"
)

// nasm emits arm64 code. Go's assembler knows few of the vector instructions,
// so all of them are written as words with their names beside them; vectors
// are registers by number, four f32 values each.
type nasm struct {
	*asm
	pool *npool
}

// encodings of three registers: destination, first, second.
var three = map[string]uint32{
	"FADD.4S":    0x4e20d400,
	"FSUB.4S":    0x4ea0d400,
	"FMUL.4S":    0x6e20dc00,
	"FDIV.4S":    0x6e20fc00,
	"FMLA.4S":    0x4e20cc00,
	"FMLS.4S":    0x4ea0cc00,
	"FMAXNM.4S":  0x4e20c400,
	"FMIN.4S":    0x4ea0f400,
	"FADDP.4S":   0x6e20d400,
	"FMAXNMP.4S": 0x6e20c400,
	"FCMGT.4S":   0x6ea0e400,
	"ADD.4S":     0x4ea08400,
	"SUB.4S":     0x6ea08400,
	"UMAX.4S":    0x6ea06400,
	"USHL.16B":   0x6e204400,
	"SUB.16B":    0x6e208400,
	"USHL.4S":    0x6ea04400,
	"AND.16B":    0x4e201c00,
	"BIC.16B":    0x4e601c00,
	"ORR.16B":    0x4ea01c00,
	"EOR.16B":    0x6e201c00,
	"BIT.16B":    0x6ea01c00,
	"TRN1.4S":    0x4e802800,
	"TRN2.4S":    0x4e806800,
	"ZIP1.2D":    0x4ec03800,
	"ZIP2.2D":    0x4ec07800,
	"SDOT.4S":    0x4e809400,
	"TBL.16B":    0x4e000000, // the table first
}

// encodings of two registers: destination, source.
var two = map[string]uint32{
	"MOV.16B":      0x4ea01c00, // ORR of twice the same
	"FNEG.4S":      0x6ea0f800,
	"FABS.4S":      0x4ea0f800,
	"FSQRT.4S":     0x6ea1f800,
	"CMLT0.4S":     0x4ea0a800,
	"SCVTF.4S":     0x4e21d800,
	"FCVTNS.4S":    0x4e21a800,
	"FCVTL.4S4H":   0x0e217800,
	"FCVTL2.4S8H":  0x4e217800,
	"FCVTN.4H4S":   0x0e216800,
	"FCVTN2.8H4S":  0x4e216800,
	"SXTL.8H8B":    0x0f08a400,
	"SXTL2.8H16B":  0x4f08a400,
	"SXTL.4S4H":    0x0f10a400,
	"SXTL2.4S8H":   0x4f10a400,
	"SHLL16.4S4H":  0x2e613800,
	"SHLL162.4S8H": 0x6e613800,
	"SQXTN.4H4S":   0x0e614800,
	"SQXTN2.8H4S":  0x4e614800,
	"SQXTN.8B8H":   0x0e214800,
	"SQXTN2.16B8H": 0x4e214800,
	"UMAXV.4S":     0x6eb0a800,
	"ADDV.4S":      0x4eb1b800,
}

func (g *nasm) word(w uint32, text string, args ...any) {
	fmt.Fprintf(g, "\tWORD $0x%08x // %s\n", w, fmt.Sprintf(text, args...))
}

// v emits an instruction on vectors: the destination first.
func (g *nasm) v(name string, d int, src ...int) {
	switch w, ok := three[name]; {
	case ok && len(src) == 2:
		g.word(w|uint32(src[1])<<16|uint32(src[0])<<5|uint32(d), "%s V%d, V%d, V%d", name, d, src[0], src[1])
		return
	case len(src) == 1 && two[name] != 0:
		w = two[name]
		if name == "MOV.16B" {
			w |= uint32(src[0]) << 16
		}
		g.word(w|uint32(src[0])<<5|uint32(d), "%s V%d, V%d", name, d, src[0])
		return
	}
	panic(fmt.Sprintf("no instruction %s of %d sources", name, len(src)))
}

// zero clears a vector.
func (g *nasm) zero(d int) { g.word(0x4f000400|uint32(d), "MOVI.4S V%d, #0", d) }

// shl and ushr shift 32-bit lanes.
func (g *nasm) shl(d, s, n int) {
	g.word(0x4f005400|uint32(32+n)<<16|uint32(s)<<5|uint32(d), "SHL.4S V%d, V%d, #%d", d, s, n)
}

func (g *nasm) ushr(d, s, n int) {
	g.word(0x6f000400|uint32(64-n)<<16|uint32(s)<<5|uint32(d), "USHR.4S V%d, V%d, #%d", d, s, n)
}

// shlBytes and ushrBytes shift bytes.
func (g *nasm) shlBytes(d, s, n int) {
	g.word(0x4f005400|uint32(8+n)<<16|uint32(s)<<5|uint32(d), "SHL.16B V%d, V%d, #%d", d, s, n)
}

func (g *nasm) ushrBytes(d, s, n int) {
	g.word(0x6f000400|uint32(16-n)<<16|uint32(s)<<5|uint32(d), "USHR.16B V%d, V%d, #%d", d, s, n)
}

// lane broadcasts lane i of s.
func (g *nasm) lane(d, s, i int) {
	g.word(0x4e000400|uint32(i<<3|4)<<16|uint32(s)<<5|uint32(d), "DUP.4S V%d, V%d[%d]", d, s, i)
}

// mlaLane is d += n · m[i]: a fused multiply-add with one lane.
func (g *nasm) mlaLane(d, n, m, i int) {
	g.word(0x4f801000|uint32(i&1)<<21|uint32(m)<<16|uint32(i>>1)<<11|uint32(n)<<5|uint32(d), "FMLA.4S V%d, V%d, V%d[%d]", d, n, m, i)
}

// dotLane is d += the four bytes of each lane of n · the four of m[i].
func (g *nasm) dotLane(d, n, m, i int) {
	g.word(0x4f80e000|uint32(i&1)<<21|uint32(m)<<16|uint32(i>>1)<<11|uint32(n)<<5|uint32(d), "SDOT.4S V%d, V%d, V%d[%d]", d, n, m, i)
}

// load and store move a vector; the offset is a multiple of 16.
func (g *nasm) load(d int, base string, off int) { g.f("FMOVQ %d(%s), F%d", off, base, d) }

func (g *nasm) store(s int, base string, off int) { g.f("FMOVQ F%d, %d(%s)", s, off, base) }

// c loads a constant into every lane of d: the pool stands in R20.
func (g *nasm) c(d int, x float32) { g.bits(d, f32bits(x)) }

func (g *nasm) bits(d int, b uint32) { g.lanes(d, [4]uint32{b, b, b, b}) }

// lanes loads a constant that differs between lanes.
func (g *nasm) lanes(d int, v [4]uint32) { g.load(d, "R20", 16*g.pool.index(v)) }

// usePool makes R20 point at the constants.
func (g *nasm) usePool() { g.f("MOVD $pool<>(SB), R20") }

// npool is the constants of a file, a vector each.
type npool struct{ seen [][4]uint32 }

func (p *npool) index(v [4]uint32) int {
	if i := slices.Index(p.seen, v); i >= 0 {
		return i
	}
	p.seen = append(p.seen, v)
	return len(p.seen) - 1
}

func (p *npool) write(g *asm) {
	g.raw("\n")
	for i, v := range p.seen {
		for o := range 2 {
			g.raw(fmt.Sprintf("DATA pool<>+%d(SB)/8, $0x%08x%08x\n", 16*i+8*o, v[2*o+1], v[2*o]))
		}
	}
	g.raw(fmt.Sprintf("GLOBL pool<>(SB), RODATA|NOPTR, $%d\n", 16*len(p.seen)))
}

// interleave writes the same code for several slots line by line: one body is
// a long chain, and the processor looks only so far ahead.
func (g *asm) interleave(slots []string) {
	lines := make([][]string, len(slots))
	for o, s := range slots {
		lines[o] = strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	}
	for n := range lines[0] {
		for _, l := range lines {
			g.raw(l[n] + "\n")
		}
	}
}
