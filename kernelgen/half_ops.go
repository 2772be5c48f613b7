package main

import "fmt"

// half is an instruction of AVX512-FP16 on whole registers: a table of opcodes, a
// prefix, an opcode, and operands.
func (g *asm) half(name string, table, prefix, opcode, dst, a, b byte) {
	not := func(r byte, bit uint) byte { return ^r >> bit & 1 }
	g.bytes(fmt.Sprintf("%s Z%d, Z%d, Z%d", name, b, a, dst), 0x62,
		not(dst, 3)<<7|not(b, 4)<<6|not(b, 3)<<5|not(dst, 4)<<4|table,
		(^a&15)<<3|4|prefix,
		0x40|not(a, 4)<<3,
		opcode, 0xc0|(dst&7)<<3|b&7)
}

// subph is dst = a - b in f16.
func (g *asm) subph(a, b, dst byte) { g.half("VSUBPH", 5, 0, 0x5c, dst, a, b) }

// mulph is dst = a * b in f16.
func (g *asm) mulph(a, b, dst byte) { g.half("VMULPH", 5, 0, 0x59, dst, a, b) }

// fmadd213ph is dst = a * dst + c in f16.
func (g *asm) fmadd213ph(c, a, dst byte) { g.half("VFMADD213PH", 6, 1, 0xa8, dst, a, c) }

// fmadd231ph is dst += a * b in f16.
func (g *asm) fmadd231ph(b, a, dst byte) { g.half("VFMADD231PH", 6, 1, 0xb8, dst, a, b) }

// cvtw2ph makes f16 of integers of 16 bits.
func (g *asm) cvtw2ph(src, dst byte) { g.half("VCVTW2PH", 5, 2, 0x7d, dst, 0, src) }
