package main

// genRows writes the products of a few activation rows with stored weights,
// too few to pay for transposing panels:
//
//	name(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)
//
// computes d_j[r] = w(r·rowBytes)·x_j for groups of adjacent rows, four with
// AVX-512 and two with AVX2. A block is decoded once for all four x.
func genRows(g *asm) {
	consts := &constants{}
	for _, i := range []isa{avx2, avx512} {
		k := &vkernel{asm: g, isa: i, consts: consts}
		for _, s := range storages {
			k.rows(s)
		}
	}
	consts.write(g)
}

// Registers: 0-3 and 4, 5 decode, 8 + 4·row + j accumulate, AVX-512 keeps x
// in 24-31; CX is the offset in x, R9 the offset in d.
func (k *vkernel) rows(s storage) {
	name := "rows" + s.name + k.name
	height := k.lanes / 4
	rows := []string{"SI", "SI)(R12*1", "SI)(R12*2", "SI)(R13*1"}[:height]
	xs := []string{"AX", "BX", "DX", "DI"}
	k.text(name, name+"(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)", 16, 96)
	k.ftz()
	k.f("MOVQ w+0(FP), SI")
	for j, x := range xs {
		k.f("MOVQ x%d+%d(FP), %s", j, 8+8*j, x)
	}
	k.f("MOVQ rowBytes+72(FP), R12")
	k.f("LEAQ (R12)(R12*2), R13")
	k.f("MOVQ blocks+80(FP), R10")
	k.f("IMULQ $%d, R10", s.bytes)
	k.f("MOVQ R12, R8")
	k.f("IMULQ $%d, R8", height)
	k.f("SUBQ R10, R8") // from the end of a row's blocks to the next group
	k.f("MOVQ R8, R10")
	k.f("MOVQ groups+88(FP), R11")
	k.f("XORQ R9, R9")
	group, block := k.fresh("group"), k.fresh("block")
	k.label(group)
	for n := range 4 * height {
		k.zero(k.isa, 8+n)
	}
	k.f("MOVQ blocks+80(FP), R8")
	k.f("XORQ CX, CX")
	k.label(block)
	vectors := 32 / k.lanes
	if k.lanes == 16 {
		for j, x := range xs {
			for n := range vectors {
				k.f("VMOVUPS %d(%s)(CX*1), Z%d", n*k.width(), x, 24+2*j+n)
			}
		}
	}
	for r, p := range rows {
		s.decode(k, p)
		k.f("PREFETCHT0 %d(%s)", prefetch, p)
		for n := range vectors {
			for j, x := range xs {
				acc := 8 + 4*r + j
				if k.lanes == 16 {
					k.op("VFMADD231PS", 24+2*j+n, n, acc)
				} else {
					k.f("VFMADD231PS %d(%s)(CX*1), Y%d, Y%d", n*k.width(), x, n, acc)
				}
			}
		}
	}
	k.f("ADDQ $%d, SI", s.bytes)
	k.f("ADDQ $128, CX")
	k.f("DECQ R8")
	k.f("JNZ %s", block)
	for j := range xs {
		acc := func(r int) int { return 8 + 4*r + j }
		k.f("MOVQ d%d+%d(FP), R8", j, 40+8*j)
		if k.lanes == 16 {
			for r := range height {
				k.f("VEXTRACTF64X4 $1, Z%d, Y0", acc(r))
				k.f("VADDPS Y0, %s, Y%d", "Y"+k.v(acc(r))[1:], 1+r)
			}
			k.f("VHADDPS Y2, Y1, Y1")
			k.f("VHADDPS Y4, Y3, Y3")
			k.f("VHADDPS Y3, Y1, Y1")
		} else {
			k.f("VHADDPS Y%d, Y%d, Y1", acc(1), acc(0))
			k.f("VHADDPS Y1, Y1, Y1")
		}
		k.f("VEXTRACTF128 $1, Y1, X0")
		k.f("VADDPS X0, X1, X1")
		if height == 4 {
			k.f("VMOVUPS X1, (R8)(R9*1)")
		} else {
			k.f("VMOVLPS X1, (R8)(R9*1)")
		}
	}
	k.f("ADDQ $%d, R9", 4*height)
	k.f("ADDQ R10, SI")
	k.f("DECQ R11")
	k.f("JNZ %s", group)
	k.ret()
}
