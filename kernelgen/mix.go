package main

// genMix writes sums of stored rows, weighed: what attention makes of values,
// for a few queries at once.
//
//	name(dst, p *[4]*float32, w *byte, rowBytes, rows, blocks, add int)
//
// computes dst[j][c] = Σ p[j][r]·w(r·rowBytes)[c], plus what is there where add
// is 1, for blocks of 32 columns. AVX-512 does four j, AVX2 the first two. A
// block is decoded once for all.
func genMix(g *asm) {
	consts := &constants{}
	for _, i := range []isa{avx2, avx512} {
		k := &vkernel{asm: g, isa: i, consts: consts}
		for _, s := range storages {
			if s.name == "F32" || s.name == "F16" || s.name == "Q8_0" {
				k.mix(s)
			}
		}
	}
	consts.write(g)
}

// Registers: 0-3 and 4-7 decode, 8 and on accumulate; SI is the row, AX its
// weight's offset, BX the column's.
func (k *vkernel) mix(s storage) {
	name := "mix" + s.name + k.name
	queries, vectors := k.lanes/4, 32/k.lanes
	ps := []string{"R8", "R9", "R10", "R11"}[:queries]
	acc := func(j, n int) int { return 8 + j*vectors + n }
	k.text(name, name+"(dst, p *[4]*float32, w *byte, rowBytes, rows, blocks, add int)", 16, 56)
	k.ftz()
	k.f("MOVQ dst+0(FP), DI")
	k.f("MOVQ p+8(FP), AX")
	for j, p := range ps {
		k.f("MOVQ %d(AX), %s", 8*j, p)
	}
	k.f("MOVQ w+16(FP), R12")
	k.f("MOVQ rowBytes+24(FP), DX")
	k.f("MOVQ blocks+40(FP), R13")
	k.f("XORQ BX, BX")
	block, row, sum := k.fresh("block"), k.fresh("row"), k.fresh("sum")
	k.label(block)
	for n := range queries * vectors {
		k.zero(k.isa, 8+n)
	}
	k.f("CMPQ add+48(FP), $0")
	k.f("JEQ %s", sum)
	for j := range queries {
		k.f("MOVQ %d(DI), AX", 8*j)
		for n := range vectors {
			k.f("VMOVUPS %d(AX)(BX*1), %s", n*k.width(), k.v(acc(j, n)))
		}
	}
	k.label(sum)
	k.f("MOVQ R12, SI")
	k.f("XORQ AX, AX")
	k.f("MOVQ rows+32(FP), CX")
	k.label(row)
	s.decode(k, "SI")
	for j, p := range ps {
		if k.lanes == 8 {
			k.f("VBROADCASTSS (%s)(AX*1), Y%d", p, 4+j)
		}
		for n := range vectors {
			if k.lanes == 16 {
				k.f("VFMADD231PS.BCST (%s)(AX*1), Z%d, Z%d", p, n, acc(j, n))
			} else {
				k.op("VFMADD231PS", 4+j, n, acc(j, n))
			}
		}
	}
	k.f("ADDQ DX, SI")
	k.f("ADDQ $4, AX")
	k.f("DECQ CX")
	k.f("JNZ %s", row)
	for j := range queries {
		k.f("MOVQ %d(DI), AX", 8*j)
		for n := range vectors {
			k.f("VMOVUPS %s, %d(AX)(BX*1)", k.v(acc(j, n)), n*k.width())
		}
	}
	k.f("ADDQ $%d, R12", s.bytes)
	k.f("ADDQ $128, BX")
	k.f("DECQ R13")
	k.f("JNZ %s", block)
	k.ret()
}
