package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// addend is a value to which another is added in place.
type addend struct{ value, sum mat }

// newAddend binds the first operand of an add whose result a step computes; the
// zero value if n is nil.
func newAddend(b *binder, n *graph.Node) addend {
	if n == nil {
		return addend{}
	}
	ms := b.mats(n.In[0], n.Out[0])
	return addend{ms[0], ms[1]}
}

// put copies columns [c0,c1) of rows [m0,m1) to the place of the sum, unless they
// are already there. It reports whether there is a value to add to.
func (a *addend) put(m0, m1, c0, c1 int) bool {
	if !a.value.present() {
		return false
	}
	for m := m0; m < m1 && &a.value.full[0] != &a.sum.full[0]; m++ {
		copy(a.sum.row(m)[c0:c1], a.value.row(m)[c0:c1])
	}
	return true
}

// linearDX is dx = dy w: W[N,K] in its natural order is the B operand.
type linearDX struct {
	dy, dx  mat
	plus    addend
	w       gemm.Panels
	n, k    int
	scratch *perWorker[*gemm.Scratch]
}

// bindLinearDX binds dx alone, or an add of a value and dx.
func bindLinearDX(b *binder, s *plan.Step) (kernel, error) {
	n, out, plus := s.Nodes[0], s.Root().Out[0], newAddend(b, nil)
	if s.Root() != n {
		plus = newAddend(b, s.Root())
	}
	if b.choices(n)[0].Rule.Class != string(F32) { // dy times the transposed matrix
		l, err := newLinear(b, n, out, nil)
		if err != nil {
			return nil, err
		}
		l.label += " dx"
		l.plus = plus
		return l, nil
	}
	ms := b.mats(n.In[0], out)
	wv := n.In[1]
	k := &linearDX{dy: ms[0], dx: ms[1], plus: plus, n: wv.Shape.NumRows(tensor.Bind{}), k: wv.Shape.RowLen(), scratch: b.gemmScratch()}
	if w, ok := b.weight(wv).(*fileRows); ok {
		stored, err := gemm.NewStored(w.rows, w.dtype, k.n, k.k)
		k.w = &gemm.StoredT{W: stored}
		return k, err
	}
	k.w = &gemm.Natural{W: b.f32(wv).full, N: k.k, K: k.n, LD: k.k}
	if rows := k.dy.rows(b.plan.Max); isDeep(rows, k.k, k.n) {
		return newDeepDX(k, b.f32(wv).full, rows), nil
	}
	return k, nil
}

func (k *linearDX) name() string { return "gemm f32 dx" }
func (k *linearDX) width(b tensor.Bind, n int) int {
	return gridWidth(k.dy.rows(b), k.k, k.n, n)
}
func (k *linearDX) runShare(w *worker, b tensor.Bind, i, n int) {
	rows := k.dy.rows(b)
	m0, m1, p0, p1 := gridShare(rows, k.k, k.n, i, n)
	add := k.plus.put(m0, m1, p0*gemm.NR(), min(k.k, p1*gemm.NR()))
	t := gemm.Task{M: rows, N: k.k, K: k.n, A: k.dy.full, LDA: k.n, B: k.w, C: k.dx.full, LDC: k.k, Accumulate: add, Epoch: w.epoch}
	gemm.Run(&t, m0, m1, p0, p1, k.scratch.of[w.lane])
}

// deepPart is the depth of a part of a product that is cut by its depth, whatever
// the number of workers.
const deepPart = 2688

// isDeep reports whether the input gradient of a product with many outputs, such
// as a head over a vocabulary, is cut by depth. A grid of so few rows and columns
// would pack each operand many times.
func isDeep(rows, cols, depth int) bool {
	return depth >= 2*deepPart && rows <= 2*rowChunk && rows*cols*deepPart <= 2*maxMACs
}

// deepDX is linearDX by parts of the depth. Who is done last adds them up in their
// order, so any number of workers gives the same bits.
type deepDX struct {
	*linearDX
	w    []float32   // [n][k]
	sums [][]float32 // [part][rows][k]
	ends lastShare
}

func newDeepDX(k *linearDX, w []float32, rows int) *deepDX {
	d := &deepDX{linearDX: k, w: w, sums: make([][]float32, (k.n+deepPart-1)/deepPart)}
	for i := range d.sums {
		d.sums[i] = make([]float32, rows*k.k)
	}
	return d
}

func (k *deepDX) name() string               { return "gemm f32 dx by depth" }
func (k *deepDX) width(tensor.Bind, int) int { return len(k.sums) }

func (k *deepDX) runShare(w *worker, b tensor.Bind, i, n int) {
	rows := k.dy.rows(b)
	for part := i; part < len(k.sums); part += n {
		from := part * deepPart
		depth, natural := min(deepPart, k.n-from), &w.scratch.natural
		*natural = gemm.Natural{W: k.w[from*k.k:], N: k.k, K: depth, LD: k.k}
		t := gemm.Task{M: rows, N: k.k, K: depth, A: k.dy.full[from:], LDA: k.n, B: natural, C: k.sums[part], LDC: k.k}
		gemm.Run(&t, 0, rows, 0, gemm.NumPanels(k.k), k.scratch.of[w.lane])
	}
	if !k.ends.here(w.epoch, n) {
		return
	}
	add := k.plus.put(0, rows, 0, k.k)
	for r := range rows { // a row stays in L1
		dst := k.dx.row(r)
		for part, sum := range k.sums {
			if row := sum[r*k.k:][:k.k]; part == 0 && !add {
				copy(dst, row)
			} else {
				vec.Add(dst, dst, row)
			}
		}
	}
}
