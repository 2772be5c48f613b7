package bf16

import (
	"hotpath/internal/kernel/codes"
	"hotpath/internal/tensor"
)

//go:noescape
func codedQ4_0(t *codedArgs)

//go:noescape
func codedQ4_1(t *codedArgs)

//go:noescape
func packCoded(dst *uint16, src *float32, lds, steps, rows int, order *fewOrder)

//go:noescape
func sumCoded(cfg *[64]byte, sums *float32, x *uint16, steps int, ones *[31]uint32, out *float32)

//go:noescape
func codedQ8_0(t *codedArgs)

// codedKernel is how the codes of one type become tiles.
type codedKernel struct {
	run    func(*codedArgs)
	order  *fewOrder // of the columns in tiles
	offset float32   // of the numbers in tiles from those that codes stand for, times -1
}

var codedKernels = map[tensor.DType]*codedKernel{
	tensor.Q4_0: {codedQ4_0, &natural, -136},
	tensor.Q4_1: {codedQ4_1, &natural, -128},
	tensor.Q8_0: {codedQ8_0, &everySecond, -512},
}

// everySecond has values 0 and 2 of four before 1 and 3.
var everySecond = func() (o fewOrder) {
	for i := range o {
		o[i] = uint16(i&^3 | i&1<<1 | i>>1&1)
	}
	return o
}()

func directCoded(d tensor.DType) bool { return codedKernels[d] != nil }

// codedBlocks bounds the blocks of 16 weight rows and 32 columns of one assembly
// call, which then takes well under 100 us.
const codedBlocks = 1024

// codedConfigs are tile configurations by rows of activations: tiles 0 to 3 are
// products, 4 and 5 activations, 6 and 7 weights.
var codedConfigs = func() (cs [FewRows + 1][64]byte) {
	for rows := 1; rows <= FewRows; rows++ {
		c := &cs[rows]
		c[0] = 1 // palette
		for t := range 8 {
			c[16+2*t], c[48+t] = 64, byte(rows) // bytes a row, rows
			if t >= 6 {
				c[48+t] = 16
			}
		}
	}
	return cs
}()

// codedOnes is a pair of ones between 15 pairs of zeros on either side.
var codedOnes = [31]uint32{15: 0x3f803f80}

func (s *CodedScratch) run(t *CodedTask, n0, n1 int) {
	w := t.W
	kernel := codedKernels[w.DType]
	s.pack(t, kernel)
	steps, size := w.K/kStep, codes.PanelBytes(w.DType, w.K)
	a := &s.args
	*a = codedArgs{cfg: &codedConfigs[t.M], x: &s.x[0], sums: &s.sums[0], steps: steps, m: t.M, mem: s.mem, offset: kernel.offset}
	for n := n0; n < n1; {
		p, panels := n/codes.Rows, min((n1-n)/codes.Rows, max(1, codedBlocks/steps))
		first := p * codes.Rows
		a.y, a.strideY, a.bias, a.nextBias = &s.edge[0], codes.Rows*4, &s.bias[0], 0
		if n == first && panels > 0 {
			a.y, a.strideY = &t.C[n], t.LDC*4
			if t.Bias != nil {
				a.bias, a.nextBias = &t.Bias[n], codes.Rows*4
			}
		} else if panels = 1; t.Bias != nil {
			copy(s.bias, t.Bias[first:])
		}
		_ = w.Data[(p+panels)*size-1]
		a.w, a.total = &w.Data[p*size], panels*steps
		kernel.run(a)
		end := min(n1, first+panels*codes.Rows)
		if a.y == &s.edge[0] {
			clear(s.bias)
			for m := range t.M {
				copy(t.C[m*t.LDC+n:m*t.LDC+end], s.edge[m*codes.Rows+n-first:])
			}
		}
		n = end
	}
	*a = codedArgs{} // it keeps nobody's memory
}

// pack leaves the rows of A in the scratch, unless they are there already.
func (s *CodedScratch) pack(t *CodedTask, kernel *codedKernel) {
	k := t.W.K
	if t.Epoch != 0 && s.of == &t.A[0] && s.epoch == t.Epoch && s.m == t.M && s.k == k && s.order == kernel.order {
		return
	}
	packCoded(&s.x[0], &t.A[0], t.LDA*4, k/kStep, t.M, kernel.order)
	sumCoded(&codedConfigs[t.M], &s.sums[0], &s.x[0], k/kStep, &codedOnes, &s.mem.out[0][0][0])
	s.of, s.epoch, s.m, s.k, s.order = &t.A[0], t.Epoch, t.M, k, kernel.order
}
