package main

// genGemv writes the matrix-vector kernels: four weight rows at a time, each
// from its own place in memory so that several misses are in flight,
//
//	name(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)
//
// computes dst[s·dstStride+g] = w(s·wStride + g·rowBytes)·x for streams s =
// 0..3 and g = 0..groups-1, a row being so many blocks of 32 values. xs holds
// the sums of x by block, for formats with a minimum. The order of summation
// is the same in every stream.
//
// Q4_1 and Q4_0 take x in another form. A byte is l + 16h with l the code of element
// i and h that of i+16, so l·x[i] + h·x[i+16] is l·(x[i] - x[i+16]/16) +
// byte·x[i+16]/16, which spares the shift: prepareQ4_1 makes those two. Q5_1
// and Q5_0 are in gemv_fifth.go, blocks of 256 in gemv_long.go.
func genGemv(g *asm) {
	consts := &constants{}
	for _, i := range []isa{avx2, avx512} {
		k := &vkernel{asm: g, isa: i, consts: consts}
		for _, s := range append(gemvs, levelGemvs...) {
			k.gemv(s)
		}
		for _, s := range gemvLongs {
			k.gemvLong(s)
		}
	}
	genPrepare(g, consts)
	genPrepareLong(g, consts)
	consts.write(g)
}

// prefetch is how far ahead of each stream its lines are asked for: the
// hardware alone stops at page ends, which short rows meet often.
const prefetch = 512

var streams = []string{"SI", "R8", "R9", "R10"}

// Registers: 0-3 (and 4-7 where accs is 2) accumulate, x stands in the ones
// from 8 on; AX points at 32 aligned bytes of scales.
type gemvKernel struct {
	name   string
	bytes  int // of a block
	accs   int // accumulators a row
	setup  func(k *vkernel)
	scales func(k *vkernel)                  // once a block
	row    func(k *vkernel, s int, p string) // once a block and row
	finish func(k *vkernel)                  // adds to X0, the four sums
}

// plain multiplies 32 decoded values: load leaves vector n of row p in t.
func plain(load func(k *vkernel, n int, p string, t int)) func(k *vkernel, s int, p string) {
	return func(k *vkernel, s int, p string) {
		for n := range 32 / k.lanes {
			t := 12 + n%4
			load(k, n, p, t)
			k.op("VFMADD231PS", 8+n, t, s+4*(n%2))
		}
	}
}

// scaled adds scale[s]·t to the row's accumulator, with t the sum of code·x
// over the block.
func (k *vkernel) scaled(off, t, s, tmp int) {
	if k.lanes == 16 {
		k.f("VFMADD231PS.BCST %d(AX), %s, %s", off, k.v(t), k.v(s))
		return
	}
	k.f("VBROADCASTSS %d(AX), %s", off, k.v(tmp))
	k.op("VFMADD231PS", tmp, t, s)
}

var gemvs = []gemvKernel{
	{name: "F32", bytes: 128, accs: 2, row: plain(func(k *vkernel, n int, p string, t int) {
		k.f("VMOVUPS %d(%s), %s", n*k.width(), p, k.v(t))
	})},
	{name: "F16", bytes: 64, accs: 2, row: plain(func(k *vkernel, n int, p string, t int) {
		k.f("VCVTPH2PS %d(%s), %s", n*k.lanes*2, p, k.v(t))
	})},
	{name: "BF16", bytes: 64, accs: 2, row: plain(func(k *vkernel, n int, p string, t int) {
		k.f("VPMOVZXWD %d(%s), %s", n*k.lanes*2, p, k.v(t))
		k.op("VPSLLD", "$16", t, t)
	})},
	{name: "Q8_0", bytes: 34, accs: 1,
		scales: (*vkernel).halves,
		row: func(k *vkernel, s int, p string) {
			for n := range 32 / k.lanes {
				t := 13
				if n == 0 {
					t = 12
				}
				k.f("VPMOVSXBD %d(%s), %s", 2+n*k.lanes, p, k.v(t))
				k.op("VCVTDQ2PS", t, t)
				if n == 0 {
					k.op("VMULPS", 8, 12, 12)
				} else {
					k.op("VFMADD231PS", 8+n, 13, 12)
				}
			}
			k.scaled(4*s, 12, s, 13)
		}},
	{name: "Q4_1", bytes: 20, accs: 1,
		setup: (*vkernel).nibbleSetup, scales: (*vkernel).minima, row: nibbleRow(4, 8), finish: (*vkernel).addMinima},
	{name: "Q4_0", bytes: 18, accs: 1,
		setup: (*vkernel).nibbleSetup, scales: (*vkernel).sums, row: nibbleRow(2, 4),
		finish: func(k *vkernel) { k.subtractSums(8) }},
	{name: "Q5_1", bytes: 24, accs: 1,
		setup: fifthSetup(0), scales: (*vkernel).minima, row: fifthRow(8, 4, 8), finish: (*vkernel).addMinima},
	{name: "Q5_0", bytes: 22, accs: 1,
		setup: fifthSetup(-16),
		scales: func(k *vkernel) {
			if k.lanes == 16 {
				k.halves() // the table has the offset
			} else {
				k.sums()
			}
		},
		row: fifthRow(6, 2, 4),
		finish: func(k *vkernel) {
			if k.lanes == 8 {
				k.subtractSums(16)
			}
		}},
}

// halves leaves the scales of the four rows at AX, and in X12.
func (k *vkernel) halves() {
	k.f("VXORPS X12, X12, X12")
	for s, p := range streams {
		k.f("VPINSRW $%d, (%s), X12, X12", s, p)
	}
	k.f("VCVTPH2PS X12, X12")
	k.f("VMOVUPS X12, (AX)")
}

// sums is halves, and adds scale·Σx to 4.
func (k *vkernel) sums() {
	k.halves()
	k.f("VBROADCASTSS (DX), X13")
	k.f("VFMADD231PS X13, X12, X4")
	k.f("ADDQ $4, DX")
}

// subtractSums takes what codes stand for less than they are.
func (k *vkernel) subtractSums(offset float32) {
	k.f("VMOVUPS %s, X5", k.c(offset))
	k.f("VFNMADD231PS X5, X4, X0")
}

// minima leaves the scale and the minimum of each row at AX and adds
// minimum·Σx to the odd lanes of 4.
func (k *vkernel) minima() {
	k.f("VMOVD (SI), X12")
	for s, p := range streams[1:] {
		k.f("VPINSRD $%d, (%s), X12, X12", s+1, p)
	}
	k.f("VCVTPH2PS X12, Y12")
	k.f("VMOVUPS Y12, (AX)")
	k.f("VBROADCASTSS (DX), Y13")
	k.f("VFMADD231PS Y13, Y12, Y4")
	k.f("ADDQ $4, DX")
}

func (k *vkernel) addMinima() {
	k.f("VEXTRACTF128 $1, Y4, X5")
	k.f("VSHUFPS $0xdd, X5, X4, X4")
	k.f("VADDPS X4, X0, X0")
}

func (k *vkernel) nibbleSetup() {
	k.zero(k.isa, 4)
	if k.lanes == 16 {
		k.f("VMOVUPS %s, Z5", k.consts.codes())
	} else {
		k.f("VMOVUPS %s, Y5", k.consts.bits(15))
	}
}

// nibbleRow multiplies the 16 bytes at off(p) with x in the form of
// prepareQ4_1; scales lie stride apart.
func nibbleRow(off, stride int) func(k *vkernel, s int, p string) {
	return func(k *vkernel, s int, p string) {
		if k.lanes == 16 {
			// A permutation looks at four bits of each index: it is the
			// mask and the conversion in one.
			t, u := 12+s%2*2, 13+s%2*2
			k.f("VPMOVZXBD %d(%s), Z%d", off, p, t)
			k.f("VPERMPS Z5, Z%d, Z%d", t, u)
			k.f("VCVTDQ2PS Z%d, Z%d", t, t)
			k.f("VMULPS Z8, Z%d, Z%d", u, u)
			k.f("VFMADD231PS Z9, Z%d, Z%d", t, u)
			k.scaled(stride*s, u, s, 0)
			return
		}
		for n := range 2 {
			k.f("VPMOVZXBD %d(%s), Y12", off+8*n, p)
			k.f("VCVTDQ2PS Y12, Y13")
			k.f("VPAND Y5, Y12, Y12")
			k.f("VCVTDQ2PS Y12, Y12")
			if n == 0 {
				k.f("VMULPS Y8, Y12, Y14")
			} else {
				k.f("VFMADD231PS Y9, Y12, Y14")
			}
			k.f("VFMADD231PS Y%d, Y13, Y14", 10+n)
		}
		k.scaled(stride*s, 14, s, 12)
	}
}

// gemvOpen writes a kernel up to its accumulators; AX points at so many aligned
// bytes.
func (k *vkernel) gemvOpen(kernel string, bytes, aligned int) (group, block string) {
	name := "gemv" + kernel + k.name
	k.text(name, name+"(dst *float32, w *byte, x, xs *float32, dstStride, wStride, rowBytes, blocks, groups int)", 48+aligned, 72)
	k.ftz()
	k.f("MOVQ dst+0(FP), R13")
	k.f("MOVQ w+8(FP), SI")
	k.f("MOVQ dstStride+32(FP), DI")
	k.f("SHLQ $2, DI")
	k.f("MOVQ wStride+40(FP), AX")
	k.f("LEAQ (SI)(AX*1), R8")
	k.f("LEAQ (R8)(AX*1), R9")
	k.f("LEAQ (R9)(AX*1), R10")
	k.f("MOVQ rowBytes+48(FP), R12")
	k.f("MOVQ blocks+56(FP), CX")
	k.f("IMULQ $%d, CX", bytes)
	k.f("SUBQ CX, R12") // from the end of a row's blocks to its next row
	k.f("MOVQ groups+64(FP), R11")
	k.f("LEAQ scales-%d(SP), AX", 48+aligned)
	k.f("ADDQ $31, AX")
	k.f("ANDQ $~31, AX")
	group, block = k.fresh("group"), k.fresh("block")
	k.label(group)
	k.f("MOVQ x+16(FP), BX")
	k.f("MOVQ xs+24(FP), DX")
	k.f("MOVQ blocks+56(FP), CX")
	return group, block
}

func (k *vkernel) gemv(s gemvKernel) {
	group, block := k.gemvOpen(s.name, s.bytes, 32)
	for n := range 4 * s.accs {
		k.zero(k.isa, n)
	}
	if s.setup != nil {
		s.setup(k)
	}
	k.label(block)
	if s.scales != nil {
		s.scales(k)
	}
	for n := range 32 / k.lanes {
		k.f("VMOVUPS %d(BX), %s", n*k.width(), k.v(8+n))
	}
	for n, p := range streams {
		s.row(k, n, p)
	}
	for _, p := range streams {
		k.f("PREFETCHT0 %d(%s)", prefetch, p)
		k.f("ADDQ $%d, %s", s.bytes, p)
	}
	k.f("ADDQ $128, BX")
	k.f("DECQ CX")
	k.f("JNZ %s", block)
	if s.accs == 2 {
		for n := range 4 {
			k.op("VADDPS", 4+n, n, n)
		}
	}
	k.gemvClose(group, s.finish)
}

// gemvClose sums the four accumulators, stores them and goes on to the next
// group.
func (k *vkernel) gemvClose(group string, finish func(k *vkernel)) {
	for n := range 4 {
		if k.lanes == 16 {
			k.f("VEXTRACTF64X4 $1, Z%d, Y12", n)
			k.f("VADDPS Y12, Y%d, Y%d", n, n)
		}
	}
	k.f("VHADDPS Y1, Y0, Y0")
	k.f("VHADDPS Y3, Y2, Y2")
	k.f("VHADDPS Y2, Y0, Y0")
	k.f("VEXTRACTF128 $1, Y0, X1")
	k.f("VADDPS X1, X0, X0")
	if finish != nil {
		finish(k)
	}
	k.f("VMOVSS X0, (R13)")
	k.f("VEXTRACTPS $1, X0, (R13)(DI*1)")
	k.f("VEXTRACTPS $2, X0, (R13)(DI*2)")
	k.f("LEAQ (R13)(DI*2), CX")
	k.f("VEXTRACTPS $3, X0, (CX)(DI*1)")
	k.f("ADDQ $4, R13")
	for _, p := range streams {
		k.f("ADDQ R12, %s", p)
	}
	k.f("DECQ R11")
	k.f("JNZ %s", group)
	k.ret()
}

// genPrepare writes the sums by block and the form of x that Q4_1 takes.
func genPrepare(g *asm, consts *constants) {
	k := &vkernel{asm: g, isa: avx2, consts: consts}
	g.text("prepareQ4_1AVX2", "prepareQ4_1AVX2(sums, dst, x *float32, blocks int)", 16, 32)
	g.ftz()
	g.f("MOVQ sums+0(FP), DX")
	g.f("MOVQ dst+8(FP), DI")
	g.f("MOVQ x+16(FP), SI")
	g.f("MOVQ blocks+24(FP), CX")
	loop := g.fresh("loop")
	g.label(loop)
	for n := range 4 {
		g.f("VMOVUPS %d(SI), Y%d", 32*n, n)
	}
	g.f("VADDPS Y1, Y0, Y4")
	g.f("VADDPS Y3, Y2, Y5")
	g.f("VADDPS Y5, Y4, Y4")
	for n := range 2 {
		k.op("VMULPS", k.c(1.0/16), 2+n, 2+n)
		k.op("VSUBPS", 2+n, n, n)
	}
	for n := range 4 {
		g.f("VMOVUPS Y%d, %d(DI)", n, 32*n)
	}
	k.fold("VADDPS", 4, 5)
	g.f("VMOVSS X4, (DX)")
	g.f("ADDQ $4, DX")
	g.f("ADDQ $128, DI")
	g.f("ADDQ $128, SI")
	g.f("DECQ CX")
	g.f("JNZ %s", loop)
	g.ret()
}
