package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// minMACs is the share of a product below which a worker is not worth having.
const minMACs = 1 << 17

// rowChunk is how many rows of a product are finished before its epilogue
// passes over them, so that they are still in L2.
const rowChunk = 128

// productWidth bounds the workers of an m x n x k product by its work and by
// its panels.
func productWidth(m, n, k, nr, workers int) int {
	return max(1, min(workers, m*n*k/minMACs, (n+nr-1)/nr))
}

// linear is y = x w^T + bias, then an activation where one was fused.
type linear struct {
	*product
	x, y   mat
	bias   []float32
	act    func(dst, x []float32)
	direct bool // few rows multiply with the file's rows as they lie
	label  string
}

func bindLinear(b *binder, s *plan.Step) (kernel, error) {
	return newLinear(b, s.Nodes[0], s.Nodes[0].Out[0])
}

func bindLinearAct(b *binder, s *plan.Step) (kernel, error) {
	l, err := newLinear(b, s.Nodes[0], s.Root().Out[0])
	if err != nil {
		return nil, err
	}
	kind := s.Root().Attr.(graph.ActAttr).Kind
	l.act = activation(kind).apply
	l.label += "+" + kind.String()
	return l, nil
}

func newLinear(b *binder, n *graph.Node, out *graph.Value) (*linear, error) {
	ms, err := b.mats(n.In[0], out, n.In[2])
	if err != nil {
		return nil, err
	}
	p, err := newProduct(b, n.In[1])
	if err != nil {
		return nil, err
	}
	l := &linear{product: p, x: ms[0], y: ms[1], bias: ms[2].full, label: p.label}
	if l.direct = p.stored != nil && !b.invariant; l.direct {
		b.want(gemm.XSumsLen(l.k))
		if l.x.rows(b.plan.Max) <= gemm.FewRows { // then no other way is ever taken
			l.label, p.class = "rows f32 from "+p.stored.DType.String(), F32
		}
	}
	return l, nil
}

func (l *linear) name() string { return l.label }

func (l *linear) width(b tensor.Bind, n int) int {
	_, nr := l.tile()
	return productWidth(l.x.rows(b), l.n, l.k, nr, n)
}

func (l *linear) run(w *worker, b tensor.Bind, i, n int) {
	rows := l.x.rows(b)
	mr, nr := l.tile()
	panels := (l.n + nr - 1) / nr
	m0, m1, p0, p1 := 0, rows, 0, panels
	if l.cheap && rows >= 4*n*mr {
		m0, m1 = share(rows, mr, i, n)
	} else {
		p0, p1 = share(panels, 1, i, n)
	}
	c0, c1 := p0*nr, min(p1*nr, l.n)
	if l.direct && rows <= gemm.FewRows {
		l.few(w, rows, c0, c1)
		l.finish(0, rows, c0, c1)
		return
	}
	chunk := m1 - m0
	if l.cheap && l.act != nil {
		chunk = rowChunk
	}
	for m := m0; m < m1; m += chunk {
		end := min(m+chunk, m1)
		l.product.run(w, l.y.full, l.x.full, l.bias, rows, m, end, p0, p1)
		l.finish(m, end, c0, c1)
	}
}

// few multiplies some rows with weight rows [c0,c1) straight from the file.
func (l *linear) few(w *worker, rows, c0, c1 int) {
	if rows == 1 {
		x, sums := l.x.full[:l.k], w.scratch.f[:gemm.XSumsLen(l.k)]
		gemm.XSums(sums, x)
		gemm.GemvRows(l.y.full, l.stored, x, sums, c0, c1)
	} else {
		gemm.MulRows(l.y.full, l.n, l.stored, l.x.full, l.k, rows, c0, c1)
	}
	if l.bias == nil {
		return
	}
	for r := range rows {
		row := l.y.full[r*l.n+c0 : r*l.n+c1]
		vec.Add(row, row, l.bias[c0:c1])
	}
}

// finish applies the activation to a block of the result.
func (l *linear) finish(m0, m1, c0, c1 int) {
	if l.act == nil {
		return
	}
	for r := m0; r < m1; r++ {
		row := l.y.full[r*l.n+c0 : r*l.n+c1]
		l.act(row, row)
	}
}

// linearDX is dx = dy w: W[N,K] in its natural order is the B operand.
type linearDX struct {
	dy, dx mat
	w      gemm.Panels
	n, k   int
}

func bindLinearDX(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms, err := b.mats(n.In[0], n.Out[0])
	if err != nil {
		return nil, err
	}
	wv := n.In[1]
	k := &linearDX{dy: ms[0], dx: ms[1], n: wv.Shape.NumRows(tensor.Bind{}), k: wv.Shape.RowLen()}
	if w := b.weight(wv); w != nil {
		switch {
		case w.panels != nil:
			k.w = &gemm.Transposed{W: *w.panels}
			return k, nil
		case w.tiles != nil:
			m, err := b.f32(wv)
			k.w = &gemm.Natural{W: m.full, N: k.k, K: k.n, LD: k.k}
			return k, err
		}
		stored, err := gemm.NewStored(w.rows, w.dtype, k.n, k.k)
		k.w = &gemm.StoredT{W: stored}
		return k, err
	}
	m, err := b.f32(wv)
	k.w = &gemm.Natural{W: m.full, N: k.k, K: k.n, LD: k.k}
	return k, err
}

func (k *linearDX) name() string { return "gemm f32 dx" }
func (k *linearDX) width(b tensor.Bind, n int) int {
	return productWidth(k.dy.rows(b), k.k, k.n, gemm.NR(), n)
}
func (k *linearDX) run(w *worker, b tensor.Bind, i, n int) {
	rows := k.dy.rows(b)
	t := gemm.Task{M: rows, N: k.k, K: k.n, A: k.dy.full, LDA: k.n, B: k.w, C: k.dx.full, LDC: k.k}
	p0, p1 := share(gemm.NumPanels(k.k), 1, i, n)
	gemm.Run(&t, 0, rows, p0, p1, w.scratch.gemm)
}

// linearDW is dw[N,K] = dy^T x, summed over tokens in their order by the one
// worker that owns the tile: the same bits at any number of workers.
type linearDW struct {
	dy, x, dw mat
}

func bindLinearDW(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms, err := b.mats(n.In[0], n.In[1], n.Out[0])
	if err != nil {
		return nil, err
	}
	return &linearDW{dy: ms[0], x: ms[1], dw: ms[2]}, nil
}

func (k *linearDW) name() string { return "gemm f32 dw" }
func (k *linearDW) width(b tensor.Bind, n int) int {
	return productWidth(k.dy.cols, k.x.cols, k.dy.rows(b), gemm.NR(), n)
}
func (k *linearDW) run(w *worker, b tensor.Bind, i, n int) {
	rows := k.dy.rows(b)
	natural := &w.scratch.natural
	*natural = gemm.Natural{W: k.x.full, N: k.x.cols, K: rows, LD: k.x.cols}
	t := gemm.Task{M: k.dy.cols, N: k.x.cols, K: rows, A: k.dy.full, LDA: k.dy.cols, ATrans: true, B: natural, C: k.dw.full, LDC: k.x.cols}
	p0, p1 := share(gemm.NumPanels(k.x.cols), 1, i, n)
	gemm.Run(&t, 0, k.dy.cols, p0, p1, w.scratch.gemm)
}
