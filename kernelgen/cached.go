package main

import "fmt"

// genCached writes what single queries make of rows of a cache, whose heads lie
// side by side:
//
//	keys<type><tier>x<m>(a *cachedArgs)
//	values<type><tier>x<m>(a *cachedArgs)
//
// compute scores of m queries per head with keys, and sums of values by m rows of
// weights per head. They read memory in the order in which it lies: all heads of a
// few rows, then the next rows.
func genCached(g *asm) {
	consts := &constants{}
	for _, i := range []isa{avx2, avx512} {
		k := &vkernel{asm: g, isa: i, consts: consts}
		for _, s := range storages {
			if s.name != "F32" && s.name != "F16" && s.name != "Q8_0" {
				continue
			}
			for m := 1; m <= 4; m++ {
				k.cachedKeys(s, m)
			}
			for m := 1; m <= k.lanes/4; m++ {
				k.cachedValues(s, m)
			}
		}
	}
	consts.write(g)
}

// Offsets in cachedArgs.
const (
	cachedW, cachedRowBytes, cachedWGroup, cachedAhead        = 0, 8, 16, 24
	cachedRows, cachedHeads, cachedBlocks                     = 32, 40, 48
	cachedX, cachedXRow, cachedXNext                          = 56, 64, 72
	cachedD, cachedDRow, cachedDNext, cachedDGroup, cachedAdd = 80, 88, 96, 104, 112
)

// cachedChunk is how many rows of values are added for one head before the next
// head: they should be in L1 for all heads.
const cachedChunk = 16

// at is the addresses of up to four rows from a register on: one holds the distance
// of two rows, three that of four.
func at(base, one, three string) []string {
	return []string{base, base + ")(" + one + "*1", base + ")(" + one + "*2", base + ")(" + three + "*1"}
}

// cachedKeys: registers as in rows; SI is a row's head, R14 the one that is asked
// for ahead, AX the queries, DI the scores.
func (k *vkernel) cachedKeys(s storage, m int) {
	name := fmt.Sprintf("keys%s%sx%d", s.name, k.name, m)
	height, vectors := k.lanes/4, 32/k.lanes
	rows, ahead := at("SI", "R12", "R13")[:height], at("R14", "R12", "R13")[:height]
	xs, ds := at("AX", "DX", "R8")[:m], at("DI", "BX", "R9")[:m]
	acc := func(r, j int) int { return 8 + 4*r + j }
	k.text(name, name+"(a *cachedArgs)", 16, 8)
	k.ftz()
	if k.lanes == 16 {
		k.f("MOVL $0xf0, AX")
		k.f("KMOVB AX, K3")
	}
	k.f("MOVQ a+0(FP), CX")
	for _, r := range []struct {
		at  int
		reg string
	}{{cachedW, "SI"}, {cachedRowBytes, "R12"}, {cachedAhead, "R14"}, {cachedXRow, "DX"}, {cachedD, "DI"}, {cachedDRow, "BX"}} {
		k.f("MOVQ %d(CX), %s", r.at, r.reg)
	}
	k.f("ADDQ SI, R14")
	k.f("LEAQ (R12)(R12*2), R13")
	k.f("LEAQ (DX)(DX*2), R8")
	k.f("LEAQ (BX)(BX*2), R9")
	group, head, block := k.fresh("group"), k.fresh("head"), k.fresh("block")
	k.label(group)
	k.f("MOVQ a+0(FP), CX")
	k.f("MOVQ %d(CX), AX", cachedX)
	k.f("MOVQ %d(CX), R11", cachedHeads)
	k.label(head)
	for r := range height {
		for j := range m {
			k.zero(k.isa, acc(r, j))
		}
	}
	k.f("MOVQ a+0(FP), CX")
	k.f("MOVQ %d(CX), CX", cachedBlocks)
	k.label(block)
	if k.lanes == 16 {
		for j, x := range xs {
			for n := range vectors {
				k.f("VMOVUPS %d(%s), Z%d", n*k.width(), x, 24+2*j+n)
			}
		}
	}
	for r, p := range rows {
		s.decode(k, p)
		for off := 0; off < s.bytes; off += 64 {
			k.f("PREFETCHT1 %d(%s)", off, ahead[r])
		}
		for n := range vectors {
			for j, x := range xs {
				if k.lanes == 16 {
					k.op("VFMADD231PS", 24+2*j+n, n, acc(r, j))
				} else {
					k.f("VFMADD231PS %d(%s), Y%d, Y%d", n*k.width(), x, n, acc(r, j))
				}
			}
		}
	}
	k.f("ADDQ $%d, SI", s.bytes)
	k.f("ADDQ $%d, R14", s.bytes)
	k.f("ADDQ $128, AX")
	k.f("DECQ CX")
	k.f("JNZ %s", block)
	if k.lanes == 16 {
		k.sumKeys(m, acc, ds)
	} else {
		for j, d := range ds {
			k.f("VHADDPS Y%d, Y%d, Y1", acc(1, j), acc(0, j))
			k.f("VHADDPS Y1, Y1, Y1")
			k.f("VEXTRACTF128 $1, Y1, X0")
			k.f("VADDPS X0, X1, X1")
			k.f("VMOVLPS X1, (%s)", d)
		}
	}
	k.f("MOVQ a+0(FP), CX")
	k.f("ADDQ %d(CX), AX", cachedXNext)
	k.f("ADDQ %d(CX), DI", cachedDNext)
	k.f("DECQ R11")
	k.f("JNZ %s", head)
	k.f("ADDQ %d(CX), SI", cachedWGroup)
	k.f("ADDQ %d(CX), R14", cachedWGroup)
	k.f("ADDQ %d(CX), DI", cachedDGroup)
	k.f("DECQ %d(CX)", cachedRows)
	k.f("JNZ %s", group)
	k.ret()
}

// sumKeys adds up the lanes of four keys for m queries and stores the sums. It adds
// in the order of rows, two queries at a time, in fewer instructions: lanes 0 to 7
// and 8 to 15, then neighbours, then neighbours, then the two halves.
func (k *vkernel) sumKeys(m int, acc func(r, j int) int, ds []string) {
	fold := func(j, dst int) { // dst = neighbours of keys 0 and 2 | 1 and 3
		for i, pair := range [][2]int{{acc(0, j), acc(1, j)}, {acc(2, j), acc(3, j)}} {
			k.f("VSHUFF64X2 $0x4e, Z%d, Z%d, Z0", pair[1], pair[0])
			k.f("VBLENDMPD Z%d, Z%d, K3, Z1", pair[1], pair[0])
			k.f("VADDPS Z0, Z1, Z%d", 2+i)
		}
		k.f("VSHUFPS $0x88, Z3, Z2, Z0")
		k.f("VSHUFPS $0xdd, Z3, Z2, Z1")
		k.f("VADDPS Z0, Z1, Z%d", dst)
	}
	for j := 0; j < m; j += 2 {
		fold(j, 4)
		other := 4
		if j+1 < m {
			other = 5
			fold(j+1, other)
		}
		k.f("VSHUFPS $0x88, Z%d, Z4, Z0", other)
		k.f("VSHUFPS $0xdd, Z%d, Z4, Z1", other)
		k.f("VADDPS Z0, Z1, Z0")
		k.f("VSHUFF32X4 $0xb1, Z0, Z0, Z1")
		k.f("VADDPS Z0, Z1, Z0")
		k.f("VEXTRACTF32X4 $2, Z0, X1")
		k.f("VUNPCKLPS X1, X0, X2")
		k.f("VMOVUPS X2, (%s)", ds[j])
		if j+1 < m {
			k.f("VUNPCKHPS X1, X0, X2")
			k.f("VMOVUPS X2, (%s)", ds[j+1])
		}
	}
}

// cachedValues: 0-7 decode, 8 and on accumulate. SI is a block of the first row of
// a chunk, AX the row at hand; R8 the weights of the chunk, DX the one at hand; DI
// the sums. The collector sees the pointers of the arguments, so what grows is
// offsets: of rows in cachedWGroup, of weights in cachedDGroup.
func (k *vkernel) cachedValues(s storage, m int) {
	name := fmt.Sprintf("values%s%sx%d", s.name, k.name, m)
	vectors := 32 / k.lanes
	ps, ds := at("DX", "R9", "R10")[:m], at("DI", "BX", "R13")[:m]
	acc := func(j, n int) int { return 8 + j*vectors + n }
	k.text(name, name+"(a *cachedArgs)", 32, 8)
	k.ftz()
	k.f("MOVQ a+0(FP), CX")
	for _, r := range []struct {
		at  int
		reg string
	}{{cachedRowBytes, "R12"}, {cachedAhead, "R14"}, {cachedXRow, "R9"}, {cachedDRow, "BX"}} {
		k.f("MOVQ %d(CX), %s", r.at, r.reg)
	}
	k.f("LEAQ (R9)(R9*2), R10")
	k.f("LEAQ (BX)(BX*2), R13")
	chunk, few, head, block, sum, row := k.fresh("chunk"), k.fresh("few"), k.fresh("head"), k.fresh("block"), k.fresh("sum"), k.fresh("row")
	k.label(chunk)
	k.f("MOVQ a+0(FP), CX")
	k.f("MOVQ %d(CX), AX", cachedRows)
	k.f("CMPQ AX, $%d", cachedChunk)
	k.f("JLE %s", few)
	k.f("MOVQ $%d, AX", cachedChunk)
	k.label(few)
	k.f("MOVQ AX, rows-24(SP)")
	k.f("MOVQ %d(CX), SI", cachedW)
	k.f("ADDQ %d(CX), SI", cachedWGroup)
	k.f("MOVQ %d(CX), R8", cachedX)
	k.f("ADDQ %d(CX), R8", cachedDGroup)
	k.f("MOVQ %d(CX), DI", cachedD)
	k.f("MOVQ %d(CX), AX", cachedHeads)
	k.f("MOVQ AX, heads-32(SP)")
	k.label(head)
	k.f("MOVQ a+0(FP), CX")
	k.f("MOVQ %d(CX), R11", cachedBlocks)
	k.label(block)
	for n := range m * vectors {
		k.zero(k.isa, 8+n)
	}
	k.f("MOVQ a+0(FP), CX")
	k.f("CMPQ %d(CX), $0", cachedAdd)
	k.f("JEQ %s", sum)
	for j, d := range ds {
		for n := range vectors {
			k.f("VMOVUPS %d(%s), %s", n*k.width(), d, k.v(acc(j, n)))
		}
	}
	k.label(sum)
	k.f("MOVQ SI, AX")
	k.f("MOVQ R8, DX")
	k.f("MOVQ rows-24(SP), CX")
	k.label(row)
	s.decode(k, "AX")
	for off := 0; off < s.bytes; off += 64 {
		k.f("PREFETCHT1 %d(AX)(R14*1)", off)
	}
	for j, p := range ps {
		if k.lanes == 8 {
			k.f("VBROADCASTSS (%s), Y%d", p, 4+j)
		}
		for n := range vectors {
			if k.lanes == 16 {
				k.f("VFMADD231PS.BCST (%s), Z%d, Z%d", p, n, acc(j, n))
			} else {
				k.op("VFMADD231PS", 4+j, n, acc(j, n))
			}
		}
	}
	k.f("ADDQ R12, AX")
	k.f("ADDQ $4, DX")
	k.f("DECQ CX")
	k.f("JNZ %s", row)
	for j, d := range ds {
		for n := range vectors {
			k.f("VMOVUPS %s, %d(%s)", k.v(acc(j, n)), n*k.width(), d)
		}
	}
	k.f("ADDQ $%d, SI", s.bytes)
	k.f("ADDQ $128, DI")
	k.f("DECQ R11")
	k.f("JNZ %s", block)
	k.f("MOVQ a+0(FP), CX")
	k.f("ADDQ %d(CX), R8", cachedXNext)
	k.f("ADDQ %d(CX), DI", cachedDNext)
	k.f("DECQ heads-32(SP)")
	k.f("JNZ %s", head)
	k.f("MOVQ $1, %d(CX)", cachedAdd)
	k.f("ADDQ $%d, %d(CX)", 4*cachedChunk, cachedDGroup)
	k.f("MOVQ R12, AX")
	k.f("IMULQ $%d, AX", cachedChunk)
	k.f("ADDQ AX, %d(CX)", cachedWGroup)
	k.f("SUBQ $%d, %d(CX)", cachedChunk, cachedRows)
	k.f("JGT %s", chunk)
	k.ret()
}
