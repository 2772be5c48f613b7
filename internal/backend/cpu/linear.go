package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/i16"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// minMACs is the share of a product below which a worker is not worth having.
const minMACs = 1 << 17

// maxMACs is the share beyond which a product is cut further, for one worker
// too: who cancels waits for a share, and this one takes some ten milliseconds
// on a slow core.
const maxMACs = 1 << 28

// rowChunk is how many rows of a product are finished before its epilogue
// passes over them, so that they are still in L2.
const rowChunk = 128

// productWidth bounds the workers of an m x n x k product by its work and by
// its panels.
func productWidth(m, n, k, nr, workers int) int {
	return max(1, min(max(workers, m*n*k/maxMACs), m*n*k/minMACs, (n+nr-1)/nr))
}

// minWeights is how many weights a share of few rows has on tiles: it waits for
// them from beyond L2, and starts anew with every share.
const minWeights = 1 << 17

// sharesFor is how many of shares a product of m rows and n columns is worth:
// one a worker, and more where there are rows or weights enough.
func (p *product) sharesFor(m, n, shares int) int {
	if !p.cheap || !p.onTiles() || m > bf16.MR {
		return shares
	}
	return min(shares, max(shares/sharesEach, n*p.k/minWeights))
}

// tallWidth is productWidth of a product of few panels that may be long, as the
// gradients of a head over a vocabulary are: they are cut across then.
func tallWidth(m, n, k, workers int) int {
	panels := gemm.NumPanels(n)
	if across := m * n * k / panels / maxMACs; across > 1 {
		return panels * min(across, (m+gemm.MR()-1)/gemm.MR())
	}
	return productWidth(m, n, k, gemm.NR(), workers)
}

// tallShare is share i of w that tallWidth gave: rows [m0,m1) of panels [p0,p1).
func tallShare(m, n, i, w int) (m0, m1, p0, p1 int) {
	panels := gemm.NumPanels(n)
	if w <= panels {
		p0, p1 = share(panels, 1, i, w)
		return 0, m, p0, p1
	}
	across := w / panels
	m0, m1 = share(m, gemm.MR(), i%across, across)
	return m0, m1, i / across, i/across + 1
}

// linear is y = x w^T + bias, then an activation where one was fused.
type linear struct {
	*product
	x, y   mat
	xh, yh half // x and y, where they are kept in bf16
	bias   []float32
	act    func(dst, x []float32)
	round  bf16.Act // the same for y in bf16
	direct bool     // few rows multiply with the file's rows as they lie
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
	l.act, l.round = activation(kind).apply, roundActs[kind]
	if l.class == I16G32 {
		l.product.act = pairActs[kind]
	}
	l.label += "+" + activationLabel(kind)
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
	l := &linear{product: p, x: ms[0], y: ms[1], bias: ms[2].full}
	l.xh, l.yh = b.half(n.In[0], l.x), b.half(out, l.y)
	l.direct = b.direct(p, l.x)
	l.label = p.label
	return l, nil
}

func (l *linear) name() string { return l.label }

func (l *linear) width(b tensor.Bind, n int) int {
	_, nr := l.tile()
	return l.product.width(l.x.rows(b), l.n, 1, nr, n)
}

func (l *linear) run(w *worker, b tensor.Bind, i, n int) {
	rows := l.x.rows(b)
	mr, nr := l.tile()
	m0, m1, c0, c1 := l.part(rows, l.n, mr, nr, l.cheap, i, n)
	if l.yh.in(rows) {
		x := l.x.factor(l.xh, b, m0)
		t := bf16.RoundedTask{M: m1 - m0, N: l.n, K: l.k, A: x.f32, Rounded: x.half, LDA: l.k, Epoch: w.epoch,
			B: l.bf16[w.lane], Bias: l.bias, Act: l.round, Out: l.yh.bits[m0*l.n:]}
		bf16.RunRounded(&t, 0, t.M, c0/nr, (c1+nr-1)/nr, w.scratch.tiles)
		return
	}
	few := l.isFew(rows, l.direct)
	chunk := max(1, m1-m0)
	if l.cheap && l.act != nil && l.class != I16G32 {
		chunk = rowChunk
	}
	for m := m0; m < m1; m += chunk {
		end := min(m+chunk, m1)
		l.multiply(w, l.y.full[m*l.n:], l.x.factor(l.xh, b, m), l.bias, end-m, c0, c1, few)
		if l.act == nil || l.product.act != i16.Plain && !few {
			continue
		}
		for r := m; r < end; r++ {
			row := l.y.full[r*l.n+c0 : r*l.n+c1]
			l.act(row, row)
		}
	}
}

// linearGLU is y = act(x gate^T) * (x up^T): both products of a block of rows
// are finished while it is in L2.
type linearGLU struct {
	gate, up     *product
	x, y         mat
	xh, yh       half // x and y, where they are kept in bf16
	gBias, uBias []float32
	times        func(dst, x, u []float32)
	round        bf16.Act // the same for y in bf16
	direct       bool
	label        string
}

func bindLinearGLU(b *binder, s *plan.Step) (kernel, error) {
	glu := s.Root()
	gn, un := glu.In[0].Node, glu.In[1].Node
	ms, err := b.mats(gn.In[0], glu.Out[0], gn.In[2], un.In[2])
	if err != nil {
		return nil, err
	}
	l := &linearGLU{x: ms[0], y: ms[1], gBias: ms[2].full, uBias: ms[3].full}
	if l.gate, err = newProduct(b, gn.In[1]); err != nil {
		return nil, err
	}
	if l.up, err = newProduct(b, un.In[1]); err != nil {
		return nil, err
	}
	l.gate.own = max(l.gate.own, l.up.own) // which is asked for both
	kind := glu.Attr.(graph.ActAttr).Kind
	l.times, l.round = activation(kind).times, roundActs[kind]
	l.xh, l.yh = b.half(gn.In[0], l.x), b.half(glu.Out[0], l.y)
	l.direct = b.direct(l.gate, l.x) && b.direct(l.up, l.x)
	l.label = l.gate.label + " x2+glu " + activationLabel(kind)
	b.want(min(l.chunk(), l.x.rows(b.plan.Max)) * l.gate.n)
	return l, nil
}

func (l *linearGLU) name() string            { return l.label }
func (l *linearGLU) computeClass() Precision { return l.gate.class }

// tile is a block that is whole in both products.
func (l *linearGLU) tile() (mr, nr int) {
	gm, gn := l.gate.tile()
	um, un := l.up.tile()
	return max(gm, um), max(gn, un)
}

func (l *linearGLU) width(b tensor.Bind, n int) int {
	_, nr := l.tile()
	return l.gate.width(l.x.rows(b), l.gate.n, 2, nr, n)
}

// chunk is how many rows are finished together: few where they should stay
// close, many where a panel must be built, or codes of rows made, for each chunk.
func (l *linearGLU) chunk() int {
	if l.gate.cheap && l.up.cheap && l.gate.class != I16G32 {
		return rowChunk
	}
	return 4 * rowChunk
}

func (l *linearGLU) run(w *worker, b tensor.Bind, i, n int) {
	g, all := l.gate, l.x.rows(b)
	mr, nr := l.tile()
	m0, m1, c0, c1 := g.part(all, g.n, mr, nr, g.cheap && l.up.cheap, i, n)
	if l.yh.in(all) {
		x := l.x.factor(l.xh, b, m0)
		t := bf16.RoundedTask{M: m1 - m0, N: g.n, K: g.k, A: x.f32, Rounded: x.half, LDA: g.k, Epoch: w.epoch,
			B: g.bf16[w.lane], B2: l.up.bf16[w.lane], Bias: l.gBias, Bias2: l.uBias, Act: l.round, Out: l.yh.bits[m0*g.n:]}
		bf16.RunRounded(&t, 0, t.M, c0/nr, (c1+nr-1)/nr, w.scratch.tiles)
		return
	}
	chunk := l.chunk()
	for m := m0; m < m1; m += chunk {
		rows := min(chunk, m1-m)
		x, y := l.x.factor(l.xh, b, m), l.y.full[m*g.n:]
		tmp := w.scratch.f[:rows*g.n]
		g.multiply(w, y, x, l.gBias, rows, c0, c1, g.isFew(all, l.direct))
		l.up.multiply(w, tmp, x, l.uBias, rows, c0, c1, l.up.isFew(all, l.direct))
		for r := range rows {
			row := y[r*g.n+c0 : r*g.n+c1]
			l.times(row, row, tmp[r*g.n+c0:r*g.n+c1])
		}
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
		case w.rows == nil:
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
	return tallWidth(k.dy.rows(b), k.k, k.n, n)
}
func (k *linearDX) run(w *worker, b tensor.Bind, i, n int) {
	rows := k.dy.rows(b)
	t := gemm.Task{M: rows, N: k.k, K: k.n, A: k.dy.full, LDA: k.n, B: k.w, C: k.dx.full, LDC: k.k}
	m0, m1, p0, p1 := tallShare(rows, k.k, i, n)
	gemm.Run(&t, m0, m1, p0, p1, w.scratch.gemm)
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
	return tallWidth(k.dy.cols, k.x.cols, k.dy.rows(b), n)
}
func (k *linearDW) run(w *worker, b tensor.Bind, i, n int) {
	rows := k.dy.rows(b)
	natural := &w.scratch.natural
	*natural = gemm.Natural{W: k.x.full, N: k.x.cols, K: rows, LD: k.x.cols}
	t := gemm.Task{M: k.dy.cols, N: k.x.cols, K: rows, A: k.dy.full, LDA: k.dy.cols, ATrans: true, B: natural, C: k.dw.full, LDC: k.x.cols}
	m0, m1, p0, p1 := tallShare(k.dy.cols, k.x.cols, i, n)
	gemm.Run(&t, m0, m1, p0, p1, w.scratch.gemm)
}
