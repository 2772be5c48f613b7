package gemm

import (
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

// streamKernels are the types whose panels are multiplied.
var streamKernels = map[tensor.DType]*codeKernel{
	tensor.Q4_1: {[...]func(*codeArgs){streamQ4_1x1, streamQ4_1x2, streamQ4_1x3, streamQ4_1x4, streamQ4_1x6, streamQ4_1x8}, 15, 0, &quadOrder},
	tensor.Q4_0: {[...]func(*codeArgs){streamQ4_0x1, streamQ4_0x2, streamQ4_0x3, streamQ4_0x4, streamQ4_0x6, streamQ4_0x8}, 15, -8, &quadOrder},
	tensor.Q8_0: {[...]func(*codeArgs){streamQ8_0x1, streamQ8_0x2, streamQ8_0x3, streamQ8_0x4, streamQ8_0x6, streamQ8_0x8}, 128, -128, &naturalOrder},
}

// codeOrder says where each of 16 activations comes from.
type codeOrder [16]uint32

// quadOrder is that of the nibbles of a panel, naturalOrder the file's own.
var (
	quadOrder    = codeOrder{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}
	naturalOrder = codeOrder{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
)

// stream is run for panels, which are multiplied whole.
func (s *CodeScratch) stream(t *CodeTask, n0, n1 int) {
	w, kernel, size := t.W, streamKernels[t.W.DType], codeSize(t.M)
	s.pack(t, codeSizes[size], kernel.order)
	s.setTables(0, kernel)
	steps, bytes := w.K/codeLen, codes.PanelBytes(w.DType, w.K)
	a := &s.args
	*a = codeArgs{x: &s.x[0], steps: steps, rows: t.M, tables: &s.table}
	for n := n0; n < n1; {
		first, panels := n/codeGroup, min((n1-n)/codeGroup, max(1, codeBlocks/steps))
		whole := n%codeGroup == 0 && panels > 0
		if whole {
			a.y, a.strideY = &t.C[n], t.LDC*4
		} else { // a part of a panel
			panels = 1
			a.y, a.strideY = &s.edge[0], codeGroup*4
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
		kernel.run[size](a)
		if !whole {
			for m := range t.M {
				copy(t.C[m*t.LDC+n:m*t.LDC+end], s.edge[m*codeGroup+n-from:])
			}
		}
		n = end
	}
	*a = codeArgs{} // it keeps nobody's memory
}
