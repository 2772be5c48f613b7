package bf16

import (
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

//go:noescape
func fewQ4_1(t *fewArgs)

//go:noescape
func fewQ4_0(t *fewArgs)

//go:noescape
func fewQ8_0(t *fewArgs)

//go:noescape
func fewF16(t *fewArgs)

//go:noescape
func fewF32(t *fewArgs)

//go:noescape
func fewBF16(t *fewArgs)

//go:noescape
func packFew(dst *uint16, rows *[16]*float32, steps int, order *fewOrder)

// natural keeps the order of values; byNibble is the one in which codes of 4
// bits come out of 16 bytes.
var natural, byNibble = func() (plain, nibbles fewOrder) {
	for i := range 8 {
		for lane, at := range []int{0, 1, 16, 17} {
			nibbles[8*lane+i] = uint16(at + 2*i)
		}
	}
	for i := range plain {
		plain[i] = uint16(i)
	}
	return plain, nibbles
}()

// fewKernel is how weights of one type are decoded.
type fewKernel struct {
	run   func(*fewArgs)
	order *fewOrder
	codes func(q int) float32 // what a code of 4 bits stands for, times the scale
}

// fewKernels are the types that are decoded on the way into tiles.
var fewKernels = map[tensor.DType]*fewKernel{
	tensor.Q4_1:   {fewQ4_1, &byNibble, func(q int) float32 { return float32(q) }},
	tensor.Q4_0:   {fewQ4_0, &byNibble, func(q int) float32 { return float32(q - 8) }},
	tensor.IQ4_NL: {fewQ4_0, &byNibble, tensor.LevelIQ4_NL},
	tensor.Q8_0:   {fewQ8_0, &natural, nil},
	tensor.F16:    {fewF16, &natural, nil},
	tensor.F32:    {fewF32, &natural, nil},
	tensor.BF16:   {fewBF16, &natural, nil},
}

func directFew(w *gemm.Stored) bool {
	if w.InPanels {
		return panelKernels[w.DType] != nil
	}
	return fewKernels[w.DType] != nil
}

// fewBlocks bounds the blocks of 16 weight rows and 32 columns of one assembly
// call, which then takes well under 100 us.
const fewBlocks = 512

func (s *FewScratch) multiplyFew(t *FewTask, n0, n1 int) {
	w := t.W
	kernel := fewKernels[w.DType]
	s.pack(t, kernel.order)
	steps := w.K / kStep
	s.setTables(w.RowBytes, kernel)
	a := &s.args
	*a = fewArgs{cfg: &configs[fewGroup], x: &s.x[0], steps: steps, strideY: t.LDC * 4, rows: t.M, mem: s.mem, tables: &s.tables}
	for n := n0; n < n1; {
		groups := min((n1-n)/fewGroup, max(1, fewBlocks/steps))
		if groups == 0 {
			s.tail(t, kernel, n, n1)
			break
		}
		a.y = &t.C[n]
		a.bias, a.nextBias = &s.zeros[0], 0
		if t.Bias != nil {
			a.bias, a.nextBias = &t.Bias[n], fewGroup*4
		}
		s.multiply(w, kernel, n, groups)
		n += groups * fewGroup
	}
	*a = fewArgs{} // it keeps nobody's memory
}

// pack leaves the rows of A in the scratch, unless they are there already.
func (s *FewScratch) pack(t *FewTask, order *fewOrder) {
	if s.holds(t, order) {
		return
	}
	for r := range s.rows {
		s.rows[r] = &s.zeros[0]
		if r < t.M {
			s.rows[r] = &t.A[r*t.LDA]
		}
	}
	packFew(&s.x[0], &s.rows, t.W.K/kStep, order)
	s.keep(t, order)
}

// holds reports whether x has the rows of A in an order; keep says so.
func (s *FewScratch) holds(t *FewTask, order *fewOrder) bool {
	return t.Epoch != 0 && s.of == &t.A[0] && s.epoch == t.Epoch && s.m == t.M && s.k == t.W.K && s.order == order
}

func (s *FewScratch) keep(t *FewTask, order *fewOrder) {
	s.of, s.epoch, s.m, s.k, s.order = &t.A[0], t.Epoch, t.M, t.W.K, order
}

// setTables makes the constants of a kernel.
func (s *FewScratch) setTables(rowBytes int, kernel *fewKernel) {
	c := &s.tables
	for r := range c.offsets {
		c.offsets[r] = int32(r * rowBytes)
		c.split[r], c.split[16+r] = uint16(2*r), uint16(2*r+1)
		if kernel.codes != nil {
			c.codes[r] = kernel.codes(r)
		}
	}
	for i := range c.shifts {
		c.shifts[i] = [4]uint16{0, 8, 4, 12}[i/8]
		c.mask[i], c.second[i] = 15, 16
	}
}

// multiply makes groups of columns from n on.
func (s *FewScratch) multiply(w *gemm.Stored, kernel *fewKernel, n, groups int) {
	a := &s.args
	_ = w.Data[(n+groups*fewGroup)*w.RowBytes-1]
	a.w, a.rowBytes, a.groups = &w.Data[n*w.RowBytes], w.RowBytes, groups
	kernel.run(a)
}

// tail makes columns [n,n1), fewer than a group, as a part of a whole one.
func (s *FewScratch) tail(t *FewTask, kernel *fewKernel, n, n1 int) {
	a, from := &s.args, max(0, n1-fewGroup)
	a.y, a.strideY = &s.edge[0], fewGroup*4
	a.bias, a.nextBias = &s.zeros[0], 0
	if t.Bias != nil {
		a.bias = &t.Bias[from]
	}
	s.multiply(t.W, kernel, from, 1)
	for m := range t.M {
		copy(t.C[m*t.LDC+n:m*t.LDC+n1], s.edge[m*fewGroup+n-from:])
	}
}
