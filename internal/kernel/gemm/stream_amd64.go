package gemm

import (
	"unsafe"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/tensor"
)

//go:noescape
func streamQ4_1x1(t *codeArgs)

//go:noescape
func streamQ4_1x2(t *codeArgs)

//go:noescape
func streamQ4_1x3(t *codeArgs)

//go:noescape
func streamQ4_1x4(t *codeArgs)

//go:noescape
func streamQ4_1x6(t *codeArgs)

//go:noescape
func streamQ4_1x8(t *codeArgs)

//go:noescape
func streamQ4_0x1(t *codeArgs)

//go:noescape
func streamQ4_0x2(t *codeArgs)

//go:noescape
func streamQ4_0x3(t *codeArgs)

//go:noescape
func streamQ4_0x4(t *codeArgs)

//go:noescape
func streamQ4_0x6(t *codeArgs)

//go:noescape
func streamQ4_0x8(t *codeArgs)

//go:noescape
func streamQ8_0x1(t *codeArgs)

//go:noescape
func streamQ8_0x2(t *codeArgs)

//go:noescape
func streamQ8_0x3(t *codeArgs)

//go:noescape
func streamQ8_0x4(t *codeArgs)

//go:noescape
func streamQ8_0x6(t *codeArgs)

//go:noescape
func streamQ8_0x8(t *codeArgs)

//go:noescape
func streamQ4_Kx1(t *codeArgs)

//go:noescape
func streamQ4_Kx2(t *codeArgs)

//go:noescape
func streamQ4_Kx3(t *codeArgs)

//go:noescape
func streamQ4_Kx4(t *codeArgs)

//go:noescape
func streamQ4_Kx6(t *codeArgs)

//go:noescape
func streamQ4_Kx8(t *codeArgs)

//go:noescape
func streamQ6_Kx1(t *codeArgs)

//go:noescape
func streamQ6_Kx2(t *codeArgs)

//go:noescape
func streamQ6_Kx3(t *codeArgs)

//go:noescape
func streamQ6_Kx4(t *codeArgs)

//go:noescape
func streamQ6_Kx6(t *codeArgs)

//go:noescape
func streamQ6_Kx8(t *codeArgs)

//go:noescape
func streamQ4_1x1by2(t *codeArgs)

//go:noescape
func streamQ4_1x1by4(t *codeArgs)

//go:noescape
func streamQ4_1x1by8(t *codeArgs)

//go:noescape
func streamQ4_0x1by2(t *codeArgs)

//go:noescape
func streamQ4_0x1by4(t *codeArgs)

//go:noescape
func streamQ4_0x1by8(t *codeArgs)

//go:noescape
func streamQ8_0x1by2(t *codeArgs)

//go:noescape
func streamQ8_0x1by4(t *codeArgs)

//go:noescape
func streamQ8_0x1by8(t *codeArgs)

//go:noescape
func streamQ4_Kx1by2(t *codeArgs)

//go:noescape
func streamQ4_Kx1by4(t *codeArgs)

//go:noescape
func streamQ4_Kx1by8(t *codeArgs)

//go:noescape
func streamQ6_Kx1by2(t *codeArgs)

//go:noescape
func streamQ6_Kx1by4(t *codeArgs)

//go:noescape
func streamQ6_Kx1by8(t *codeArgs)

//go:noescape
func streamQ4_1x1AVX2(t *codeArgs)

//go:noescape
func streamQ4_1x1AVXVNNI(t *codeArgs)

//go:noescape
func streamQ4_1x2AVX2(t *codeArgs)

//go:noescape
func streamQ4_1x2AVXVNNI(t *codeArgs)

//go:noescape
func streamQ4_0x1AVX2(t *codeArgs)

//go:noescape
func streamQ4_0x1AVXVNNI(t *codeArgs)

//go:noescape
func streamQ4_0x2AVX2(t *codeArgs)

//go:noescape
func streamQ4_0x2AVXVNNI(t *codeArgs)

//go:noescape
func streamQ8_0x1AVX2(t *codeArgs)

//go:noescape
func streamQ8_0x2AVX2(t *codeArgs)

//go:noescape
func streamQ4_Kx1AVX2(t *codeArgs)

//go:noescape
func streamQ4_Kx1AVXVNNI(t *codeArgs)

//go:noescape
func streamQ4_Kx2AVX2(t *codeArgs)

//go:noescape
func streamQ4_Kx2AVXVNNI(t *codeArgs)

//go:noescape
func streamQ6_Kx1AVX2(t *codeArgs)

//go:noescape
func streamQ6_Kx2AVX2(t *codeArgs)

//go:noescape
func packCodesAVX2(dst, sums *byte, x *float32, stride, steps int, constants *[5]float32, order *codeOrder)

//go:noescape
func packWordsAVX2(dst, sums *byte, x *float32, stride, steps int, constants *[5]float32, order *codeOrder)

//go:noescape
func packWords16AVX2(dst, sums *byte, x *float32, stride, steps int, constants *[5]float32, order *codeOrder)

// Kernels of the types whose panels are multiplied: with dot products of 64 bytes,
// of 32 bytes, and with AVX2 alone.
var (
	streamKernels = codeSet{
		tensor.Q4_1: {[]func(*codeArgs){streamQ4_1x1, streamQ4_1x2, streamQ4_1x3, streamQ4_1x4, streamQ4_1x6, streamQ4_1x8}, 15, 0, &quadOrder, 1, packCodes, []manyKernel{{8, streamQ4_1x1by8}, {4, streamQ4_1x1by4}, {2, streamQ4_1x1by2}}},
		tensor.Q4_0: {[]func(*codeArgs){streamQ4_0x1, streamQ4_0x2, streamQ4_0x3, streamQ4_0x4, streamQ4_0x6, streamQ4_0x8}, 15, -8, &quadOrder, 1, packCodes, []manyKernel{{8, streamQ4_0x1by8}, {4, streamQ4_0x1by4}, {2, streamQ4_0x1by2}}},
		tensor.Q8_0: {[]func(*codeArgs){streamQ8_0x1, streamQ8_0x2, streamQ8_0x3, streamQ8_0x4, streamQ8_0x6, streamQ8_0x8}, 128, -128, &naturalOrder, 1, packCodes, []manyKernel{{8, streamQ8_0x1by8}, {4, streamQ8_0x1by4}, {2, streamQ8_0x1by2}}},
		tensor.Q4_K: {[]func(*codeArgs){streamQ4_Kx1, streamQ4_Kx2, streamQ4_Kx3, streamQ4_Kx4, streamQ4_Kx6, streamQ4_Kx8}, 15, 0, &quadOrder, 1, packCodes, []manyKernel{{8, streamQ4_Kx1by8}, {4, streamQ4_Kx1by4}, {2, streamQ4_Kx1by2}}},
		tensor.Q6_K: {[]func(*codeArgs){streamQ6_Kx1, streamQ6_Kx2, streamQ6_Kx3, streamQ6_Kx4, streamQ6_Kx6, streamQ6_Kx8}, 15, -32, &quadOrder, 2, packCodes16, []manyKernel{{8, streamQ6_Kx1by8}, {4, streamQ6_Kx1by4}, {2, streamQ6_Kx1by2}}},
	}
	streamKernelsVEX = codeSet{
		tensor.Q4_1: {[]func(*codeArgs){streamQ4_1x1AVXVNNI, streamQ4_1x2AVXVNNI}, 15, 0, &quadOrder8, 1, packCodesAVX2, nil},
		tensor.Q4_0: {[]func(*codeArgs){streamQ4_0x1AVXVNNI, streamQ4_0x2AVXVNNI}, 15, -8, &quadOrder8, 1, packCodesAVX2, nil},
		tensor.Q4_K: {[]func(*codeArgs){streamQ4_Kx1AVXVNNI, streamQ4_Kx2AVXVNNI}, 15, 0, &quadOrder8, 1, packCodesAVX2, nil},
	}
	streamKernelsAVX2 = codeSet{
		tensor.Q4_1: {[]func(*codeArgs){streamQ4_1x1AVX2, streamQ4_1x2AVX2}, 15, 0, &quadOrder8, 1, packCodesAVX2, nil},
		tensor.Q4_0: {[]func(*codeArgs){streamQ4_0x1AVX2, streamQ4_0x2AVX2}, 15, -8, &quadOrder8, 1, packCodesAVX2, nil},
		tensor.Q8_0: {[]func(*codeArgs){streamQ8_0x1AVX2, streamQ8_0x2AVX2}, 128, -128, &wordOrder8, 1, packWordsAVX2, nil},
		tensor.Q4_K: {[]func(*codeArgs){streamQ4_Kx1AVX2, streamQ4_Kx2AVX2}, 15, 0, &quadOrder8, 1, packCodesAVX2, nil},
		tensor.Q6_K: {[]func(*codeArgs){streamQ6_Kx1AVX2, streamQ6_Kx2AVX2}, 15, -32, &quadWordOrder8, 2, packWords16AVX2, nil},
	}
)

// codeOrder says where each of 16 activations comes from. With AVX2 that is each
// of 8, and then how bytes that were packed in two halves come in order.
type codeOrder [16]uint32

// quadOrder is that of the nibbles of a panel, naturalOrder the file's own,
// wordOrder8 that of bytes that become words, and quadWordOrder8 that of nibbles
// that do.
var (
	quadOrder  = codeOrder{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}
	quadOrder8 = codeOrder{0, 4, 1, 5, 2, 6, 3, 7, 0, 4, 1, 5, 2, 6, 3, 7}
	wordOrder8 = codeOrder{0, 2, 1, 3, 4, 6, 5, 7}

	quadWordOrder8 = codeOrder{0, 1, 4, 5, 2, 3, 6, 7}
	naturalOrder   = codeOrder{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
)

// manyKernel multiplies one row with the panels of so many streams at once. Each stream is
// an equal part of the panels of a call.
type manyKernel struct {
	streams int
	run     func(*codeArgs)
}

// mostStreams is the most that a manyKernel has.
const mostStreams = 8

// CodeStreams is as how many streams RunCodes first reads panels of w for columns [n0,n1)
// of so many rows, and the bytes from one to the next.
func CodeStreams(w *Stored, rows, n0, n1 int) (streams, apart int) {
	kernel := codeKernelOf(w)
	if kernel == nil {
		return 1, 0
	}
	bytes := codes.PanelBytes(w.DType, w.K)
	many, panels := kernel.together(w, rows, n0, n1, bytes)
	if many == nil {
		return 1, 0
	}
	return many.streams, panels / many.streams * bytes
}

// longStream is the least that more than four streams have in a call, each: shorter ones
// cost more than they win.
const longStream = 16 << 10

// together is the kernel for several streams that multiplies columns of w from n0 on, and
// how many panels, of so many bytes, it does in a call; nil if each panel is multiplied
// alone.
func (k *codeKernel) together(w *Stored, rows, n0, n1, bytes int) (*manyKernel, int) {
	if rows != 1 || n0%codeGroup != 0 || len(k.many) == 0 {
		return nil, 0
	}
	most, left := codeBlocks/(w.K/codeLen), (n1-n0)/codeGroup
	for i := range k.many {
		n := k.many[i].streams
		each := max(1, min(left, most)/n)
		if left >= n && (n <= 4 || each*bytes >= longStream && n <= 4*most) {
			return &k.many[i], each * n
		}
	}
	return nil, 0
}

// stream is run for panels, which are multiplied whole.
func (s *CodeScratch) stream(t *CodeTask, n0, n1 int) {
	w, kernel := t.W, codeKernelOf(t.W)
	s.pack(t, kernel)
	s.setTables(0, kernel)
	steps, bytes := w.K/codeLen, codes.PanelBytes(w.DType, w.K)
	a := &s.args
	*a = codeArgs{steps: w.K / max(codeLen, w.DType.Info().BlockLen), tables: &s.table}
	for n := n0; n < n1; {
		first, panels := n/codeGroup, min((n1-n)/codeGroup, max(1, codeBlocks/steps))
		many, together := kernel.together(w, t.M, n, n1, bytes)
		if many != nil {
			panels = together
		}
		y, whole := t.C[n:], n%codeGroup == 0 && panels > 0
		a.strideY = t.LDC * 4
		if !whole { // a part of a panel
			panels = 1
			y, a.strideY = s.edge, codeGroup*4
		}
		from, end := first*codeGroup, min(n1, (first+panels)*codeGroup)
		a.bias, a.nextBias = &s.zeros[0], 0
		if t.Bias != nil {
			if a.bias, a.nextBias = &t.Bias[from], codeGroup*4; from+codeGroup > w.N {
				a.bias = &s.last[0]
				clear(s.last[copy(s.last[:], t.Bias[from:w.N]):])
			}
		}
		_ = w.Data[(first+panels)*bytes-1]
		a.w, a.groups = &w.Data[first*bytes], panels
		if many != nil {
			each := panels / many.streams
			if a.behind = (panels - each) * bytes; end == n1 && t.Next != nil {
				a.behind = int(uintptr(unsafe.Pointer(t.Next)) - uintptr(unsafe.Pointer(a.w)) - uintptr(each*bytes))
			}
			a.rowBytes, a.groups = each*bytes, each
			a.strideY, a.rows = each*codeGroup*4, each*a.nextBias
			a.x, a.y = &s.x[0], &y[0]
			many.run(a)
			n = end
			continue
		}
		for m := 0; m < t.M; m += kernel.most() {
			a.rows = min(kernel.most(), t.M-m)
			a.x, a.y = &s.x[s.chunk(w.K, kernel, m)], &y[m*a.strideY/4]
			kernel.run[codeSize(a.rows)](a)
		}
		if !whole {
			for m := range t.M {
				copy(t.C[m*t.LDC+n:m*t.LDC+end], s.edge[m*codeGroup+n-from:])
			}
		}
		n = end
	}
	*a = codeArgs{} // it keeps nobody's memory
}
