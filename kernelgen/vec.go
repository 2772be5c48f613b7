package main

import (
	"fmt"
	"math"
	"strings"
)

// elementwise describes a kernel that makes one vector of dst from one of
// each input: name(dst, in... *float32, n int, scalars... float32), with n a
// multiple of the lanes; Go pads the tail.
type elementwise struct {
	name    string
	in      []string
	scalars []string
	dst     bool // dst is read too
	unroll  int  // vectors a round; 0 is a quarter of the lanes, for long bodies
	tmps    int  // registers that body uses from tmp on
	sum     bool // returns the sum of what it stored; its tail is padded with -Inf
	// body gets the registers of the inputs (dst last where it is read) and
	// of the scalars, leaves the result in the first and may use tmp on.
	body func(k *vkernel, in, scalar []int, tmp int) int
}

// vkernel emits vector instructions for one isa.
type vkernel struct {
	*asm
	isa
	consts *constants
	slot   int // which of the interleaved vectors this is
}

// mask names the predicate register of this slot.
func (k *vkernel) mask() string { return fmt.Sprintf("K%d", 1+k.slot) }

// op emits an instruction on vector registers given by number; a string
// operand is taken as it is.
func (k *vkernel) op(mnemonic string, operands ...any) {
	s := make([]string, len(operands))
	for n, o := range operands {
		switch o := o.(type) {
		case int:
			s[n] = k.v(o)
		default:
			s[n] = fmt.Sprint(o)
		}
	}
	k.f("%s %s", mnemonic, strings.Join(s, ", "))
}

// c is the memory operand of a constant in every lane.
func (k *vkernel) c(x float32) string { return k.consts.bits(math.Float32bits(x)) }

// constants is the pool of a file: 64 bytes a value.
type constants struct {
	seen    []uint32
	nibbles bool
	numbers bool
	vectors []namedVector
}

// namedVector is a constant whose lanes differ.
type namedVector struct {
	name  string
	words [16]uint32
}

// vector is the operand of 64 bytes, lane by lane, from byte at on.
func (c *constants) vector(name string, at int, word func(lane int) uint32) string {
	v := namedVector{name: name}
	for n := range v.words {
		v.words[n] = word(n)
	}
	operand := fmt.Sprintf("%s<>+%d(SB)", name, at)
	for _, old := range c.vectors {
		if old.name == name {
			if old != v {
				panic("kernelgen: two vectors named " + name)
			}
			return operand
		}
	}
	c.vectors = append(c.vectors, v)
	return operand
}

// lanes is the operand 0, 1, ... 15 of integers.
func (c *constants) lanes() string {
	c.numbers = true
	return "lanes<>+0(SB)"
}

// codes is the operand 0, 1, ... 15.
func (c *constants) codes() string {
	c.nibbles = true
	return "nibbles<>+0(SB)"
}

func (c *constants) bits(b uint32) string {
	name := fmt.Sprintf("c%08x<>+0(SB)", b)
	for _, s := range c.seen {
		if s == b {
			return name
		}
	}
	c.seen = append(c.seen, b)
	return name
}

func (c *constants) write(g *asm) {
	for _, b := range c.seen {
		g.raw("\n")
		for o := 0; o < 64; o += 8 {
			g.raw(fmt.Sprintf("DATA c%08x<>+%d(SB)/8, $0x%08x%08x\n", b, o, b, b))
		}
		g.raw(fmt.Sprintf("GLOBL c%08x<>(SB), RODATA|NOPTR, $64\n", b))
	}
	if c.nibbles {
		g.raw("\n")
		for n := range 16 {
			g.raw(fmt.Sprintf("DATA nibbles<>+%d(SB)/4, $%d.0\n", 4*n, n))
		}
		g.raw("GLOBL nibbles<>(SB), RODATA|NOPTR, $64\n")
	}
	if c.numbers {
		g.raw("\n")
		for n := range 16 {
			g.raw(fmt.Sprintf("DATA lanes<>+%d(SB)/4, $%d\n", 4*n, n))
		}
		g.raw("GLOBL lanes<>(SB), RODATA|NOPTR, $64\n")
	}
	for _, v := range c.vectors {
		g.raw("\n")
		for n, w := range v.words {
			g.raw(fmt.Sprintf("DATA %s<>+%d(SB)/4, $0x%08x\n", v.name, 4*n, w))
		}
		g.raw(fmt.Sprintf("GLOBL %s<>(SB), RODATA|NOPTR, $64\n", v.name))
	}
}

func simple(mnemonic string) func(k *vkernel, in, scalar []int, tmp int) int {
	return func(k *vkernel, in, scalar []int, tmp int) int {
		k.op(mnemonic, in[1], in[0], in[0])
		return in[0]
	}
}

var elementwises = []elementwise{
	{name: "add", in: []string{"a", "b"}, unroll: 4, body: simple("VADDPS")},
	{name: "mul", in: []string{"a", "b"}, unroll: 4, body: simple("VMULPS")},
	{name: "scale", in: []string{"a"}, scalars: []string{"s"}, unroll: 4,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			k.op("VMULPS", scalar[0], in[0], in[0])
			return in[0]
		}},
	{name: "axpy", in: []string{"a"}, scalars: []string{"s"}, dst: true, unroll: 4,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			k.op("VFMADD231PS", in[0], scalar[0], in[1])
			return in[1]
		}},
	{name: "norm", in: []string{"x", "w"}, scalars: []string{"mean", "inv"}, unroll: 2,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			k.op("VSUBPS", scalar[0], in[0], in[0])
			k.op("VMULPS", scalar[1], in[0], in[0])
			k.op("VMULPS", in[1], in[0], in[0])
			return in[0]
		}},
	{name: "normBias", in: []string{"x", "w", "b"}, scalars: []string{"mean", "inv"}, unroll: 2,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			k.op("VSUBPS", scalar[0], in[0], in[0])
			k.op("VMULPS", scalar[1], in[0], in[0])
			k.op("VFMADD213PS", in[2], in[1], in[0])
			return in[0]
		}},
	{name: "normGrad", in: []string{"dy", "x"}, scalars: []string{"mean", "inv", "sum", "dot"}, unroll: 2,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			k.op("VSUBPS", scalar[0], in[1], in[1])
			k.op("VSUBPS", scalar[2], in[0], in[0])
			k.op("VFNMADD231PS", scalar[3], in[1], in[0])
			k.op("VMULPS", scalar[1], in[0], in[0])
			return in[0]
		}},
	{name: "normWeightGrad", in: []string{"dy", "x"}, scalars: []string{"mean", "inv"}, dst: true, unroll: 2,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			k.op("VSUBPS", scalar[0], in[1], in[1])
			k.op("VMULPS", scalar[1], in[1], in[1])
			k.op("VFMADD231PS", in[0], in[1], in[2])
			return in[2]
		}},
	{name: "exp", in: []string{"x"}, scalars: []string{"shift"}, tmps: 3, sum: true,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			k.op("VSUBPS", scalar[0], in[0], in[0])
			return k.exp(in[0], tmp)
		}},
	{name: "silu", in: []string{"x"}, tmps: 4,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			s := k.sigmoid(in[0], tmp)
			k.op("VMULPS", s, in[0], in[0])
			return in[0]
		}},
	{name: "siluMul", in: []string{"x", "u"}, tmps: 4,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			s := k.sigmoid(in[0], tmp)
			k.op("VMULPS", s, in[0], in[0])
			k.op("VMULPS", in[1], in[0], in[0])
			return in[0]
		}},
	{name: "siluGrad", in: []string{"dy", "x"}, tmps: 4,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			s := k.sigmoid(in[1], tmp) // s(1 + x(1-s))
			t := s + 1
			k.op("VMOVUPS", k.c(1), t)
			k.op("VSUBPS", s, t, t)
			k.op("VFMADD213PS", k.c(1), in[1], t)
			k.op("VMULPS", s, t, t)
			k.op("VMULPS", t, in[0], in[0])
			return in[0]
		}},
	{name: "tanh", in: []string{"x"}, tmps: 4,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			k.op("VADDPS", in[0], in[0], in[0])
			s := k.sigmoid(in[0], tmp) // tanh(x) = 2 sigmoid(2x) - 1
			k.op("VADDPS", s, s, s)
			k.op("VSUBPS", k.c(1), s, s)
			return s
		}},
	{name: "geluTanh", in: []string{"x"}, tmps: 5,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			k.tanhArg(in[0], tmp)
			s := k.sigmoid(tmp, tmp+1)
			k.op("VMULPS", s, in[0], in[0])
			return in[0]
		}},
	{name: "geluTanhMul", in: []string{"x", "u"}, tmps: 5,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			k.tanhArg(in[0], tmp)
			s := k.sigmoid(tmp, tmp+1)
			k.op("VMULPS", s, in[0], in[0])
			k.op("VMULPS", in[1], in[0], in[0])
			return in[0]
		}},
	{name: "geluTanhGrad", in: []string{"dy", "x"}, tmps: 5,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			// With s = sigmoid(v): s + x s (1-s) v'.
			k.tanhArg(in[1], tmp)
			s := k.sigmoid(tmp, tmp+1)
			t, d := s+1, s+2
			k.op("VMOVUPS", k.c(1), t)
			k.op("VSUBPS", s, t, t)
			k.op("VMULPS", in[1], in[1], d)
			k.op("VMULPS", k.c(3*tanhCube), d, d)
			k.op("VADDPS", k.c(tanhLin), d, d)
			k.op("VMULPS", in[1], d, d)
			k.op("VMULPS", d, t, t)
			k.op("VFMADD213PS", s, s, t)
			k.op("VMULPS", t, in[0], in[0])
			return in[0]
		}},
	{name: "gelu", in: []string{"x"}, tmps: 5,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			return k.gelu(in[0], tmp)
		}},
	{name: "geluMul", in: []string{"x", "u"}, tmps: 5,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			g := k.gelu(in[0], tmp)
			k.op("VMULPS", in[1], g, g)
			return g
		}},
	{name: "geluGrad", in: []string{"dy", "x"}, tmps: 6,
		body: func(k *vkernel, in, scalar []int, tmp int) int {
			// Phi(x) + x phi(x), Phi from the tail q: q or 1-q.
			q, e := k.tail(in[1], tmp)
			t := e + 1
			k.op("VMOVUPS", k.c(1), t)
			k.op("VSUBPS", q, t, t)
			k.selectNegative(in[1], q, t)
			k.op("VMULPS", k.c(float32(1/math.Sqrt(2*math.Pi))), e, e)
			k.op("VFMADD231PS", in[1], e, t)
			k.op("VMULPS", t, in[0], in[0])
			return in[0]
		}},
}

func genVec(g *asm) {
	consts := &constants{}
	for _, i := range []isa{avx2, avx512} {
		k := &vkernel{asm: g, isa: i, consts: consts}
		for _, e := range elementwises {
			k.elementwise(e)
		}
		for _, r := range reductions {
			k.reduction(r)
		}
		k.adamw()
	}
	genRoPE(g, consts)
	genToF16(g)
	genLogits(g, consts)
	genFetch(g)
	consts.write(g)
}

// genFetch writes what asks for n lines from p on.
func genFetch(g *asm) {
	g.text("fetchLines", "fetchLines(p *byte, n int)", 0, 16)
	g.f("MOVQ p+0(FP), SI")
	g.f("MOVQ n+8(FP), CX")
	loop := g.fresh("loop")
	g.label(loop)
	g.f("PREFETCHT0 (SI)")
	g.f("ADDQ $64, SI")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.f("RET")
}

var pointers = []string{"SI", "BX", "DX"}

// decl is the Go declaration and the size of its arguments; a result is their
// last four bytes.
func (e *elementwise) decl(name string) (decl string, size int) {
	decl = name + "(dst, " + strings.Join(e.in, ", ") + " *float32, n int"
	if len(e.scalars) > 0 {
		decl += ", " + strings.Join(e.scalars, ", ") + " float32"
	}
	decl += ")"
	size = 8*(len(e.in)+2) + 4*len(e.scalars)
	if e.sum {
		return decl + " (sum float32)", (size+7)&^7 + 4
	}
	return decl, size
}

func (k *vkernel) elementwise(e elementwise) {
	name := e.name + k.name
	decl, size := e.decl(name)
	k.text(name, decl, 16, size)
	k.ftz()
	k.f("MOVQ dst+0(FP), DI")
	for n, s := range e.in {
		k.f("MOVQ %s+%d(FP), %s", s, 8*n+8, pointers[n])
	}
	off := 8 * (len(e.in) + 1)
	k.f("MOVQ n+%d(FP), CX", off)
	off += 8
	scalar := make([]int, len(e.scalars))
	next := 0
	for n, s := range e.scalars {
		scalar[n] = next
		k.f("VBROADCASTSS %s+%d(FP), %s", s, off, k.v(next))
		next++
		off += 4
	}
	total := next
	if e.sum {
		k.zero(k.isa, total)
		next++
	}
	perSlot := len(e.in) + e.tmps
	if e.dst {
		perSlot++
	}
	round := func(u int) {
		// The vectors of a round are interleaved instruction by instruction:
		// one body is a long chain, and the processor looks only so far ahead.
		slots := make([][]string, u)
		for o := range u {
			v := &vkernel{asm: &asm{}, isa: k.isa, consts: k.consts, slot: o}
			base := next + o*perSlot
			in := make([]int, 0, 4)
			for n := range e.in {
				v.f("VMOVUPS %d(%s), %s", o*k.width(), pointers[n], k.v(base+n))
				in = append(in, base+n)
			}
			if e.dst {
				v.f("VMOVUPS %d(DI), %s", o*k.width(), k.v(base+len(in)))
				in = append(in, base+len(in))
			}
			out := e.body(v, in, scalar, base+len(in))
			if e.sum {
				v.op("VADDPS", out, total, total)
			}
			v.f("VMOVUPS %s, %d(DI)", k.v(out), o*k.width())
			slots[o] = strings.SplitAfter(strings.TrimSuffix(v.String(), "\n"), "\n")
		}
		for n := range slots[0] {
			for _, lines := range slots {
				k.raw(strings.TrimSuffix(lines[n], "\n") + "\n")
			}
		}
		k.f("ADDQ $%d, DI", u*k.width())
		for n := range e.in {
			k.f("ADDQ $%d, %s", u*k.width(), pointers[n])
		}
	}
	if e.unroll == 0 {
		e.unroll = k.lanes / 4
	}
	if last := next + e.unroll*perSlot; last > 2*k.lanes {
		panic(fmt.Sprintf("%s needs %d registers", name, last))
	}
	one, loop, done := k.fresh("one"), k.fresh("loop"), k.fresh("done")
	if e.unroll > 1 {
		k.f("CMPQ CX, $%d", e.unroll*k.lanes)
		k.f("JLT %s", one)
		k.label(loop)
		round(e.unroll)
		k.f("SUBQ $%d, CX", e.unroll*k.lanes)
		k.f("CMPQ CX, $%d", e.unroll*k.lanes)
		k.f("JGE %s", loop)
	}
	k.label(one)
	k.f("CMPQ CX, $%d", k.lanes)
	k.f("JLT %s", done)
	round(1)
	k.f("SUBQ $%d, CX", k.lanes)
	k.f("JMP %s", one)
	k.label(done)
	if e.sum {
		k.fold("VADDPS", total, next)
		k.f("VMOVSS X%d, sum+%d(FP)", total, size-4)
	}
	k.ret()
}

// fold combines the lanes of r in a fixed tree and leaves the result in lane
// 0; t is lost.
func (k *vkernel) fold(mnemonic string, r, t int) {
	if k.lanes == 16 {
		k.f("VEXTRACTF64X4 $1, Z%d, Y%d", r, t)
		k.f("%s Y%d, Y%d, Y%d", mnemonic, t, r, r)
	}
	k.f("VEXTRACTF128 $1, Y%d, X%d", r, t)
	k.f("%s X%d, X%d, X%d", mnemonic, t, r, r)
	k.f("VPERMILPS $0x4e, X%d, X%d", r, t)
	k.f("%s X%d, X%d, X%d", mnemonic, t, r, r)
	k.f("VPERMILPS $0xb1, X%d, X%d", r, t)
	k.f("%s X%d, X%d, X%d", mnemonic, t, r, r)
}

// reduction describes name(in... *float32, n int, scalars...) float32 with n
// a positive multiple of the lanes. Four accumulators take vectors in turn.
type reduction struct {
	name    string
	in      []string
	scalars []string
	combine string
	pad     string // what the tail is filled up with; "" is zero
	step    func(k *vkernel, in []int, scalar []int, acc int)
}

var reductions = []reduction{
	{"sum", []string{"a"}, nil, "VADDPS", "", func(k *vkernel, in, _ []int, acc int) { k.op("VADDPS", in[0], acc, acc) }},
	{"sumSquares", []string{"a"}, nil, "VADDPS", "", func(k *vkernel, in, _ []int, acc int) { k.op("VFMADD231PS", in[0], in[0], acc) }},
	{"sumSquaresFrom", []string{"a"}, []string{"mean"}, "VADDPS", "mean", func(k *vkernel, in, s []int, acc int) {
		k.op("VSUBPS", s[0], in[0], in[0])
		k.op("VFMADD231PS", in[0], in[0], acc)
	}},
	{"dot", []string{"a", "b"}, nil, "VADDPS", "", func(k *vkernel, in, _ []int, acc int) { k.op("VFMADD231PS", in[1], in[0], acc) }},
	{"dotFrom", []string{"a", "b"}, []string{"mean"}, "VADDPS", "", func(k *vkernel, in, s []int, acc int) {
		k.op("VSUBPS", s[0], in[1], in[1])
		k.op("VFMADD231PS", in[1], in[0], acc)
	}},
	{"max", []string{"a"}, nil, "VMAXPS", "negInf", func(k *vkernel, in, _ []int, acc int) { k.op("VMAXPS", acc, in[0], acc) }},
}

// decl is the Go declaration and the size of its arguments; the result is
// their last four bytes.
func (r *reduction) decl(name string) (decl string, size int) {
	decl = name + "(" + strings.Join(r.in, ", ") + " *float32, n int"
	size = 8*len(r.in) + 8
	if len(r.scalars) > 0 {
		decl += ", " + strings.Join(r.scalars, ", ") + " float32"
		size += 8
	}
	return decl + ") (ret float32)", size + 4
}

func (k *vkernel) reduction(r reduction) {
	name := r.name + k.name
	decl, size := r.decl(name)
	k.text(name, decl, 16, size)
	k.ftz()
	for n, s := range r.in {
		k.f("MOVQ %s+%d(FP), %s", s, 8*n, pointers[n])
	}
	k.f("MOVQ n+%d(FP), CX", 8*len(r.in))
	const acc, tmp, first = 0, 4, 8
	scalar := []int{}
	for n, s := range r.scalars {
		k.f("VBROADCASTSS %s+%d(FP), %s", s, 8*len(r.in)+8+4*n, k.v(tmp+n))
		scalar = append(scalar, tmp+n)
	}
	for n := range 4 {
		if r.combine == "VMAXPS" {
			k.op("VMOVUPS", k.c(float32(math.Inf(-1))), acc+n)
		} else {
			k.zero(k.isa, acc+n)
		}
	}
	round := func(u int) {
		for o := range u {
			var in []int
			for n := range r.in {
				reg := first + o*len(r.in) + n
				k.f("VMOVUPS %d(%s), %s", o*k.width(), pointers[n], k.v(reg))
				in = append(in, reg)
			}
			r.step(k, in, scalar, acc+o)
		}
		for n := range r.in {
			k.f("ADDQ $%d, %s", u*k.width(), pointers[n])
		}
	}
	one, loop, done := k.fresh("one"), k.fresh("loop"), k.fresh("done")
	k.f("CMPQ CX, $%d", 4*k.lanes)
	k.f("JLT %s", one)
	k.label(loop)
	round(4)
	k.f("SUBQ $%d, CX", 4*k.lanes)
	k.f("CMPQ CX, $%d", 4*k.lanes)
	k.f("JGE %s", loop)
	k.label(one)
	k.f("CMPQ CX, $%d", k.lanes)
	k.f("JLT %s", done)
	round(1)
	k.f("SUBQ $%d, CX", k.lanes)
	k.f("JMP %s", one)
	k.label(done)
	k.op(r.combine, acc+1, acc, acc)
	k.op(r.combine, acc+3, acc+2, acc+2)
	k.op(r.combine, acc+2, acc, acc)
	k.fold(r.combine, acc, tmp)
	k.f("VMOVSS X%d, ret+%d(FP)", acc, size-4)
	k.ret()
}
