package main

import "fmt"

// neonDecode leaves the 32 values of a block at p in eight registers from d on
// and may use 28 to 31. The values are exact, as genDequant says.
var neonDecode = map[string]func(k *nasm, p string, d int){
	"F32": func(k *nasm, p string, d int) {
		for n := range 8 {
			k.load(d+n, p, 16*n)
		}
	},
	"F16":  func(k *nasm, p string, d int) { k.widen("FCVTL.4S4H", "FCVTL2.4S8H", p, d) },
	"BF16": func(k *nasm, p string, d int) { k.widen("SHLL16.4S4H", "SHLL162.4S8H", p, d) },
	"Q8_0": func(k *nasm, p string, d int) {
		for n := range 2 {
			k.load(29, p, 2+16*n)
			k.codes(29, d+4*n)
		}
		k.scaled(p, d)
	},
	"Q4_0": func(k *nasm, p string, d int) {
		k.nibbles(p, 2, d)
		k.less(8, d)
		k.scaled(p, d)
	},
	"Q4_1": func(k *nasm, p string, d int) {
		k.nibbles(p, 4, d)
		k.scaledFrom(p, d)
	},
	"Q5_0": func(k *nasm, p string, d int) {
		k.nibbles(p, 6, d)
		k.fifths(p, 2, d)
		k.less(16, d)
		k.scaled(p, d)
	},
	"Q5_1": func(k *nasm, p string, d int) {
		k.nibbles(p, 8, d)
		k.fifths(p, 4, d)
		k.scaledFrom(p, d)
	},
	"IQ4_NL": func(k *nasm, p string, d int) {
		k.levels(levelsIQ4, p, 2, d)
		k.scaled(p, d)
	},
	"MXFP4": func(k *nasm, p string, d int) {
		k.levels(levelsMXFP4, p, 1, d)
		k.power(p)
		k.times(d)
	},
}

// widen makes f32 values of 32 that have two bytes each.
func (k *nasm) widen(low, high, p string, d int) {
	for n := range 4 {
		k.load(d+2*n, p, 16*n)
		k.v(high, d+2*n+1, d+2*n)
		k.v(low, d+2*n, d+2*n)
	}
}

// codes makes integers of the 16 bytes of s, which 31 is not.
func (k *nasm) codes(s, d int) {
	k.v("SXTL.8H8B", 31, s)
	k.v("SXTL.4S4H", d, 31)
	k.v("SXTL2.4S8H", d+1, 31)
	k.v("SXTL2.8H16B", 31, s)
	k.v("SXTL.4S4H", d+2, 31)
	k.v("SXTL2.4S8H", d+3, 31)
}

// nibbles makes integers of 16 bytes of nibbles at off(p), the low ones first.
func (k *nasm) nibbles(p string, off, d int) {
	k.load(29, p, off)
	k.bits(30, 0x0f0f0f0f)
	k.v("AND.16B", 30, 29, 30)
	k.ushrBytes(29, 29, 4)
	k.codes(30, d)
	k.codes(29, d+4)
}

// fifths adds the fifth bits at off(p) to integers.
func (k *nasm) fifths(p string, off, d int) {
	k.f("ADD $%d, %s, R21", off, p)
	k.f("VLD1R (R21), [V28.S4]")
	k.lanes(29, [4]uint32{0, 0xffffffff, 0xfffffffe, 0xfffffffd}) // to the right
	k.v("USHL.4S", 28, 28, 29)
	k.bits(29, 1)
	for n := range 8 {
		k.v("AND.16B", 30, 28, 29)
		k.shl(30, 30, 4)
		k.v("ORR.16B", d+n, d+n, 30)
		k.ushr(28, 28, 4)
	}
}

// less subtracts from integers.
func (k *nasm) less(n uint32, d int) {
	k.bits(28, n)
	for i := range 8 {
		k.v("SUB.4S", d+i, d+i, 28)
	}
}

// scaled multiplies integers with the f16 scale at p.
func (k *nasm) scaled(p string, d int) {
	k.f("VLD1R (%s), [V28.H4]", p)
	k.v("FCVTL.4S4H", 28, 28)
	k.times(d)
}

// times multiplies integers with 28.
func (k *nasm) times(d int) {
	for n := range 8 {
		k.v("SCVTF.4S", d+n, d+n)
		k.v("FMUL.4S", d+n, d+n, 28)
	}
}

// levelCodes makes the 16 bytes of 0 to 15 in s what they stand for; 28 has
// the table.
func (k *nasm) levelCodes(s int) { k.v("TBL.16B", s, 28, s) }

// levelsTable leaves a table in 28.
func (k *nasm) levelsTable(t levelTable) {
	k.lanes(28, [4]uint32{t.word(0), t.word(1), t.word(2), t.word(3)})
}

// levels makes integers of what 16 bytes of nibbles at off(p) stand for.
func (k *nasm) levels(t levelTable, p string, off, d int) {
	k.load(29, p, off)
	k.bits(30, 0x0f0f0f0f)
	k.v("AND.16B", 30, 29, 30)
	k.ushrBytes(29, 29, 4)
	k.levelsTable(t)
	k.levelCodes(30)
	k.levelCodes(29)
	k.codes(30, d)
	k.codes(29, d+4)
}

// power leaves half the scale of MXFP4 in 28: 2^(e-128) of the byte at p,
// subnormal for the two smallest.
func (k *nasm) power(p string) {
	k.f("MOVBU (%s), R21", p)
	k.f("SUB $1, R21, R22")
	k.f("LSL $23, R22")
	k.f("MOVD $0x200000, R23")
	k.f("LSL R21, R23, R23")
	k.f("AND $0x600000, R23") // less than the other from 2 on
	k.f("CMP R22, R23")
	k.f("CSEL GT, R23, R22, R22")
	k.f("VDUP R22, V28.S4")
}

// scaledFrom multiplies integers with the f16 scale at p and adds the minimum
// that follows it. The product has few digits: it is exact.
func (k *nasm) scaledFrom(p string, d int) {
	k.f("VLD1R (%s), [V28.S4]", p)
	k.v("FCVTL.4S4H", 28, 28)
	k.v("TRN2.4S", 29, 28, 28)
	k.v("TRN1.4S", 28, 28, 28)
	for n := range 8 {
		k.v("SCVTF.4S", d+n, d+n)
		k.v("FMUL.4S", d+n, d+n, 28)
		k.v("FADD.4S", d+n, d+n, 29)
	}
}

// genStoredNEON writes what reads weights as they lie, for every storage: the
// decoders (see genDequant), products with few rows (see genRows; two weight
// rows at a time) and with one (see genGemv, without its xs).
func genStoredNEON(g *asm) {
	k := &nasm{asm: g, pool: &npool{}}
	for _, s := range storages {
		if neonDecode[s.name] == nil {
			panic("no NEON decoder for " + s.name)
		}
		k.dequant(s)
		k.rows(s)
		k.gemv(s)
	}
	k.pool.write(g)
}

func (k *nasm) dequant(s storage) {
	name := "dequant" + s.name + neon.name
	k.text(name, name+"(dst *float32, src *byte, ldd, rowBytes, blocks, rows int)", 0, 48)
	k.usePool()
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD src+8(FP), R1")
	k.f("MOVD ldd+16(FP), R2")
	k.f("LSL $2, R2")
	k.f("MOVD rowBytes+24(FP), R3")
	k.f("MOVD blocks+32(FP), R4")
	k.f("MOVD rows+40(FP), R5")
	row, loop := k.fresh("row"), k.fresh("loop")
	k.label(row)
	k.f("MOVD R0, R6")
	k.f("MOVD R1, R7")
	k.f("MOVD R4, R8")
	k.label(loop)
	neonDecode[s.name](k, "R7", 0)
	for n := range 8 {
		k.store(n, "R6", 16*n)
	}
	k.f("ADD $%d, R7", s.bytes)
	k.f("ADD $128, R6")
	k.f("SUBS $1, R8, R8")
	k.f("BNE %s", loop)
	k.f("ADD R2, R0")
	k.f("ADD R3, R1")
	k.f("SUBS $1, R5, R5")
	k.f("BNE %s", row)
	k.f("RET")
}

// Registers: 0-7 and 8-15 decoded rows, 16 + 4·row + j sums, 24-27 x.
func (k *nasm) rows(s storage) {
	name := "rows" + s.name + neon.name
	k.text(name, name+"(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)", 0, 96)
	k.usePool()
	k.f("MOVD w+0(FP), R0")
	for j := range 4 {
		k.f("MOVD d%d+%d(FP), R%d", j, 40+8*j, 6+j)
	}
	k.f("MOVD rowBytes+72(FP), R10")
	k.f("MOVD blocks+80(FP), R11")
	k.f("MOVD groups+88(FP), R12")
	k.f("ADD R10, R0, R1")
	k.f("MOVD $%d, R13", s.bytes)
	k.f("MUL R11, R13, R13")
	k.f("SUB R13, R10, R13")
	k.f("ADD R10, R13, R13") // from the end of a row's blocks to the next group
	group, block := k.fresh("group"), k.fresh("block")
	k.label(group)
	for n := range 8 {
		k.zero(16 + n)
	}
	for j := range 4 {
		k.f("MOVD x%d+%d(FP), R%d", j, 8+8*j, 2+j)
	}
	k.f("MOVD R11, R14")
	k.label(block)
	neonDecode[s.name](k, "R0", 0)
	neonDecode[s.name](k, "R1", 8)
	for n := range 8 {
		for j := range 4 {
			k.load(24+j, fmt.Sprintf("R%d", 2+j), 16*n)
		}
		for j := range 4 {
			k.v("FMLA.4S", 16+j, n, 24+j)
			k.v("FMLA.4S", 20+j, 8+n, 24+j)
		}
	}
	k.f("ADD $%d, R0", s.bytes)
	k.f("ADD $%d, R1", s.bytes)
	for j := range 4 {
		k.f("ADD $128, R%d", 2+j)
	}
	k.f("SUBS $1, R14, R14")
	k.f("BNE %s", block)
	for j := range 4 {
		k.v("FADDP.4S", 0, 16+j, 20+j)
		k.v("FADDP.4S", 0, 0, 0)
		k.f("FMOVD F0, (R%d)", 6+j)
		k.f("ADD $8, R%d", 6+j)
	}
	k.f("ADD R13, R0")
	k.f("ADD R13, R1")
	k.f("SUBS $1, R12, R12")
	k.f("BNE %s", group)
	k.f("RET")
}

// Registers: 0-7 a decoded row, 8 + 2·stream two sums each, 16-23 x.
func (k *nasm) gemv(s storage) {
	name := "gemv" + s.name + neon.name
	k.text(name, name+"(dst *float32, w *byte, x *float32, dstStride, wStride, rowBytes, blocks, groups int)", 0, 64)
	k.usePool()
	k.f("MOVD dst+0(FP), R0")
	k.f("MOVD w+8(FP), R1")
	k.f("MOVD dstStride+24(FP), R5")
	k.f("LSL $2, R5")
	k.f("MOVD wStride+32(FP), R6")
	for n := range 3 {
		k.f("ADD R6, R%d, R%d", 1+n, 2+n)
	}
	k.f("MOVD rowBytes+40(FP), R7")
	k.f("MOVD blocks+48(FP), R8")
	k.f("MOVD groups+56(FP), R9")
	k.f("MOVD $%d, R10", s.bytes)
	k.f("MUL R8, R10, R10")
	k.f("SUB R10, R7, R7") // from the end of a row's blocks to its next row
	group, block := k.fresh("group"), k.fresh("block")
	k.label(group)
	k.f("MOVD x+16(FP), R6")
	k.f("MOVD R8, R10")
	for n := range 8 {
		k.zero(8 + n)
	}
	k.label(block)
	for n := range 8 {
		k.load(16+n, "R6", 16*n)
	}
	for r := range 4 {
		p := fmt.Sprintf("R%d", 1+r)
		neonDecode[s.name](k, p, 0)
		for n := range 8 {
			k.v("FMLA.4S", 8+2*r+n%2, n, 16+n)
		}
		k.f("ADD $%d, %s", s.bytes, p)
	}
	k.f("ADD $128, R6")
	k.f("SUBS $1, R10, R10")
	k.f("BNE %s", block)
	for r := range 4 {
		k.v("FADD.4S", 8+2*r, 8+2*r, 9+2*r)
	}
	k.v("FADDP.4S", 8, 8, 10)
	k.v("FADDP.4S", 12, 12, 14)
	k.v("FADDP.4S", 8, 8, 12)
	k.f("MOVD R0, R10")
	for r := range 4 {
		k.f("VST1 V8.S[%d], (R10)", r)
		k.f("ADD R5, R10")
	}
	k.f("ADD $4, R0")
	for r := range 4 {
		k.f("ADD R7, R%d", 1+r)
	}
	k.f("SUBS $1, R9, R9")
	k.f("BNE %s", group)
	k.f("RET")
}
