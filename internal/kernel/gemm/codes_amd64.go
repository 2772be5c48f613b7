package gemm

import (
	"math"
	"unsafe"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

//go:noescape
func codesQ4_1x1(t *codeArgs)

//go:noescape
func codesQ4_1x2(t *codeArgs)

//go:noescape
func codesQ4_1x3(t *codeArgs)

//go:noescape
func codesQ4_1x4(t *codeArgs)

//go:noescape
func codesQ4_1x6(t *codeArgs)

//go:noescape
func codesQ4_1x8(t *codeArgs)

//go:noescape
func codesQ4_0x1(t *codeArgs)

//go:noescape
func codesQ4_0x2(t *codeArgs)

//go:noescape
func codesQ4_0x3(t *codeArgs)

//go:noescape
func codesQ4_0x4(t *codeArgs)

//go:noescape
func codesQ4_0x6(t *codeArgs)

//go:noescape
func codesQ4_0x8(t *codeArgs)

//go:noescape
func codesQ8_0x1(t *codeArgs)

//go:noescape
func codesQ8_0x2(t *codeArgs)

//go:noescape
func codesQ8_0x3(t *codeArgs)

//go:noescape
func codesQ8_0x4(t *codeArgs)

//go:noescape
func codesQ8_0x6(t *codeArgs)

//go:noescape
func codesQ8_0x8(t *codeArgs)

//go:noescape
func packCodes16(dst, sums *byte, x *float32, stride, steps int, constants *[5]float32, order *codeOrder)

//go:noescape
func packCodes(dst, sums *byte, x *float32, stride, steps int, constants *[5]float32, order *codeOrder)

// codeArgs are the operands of the assembly kernels, in its order.
type codeArgs struct {
	w        *byte
	rowBytes int // with several streams at once: bytes between them
	x        *byte
	steps    int
	y        *float32
	strideY  int // bytes, also between streams
	rows     int // with several streams: bytes between their biases
	bias     *float32
	nextBias int // bytes from one group to the next
	groups   int // of 16 weight rows, or panels of each stream
	tables   *codeTables
	behind   int // with several streams: bytes from the end of the first to what is read next
}

// codeTables are the constants of a kernel.
type codeTables struct {
	offsets [16]int32  // of the weight rows
	split   [32]uint16 // even words, then odd ones
	bits    [64]byte   // of a code, or the one that is turned
	excess  float32    // what the codes are too large by, less than nothing
	//lint:ignore U1000 read by assembly
	ones [2]uint16
	//lint:ignore U1000 read by assembly
	six, high, byte, sign uint32
	// Each stream needs 16, from a multiple of 64 bytes on.
	//lint:ignore U1000 written and read by assembly
	scales [mostStreams*16 + 1][codeGroup]float32
}

// codeKernel multiplies with the codes of one type.
type codeKernel struct {
	run    []func(*codeArgs) // [codeSizes], or as many of them as there are
	bits   byte
	excess float32
	order  *codeOrder
	// lines is how many times 64 bytes scales and sums of 32 columns take.
	lines int
	pack  func(dst, sums *byte, x *float32, stride, steps int, constants *[5]float32, order *codeOrder)
	many  []manyKernel // for one row and several streams of panels, most streams first
}

// codeSizes are the numbers of rows that there are kernels for.
var codeSizes = [...]int{1, 2, 3, 4, 6, 8}

// most is the largest number of rows that it multiplies at once.
func (k *codeKernel) most() int { return codeSizes[len(k.run)-1] }

// codeSet is kernels by the type of their weights; nil where there is none. It is an array
// because each product looks a few times.
type codeSet [tensor.I32 + 1]*codeKernel

// codeKernels are the types whose codes are multiplied as the file has them.
var codeKernels = codeSet{
	tensor.Q4_1: {[]func(*codeArgs){codesQ4_1x1, codesQ4_1x2, codesQ4_1x3, codesQ4_1x4, codesQ4_1x6, codesQ4_1x8}, 15, 0, &naturalOrder, 1, packCodes, nil},
	tensor.Q4_0: {[]func(*codeArgs){codesQ4_0x1, codesQ4_0x2, codesQ4_0x3, codesQ4_0x4, codesQ4_0x6, codesQ4_0x8}, 15, -8, &naturalOrder, 1, packCodes, nil},
	tensor.Q8_0: {[]func(*codeArgs){codesQ8_0x1, codesQ8_0x2, codesQ8_0x3, codesQ8_0x4, codesQ8_0x6, codesQ8_0x8}, 128, -128, &naturalOrder, 1, packCodes, nil},
}

// codeConstants are those of packCodes: all bits but the sign, the largest
// integer and its inverse, the integer 128 and a byte.
var codeConstants = [5]float32{math.Float32frombits(1<<31 - 1), codeMax, 1.0 / codeMax, math.Float32frombits(128), math.Float32frombits(255)}

// CanCodes reports whether a task with these weights runs on kernels of its own.
func CanCodes(w *Stored) bool {
	return codeKernelOf(w) != nil && w.K > 0 && w.K%codeLen == 0 && w.N >= codeGroup
}

// codeKernelOf is the kernel for weights on the active tier, nil without one.
func codeKernelOf(w *Stored) *codeKernel {
	tier := isa.Active()
	switch {
	case w.InPanels && tier >= isa.VNNI:
		return streamKernels[w.DType]
	case w.InPanels && tier == isa.AVXVNNI && streamKernelsVEX[w.DType] != nil:
		return streamKernelsVEX[w.DType]
	case w.InPanels && tier >= isa.AVX2:
		return streamKernelsAVX2[w.DType]
	case !w.InPanels && tier >= isa.VNNI:
		return codeKernels[w.DType]
	}
	return nil
}

// codeSize is the index of the kernel for m rows.
func codeSize(m int) (size int) {
	for codeSizes[size] < m {
		size++
	}
	return size
}

// codeBlocks bounds the blocks of 16 weight rows and 32 columns of one assembly
// call, which then takes well under 100 us. Long panels that are multiplied together have
// several times as many.
const codeBlocks = 512

func (s *CodeScratch) multiply(t *CodeTask, n0, n1 int) {
	if t.W.InPanels {
		s.stream(t, n0, n1)
		return
	}
	w, kernel, size := t.W, codeKernels[t.W.DType], codeSize(t.M)
	s.pack(t, kernel)
	s.setTables(w.RowBytes, kernel)
	steps := w.K / codeLen
	a := &s.args
	*a = codeArgs{rowBytes: w.RowBytes, x: &s.x[0], steps: steps, strideY: t.LDC * 4, rows: t.M, tables: &s.table}
	for n := n0; n < n1; {
		first, groups := n, min((n1-n)/codeGroup, max(1, codeBlocks/steps))
		if groups > 0 {
			a.y = &t.C[n]
		} else { // a part of a whole group
			first, groups = max(0, n1-codeGroup), 1
			a.y, a.strideY = &s.edge[0], codeGroup*4
		}
		a.bias, a.nextBias = &s.zeros[0], 0
		if t.Bias != nil {
			a.bias, a.nextBias = &t.Bias[first], codeGroup*4
		}
		_ = w.Data[(first+groups*codeGroup)*w.RowBytes-1]
		a.w, a.groups = &w.Data[first*w.RowBytes], groups
		kernel.run[size](a)
		if a.y == &s.edge[0] {
			for m := range t.M {
				copy(t.C[m*t.LDC+n:m*t.LDC+n1], s.edge[m*codeGroup+n-first:])
			}
		}
		n = first + groups*codeGroup
	}
	*a = codeArgs{} // it keeps nobody's memory
}

// pack leaves the rows of A in the scratch, unless they are there already, as
// many behind each other as the kernel multiplies at once.
func (s *CodeScratch) pack(t *CodeTask, kernel *codeKernel) {
	k := t.W.K
	if t.Epoch != 0 && s.of == &t.A[0] && s.epoch == t.Epoch && s.m == t.M && s.k == k && s.kernel == kernel {
		return
	}
	for m := range t.M {
		first := m - m%kernel.most()
		rows := codeSizes[codeSize(min(kernel.most(), t.M-first))]
		stride := 64 * (rows + kernel.lines)
		dst := s.x[s.chunk(k, kernel, first):][:k/codeLen*stride]
		x := t.A[m*t.LDA:][:k]
		kernel.pack(&dst[64*(m-first)], &dst[64*rows+4*(m-first)], unsafe.SliceData(x), stride, k/codeLen, &codeConstants, kernel.order)
	}
	s.of, s.epoch, s.m, s.k, s.kernel = &t.A[0], t.Epoch, t.M, k, kernel
}

// chunk is where rows from first on are in x.
func (s *CodeScratch) chunk(k int, kernel *codeKernel, first int) int {
	return first / kernel.most() * (k / codeLen) * 64 * (kernel.most() + kernel.lines)
}

// setTables makes the constants of a kernel.
func (s *CodeScratch) setTables(rowBytes int, kernel *codeKernel) {
	c := &s.table
	if c.offsets[1] == int32(rowBytes) && c.bits[0] == kernel.bits && c.excess == kernel.excess {
		return
	}
	for r := range c.offsets {
		c.offsets[r] = int32(r * rowBytes)
		c.split[r], c.split[16+r] = uint16(2*r), uint16(2*r+1)
	}
	for i := range c.bits {
		c.bits[i] = kernel.bits
	}
	c.excess, c.ones = kernel.excess, [2]uint16{1, 1}
	c.six, c.high, c.byte, c.sign = 0x3f3f3f3f, 0x30303030, 0xff, 1<<31
}
