package bf16

import (
	"unsafe"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

//go:noescape
func panelQ4_0(t *panelArgs)

//go:noescape
func panelQ4_1(t *panelArgs)

//go:noescape
func panelQ8_0(t *panelArgs)

//go:noescape
func panelQ4_K(t *panelArgs)

//go:noescape
func panelQ6_K(t *panelArgs)

//go:noescape
func packLines(dst *uint16, src *float32, lds, steps, rows int, order *fewOrder)

//go:noescape
func sumLines(cfg *[64]byte, sums *float32, x *uint16, steps, next, turn int, ones *[31]uint32, out *float32)

// panelKernel is how the codes of one type become tiles.
type panelKernel struct {
	run    func(*panelArgs)
	order  *fewOrder   // of the columns in tiles; rows in it lie one behind the other
	offset float32     // of the numbers in tiles from those that codes stand for, times -1
	depth  int         // columns that share a scale
	factor float32     // by which numbers in tiles are larger than those, inverted; 0: they are not
	tables *halfTables // of a kernel for tiles of f16
}

var panelKernels = map[tensor.DType]*panelKernel{
	tensor.Q4_0: {panelQ4_0, &inOrder, -136, kStep, 0, nil},
	tensor.Q4_1: {panelQ4_1, &inOrder, -128, kStep, 0, nil},
	tensor.Q8_0: {panelQ8_0, &everySecond, -129, kStep, 0x1p-17, nil},
	tensor.Q4_K: {panelQ4_K, &inOrder, -128, kStep, 0, nil},
	tensor.Q6_K: {panelQ6_K, &inHalves, -160, kStep / 2, 0, nil},
}

// inOrder keeps the order of values, and so does inHalves, which has other sums;
// everySecond has values 0 and 2 of four before 1 and 3.
var inOrder, inHalves, everySecond = func() (plain, halves, second fewOrder) {
	for i := range plain {
		plain[i], second[i] = uint16(i), uint16(i&^3|i&1<<1|i>>1&1)
	}
	return plain, plain, second
}()

// panelBlocks bounds the blocks of 16 weight rows and 32 columns of one assembly
// call, which then takes well under 100 us. Only a call with a single panel, or with
// four on tiles of f16, may have more.
const panelBlocks = 1024

// panelsAtOnce is the largest number of panels of one assembly call. Kernels for
// tiles of f16 ask for weights in groups of four panels, so that a call with fewer
// would leave weights of the next call unasked for.
func (k *panelKernel) panelsAtOnce(steps int) int {
	if k.tables != nil {
		return max(4, panelBlocks/steps&^3)
	}
	return max(1, panelBlocks/steps)
}

// panelConfigs are tile configurations by columns that share a scale, 16 or 32,
// and by rows of activations: tiles 0 to 3 are products, 4 and 5 activations, 6
// and 7 weights.
var panelConfigs = func() (cs [3][FewRows + 1][64]byte) {
	for half := 1; half <= 2; half++ {
		for rows := 1; rows <= FewRows; rows++ {
			c := &cs[half][rows]
			c[0] = 1 // palette
			for t := range 8 {
				c[16+2*t], c[48+t] = 64, byte(rows) // bytes a row, rows
				switch {
				case t >= 6:
					c[48+t] = byte(8 * half)
				case t >= 4:
					c[16+2*t] = byte(32 * half)
				}
			}
		}
	}
	return cs
}()

// panelOnes is a pair of ones between 15 pairs of zeros on either side.
var panelOnes = [31]uint32{15: 0x3f803f80}

// runPanels is run for weights in panels of codes.
func (s *FewScratch) runPanels(t *FewTask, n0, n1 int) {
	w, f := t.W, &s.panels
	kernel := panelKernels[w.DType]
	if half := halfKernels[w.DType]; half != nil && w.Halves && isa.Active() >= isa.AMXFP16 {
		kernel = half
	}
	s.packLines(t, kernel)
	steps, size := w.K/kStep, codes.PanelBytes(w.DType, w.K)
	a := &f.args
	*a = panelArgs{cfg: &panelConfigs[kernel.depth/16][t.M], x: &s.x[0], sums: &f.sums[0], steps: steps, m: t.M, mem: f.mem, offset: kernel.offset, factor: kernel.factor, tables: kernel.tables, size: size}
	for n := n0; n < n1; {
		p, panels := n/codes.Rows, min((n1-n)/codes.Rows, kernel.panelsAtOnce(steps))
		first := p * codes.Rows
		a.y, a.strideY, a.bias, a.nextBias = &s.edge[0], codes.Rows*4, &f.bias[0], 0
		if n == first && panels > 0 {
			a.y, a.strideY = &t.C[n], t.LDC*4
			if t.Bias != nil {
				a.bias, a.nextBias = &t.Bias[n], codes.Rows*4
			}
		} else if panels = 1; t.Bias != nil {
			copy(f.bias, t.Bias[first:])
		}
		_ = w.Data[(p+panels)*size-1]
		a.w, a.total = &w.Data[p*size], panels*steps
		if a.after = uintptr(unsafe.Pointer(a.w)) + uintptr(panels*size); t.Next != nil && n+panels*codes.Rows >= n1 {
			a.after = uintptr(unsafe.Pointer(t.Next))
		}
		kernel.run(a)
		end := min(n1, first+panels*codes.Rows)
		if a.y == &s.edge[0] {
			clear(f.bias)
			for m := range t.M {
				copy(t.C[m*t.LDC+n:m*t.LDC+end], s.edge[m*codes.Rows+n-first:])
			}
		}
		n = end
	}
	*a = panelArgs{} // it keeps nobody's memory
}

// packLines leaves the rows of A and their sums in the scratch, unless they are
// there already.
func (s *FewScratch) packLines(t *FewTask, kernel *panelKernel) {
	k := t.W.K
	if s.holds(t, kernel.order) {
		return
	}
	if kernel.tables != nil {
		packHalves(&s.x[0], &t.A[0], t.LDA*4, k/kStep, t.M, kernel.order, &s.panels.sums[0])
		s.keep(t, kernel.order)
		return
	}
	packLines(&s.x[0], &t.A[0], t.LDA*4, k/kStep, t.M, kernel.order)
	next, turn := FewRows*kStep*2, 0
	if kernel.depth < kStep {
		next, turn = kStep, kStep^(next-kStep) // the other half of 64 bytes, then the next step
	}
	sumLines(&panelConfigs[kernel.depth/16][t.M], &s.panels.sums[0], &s.x[0], k/kernel.depth, next, turn, &panelOnes, &s.panels.mem.out[0][0][0])
	s.keep(t, kernel.order)
}
