package main

import "fmt"

// genInt8NEON writes the int8 products of the dotprod tier and the quantizers.
func genInt8NEON(g *asm) {
	k := &nasm{asm: g, pool: &npool{}}
	for _, f := range int8Forms {
		k.dot(f)
	}
	k.quantize()
	k.pool.write(g)
}

// dot multiplies up to four rows with 8 columns of a panel, where sb, b and c
// stand, and adds to the f32 sums at c, 128 bytes a row. A lane of activations
// is a quad of K, which meets a quad of four columns.
//
// Registers: 0 + 2·row sums of integers, 8 + 2·row of floats, 16 + row
// activations, 20-23 weights, 24 and 25 scales, 26 scales of rows.
func (k *nasm) dot(f int8Form) {
	name := "dot" + f.name + "SDOT"
	k.text(name, name+"(t *dotArgs)", 0, 8)
	k.usePool()
	k.f("MOVD t+0(FP), R0")
	k.f("MOVD %d(R0), R1", argA)
	k.f("MOVD %d(R0), R5", argLDA)
	for r := range 3 { // R1 to R4 are rows
		k.f("ADD R5, R%d, R%d", 1+r, 2+r)
	}
	k.f("MOVD %d(R0), R5", argSA)
	k.f("MOVD %d(R0), R6", argAux)
	k.f("MOVD %d(R0), R7", argSB)
	k.f("MOVD %d(R0), R8", argB)
	k.f("MOVD %d(R0), R9", argC)
	k.f("MOVD %d(R0), R10", argLDS)
	k.f("MOVD %d(R0), R11", argGroups)
	k.f("MOVD %d(R0), R12", argRows)
	for mr := 4; mr > 1; mr-- {
		k.f("CMP $%d, R12", mr)
		k.f("BEQ %s_%d", name, mr)
	}
	for mr := 1; mr <= 4; mr++ {
		lab := func(s string) string { return fmt.Sprintf("%s_%d%s", name, mr, s) }
		k.label(lab(""))
		for r := range mr {
			k.load(8+2*r, "R9", 128*r)
			k.load(9+2*r, "R9", 128*r+16)
		}
		k.label(lab("group"))
		for n := range 2 * mr {
			k.zero(n)
		}
		k.dotGroup(f, mr)
		for r := range mr {
			k.f("ADD $%d, R%d", int8Group, 1+r)
		}
		k.f("ADD $%d, R8", f.codes)
		k.columnScales(0)
		k.load(26, "R5", 0)
		for r := range mr {
			for n := range 2 {
				k.v("SCVTF.4S", 2*r+n, 2*r+n)
				k.v("FMUL.4S", 2*r+n, 2*r+n, 24+n)
				k.mlaLane(8+2*r+n, 2*r+n, 26, r)
			}
		}
		if f.min {
			k.columnScales(64)
			k.load(26, "R6", 0)
			for r := range mr {
				for n := range 2 {
					k.mlaLane(8+2*r+n, 24+n, 26, r)
				}
			}
			k.f("ADD R10, R6")
		}
		k.f("ADD R10, R5")
		k.f("ADD $%d, R7", f.block())
		k.f("ADD $%d, R8", f.header)
		k.f("SUBS $1, R11, R11")
		k.f("BNE %s", lab("group"))
		for r := range mr {
			k.store(8+2*r, "R9", 128*r)
			k.store(9+2*r, "R9", 128*r+16)
		}
		k.f("RET")
	}
}

// dotGroup adds the products of a group of K.
func (k *nasm) dotGroup(f int8Form, mr int) {
	activations := func(half int) {
		for r := range mr {
			k.load(16+r, fmt.Sprintf("R%d", 1+r), 16*half)
		}
	}
	quad := func(w, lane int) {
		for r := range mr {
			k.dotLane(2*r, w, 16+r, lane)
			k.dotLane(2*r+1, w+1, 16+r, lane)
		}
	}
	for half := range 2 {
		activations(half)
		for q := range 4 {
			w := 20 + 2*(q%2)
			for n := range 2 {
				if !f.min {
					k.load(w+n, "R8", 128*(4*half+q)+16*n)
					continue
				}
				k.load(w+n, "R8", 128*q+16*n)
				if half == 0 {
					k.bits(27, 0x0f0f0f0f)
					k.v("AND.16B", w+n, w+n, 27)
				} else {
					k.ushrBytes(w+n, w+n, 4)
				}
			}
			quad(w, q)
		}
	}
}

// columnScales leaves eight scales at off(R7) in 24 and 25.
func (k *nasm) columnScales(off int) {
	k.load(24, "R7", off)
	k.v("FCVTL2.4S8H", 25, 24)
	k.v("FCVTL.4S4H", 24, 24)
}

// quantize is the quantizer of rows that int8Quantizer describes; aux is
// scale·sum of codes.
func (k *nasm) quantize() {
	const name = "quantizeNEON"
	k.text(name, name+"(t *quantArgs)", 0, 8)
	k.usePool()
	k.f("MOVD t+0(FP), R0")
	k.f("MOVD %d(R0), R1", quantCodes)
	k.f("MOVD %d(R0), R2", quantX)
	k.f("MOVD %d(R0), R3", quantScale)
	k.f("MOVD %d(R0), R4", quantAux)
	k.f("MOVD %d(R0), R5", quantLDA)
	k.f("MOVD %d(R0), R6", quantLDX)
	k.f("MOVD %d(R0), R7", quantLDS)
	k.f("MOVD %d(R0), R8", quantRows)
	k.f("MOVD %d(R0), R15", quantBlocks)
	k.f("MOVD $0x0d800000, R16") // 2^-100
	row, block, zero, sums := k.fresh("row"), k.fresh("block"), k.fresh("zero"), k.fresh("sums")
	k.label(row)
	k.f("MOVD R1, R9")
	k.f("MOVD R2, R10")
	k.f("MOVD R3, R11")
	k.f("MOVD R4, R12")
	k.f("MOVD R15, R13")
	k.label(block)
	for i := range 4 {
		k.zero(i)
	}
	for i := range int8Group / 4 {
		k.load(4+i%4, "R10", 16*i)
		k.v("FABS.4S", 4+i%4, 4+i%4)
		k.v("UMAX.4S", i%4, i%4, 4+i%4)
	}
	k.v("UMAX.4S", 0, 0, 1)
	k.v("UMAX.4S", 2, 2, 3)
	k.v("UMAX.4S", 0, 0, 2)
	k.v("UMAXV.4S", 0, 0)
	k.f("FMOVS F0, R14")
	k.zero(16)
	k.zero(17)
	k.f("CMPW R16, R14")
	k.f("BLT %s", zero)
	k.c(18, 127)
	k.f("FDIVS F18, F0, F16") // the scale
	k.f("FDIVS F0, F18, F17") // its inverse
	k.label(zero)
	k.f("FMOVS F16, (R11)")
	k.lane(17, 17, 0)
	k.zero(19)
	for i := 0; i < int8Group; i += 16 {
		for j := range 4 {
			k.load(j, "R10", 4*i+16*j)
			k.v("FMUL.4S", j, j, 17)
			k.v("FCVTNS.4S", j, j)
			k.v("ADD.4S", 19, 19, j)
		}
		k.v("SQXTN.4H4S", 4, 0)
		k.v("SQXTN2.8H4S", 4, 1)
		k.v("SQXTN.4H4S", 5, 2)
		k.v("SQXTN2.8H4S", 5, 3)
		k.v("SQXTN.8B8H", 6, 4)
		k.v("SQXTN2.16B8H", 6, 5)
		k.store(6, "R9", i)
	}
	k.f("CBZ R12, %s", sums)
	k.v("ADDV.4S", 19, 19)
	k.v("SCVTF.4S", 19, 19)
	k.f("FMULS F16, F19, F19")
	k.f("FMOVS F19, (R12)")
	k.f("ADD R7, R12")
	k.label(sums)
	k.f("ADD R7, R11")
	k.f("ADD $%d, R9", int8Group)
	k.f("ADD $%d, R10", 4*int8Group)
	k.f("SUBS $1, R13, R13")
	k.f("BNE %s", block)
	k.f("ADD R5, R1")
	k.f("ADD R6, R2")
	k.f("ADD $4, R3")
	next := k.fresh("next")
	k.f("CBZ R4, %s", next)
	k.f("ADD $4, R4")
	k.label(next)
	k.f("SUBS $1, R8, R8")
	k.f("BNE %s", row)
	k.f("RET")
}
