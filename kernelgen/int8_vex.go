package main

import "fmt"

// vpdpbusdVEX is acc += unsigned u · signed s on ymm registers, in the
// encoding of processors without AVX-512; the assembler knows only the other.
func (g *asm) vpdpbusdVEX(acc, u, s byte) {
	g.bytes(fmt.Sprintf("VPDPBUSD Y%d, Y%d, Y%d (VEX)", s, u, acc),
		0xc4, (^acc>>3&1)<<7|1<<6|(^s>>3&1)<<5|2, (^u&15)<<3|5, 0x50, 0xc0|(acc&7)<<3|s&7)
}
