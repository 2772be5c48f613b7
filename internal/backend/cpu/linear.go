package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// rowChunk is how many rows of a product are finished before its epilogue
// passes over them, so that they are still in L2.
const rowChunk = 128

// linear is y = x w^T + bias, then an activation where one was fused.
type linear struct {
	*product
	x     operand
	y     mat
	out   []uint16 // y in bf16 instead, where not nil
	bias  []float32
	act   func(dst, x []float32)
	round bf16.Act // the same for y in bf16
	inner []bool   // [way] it ends with the activation by itself
	plus  addend   // what the product is added to
	label string
}

func bindLinear(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	return newLinear(b, n, n.Out[0], n.In[2])
}

func bindLinearAct(b *binder, s *plan.Step) (kernel, error) {
	n := s.Core()[0]
	l, err := newLinear(b, n, s.Root().Out[0], n.In[2])
	if err != nil {
		return nil, err
	}
	kind := s.Root().Attr.(graph.ActAttr).Kind
	l.act, l.round = activation(kind).apply, roundActs[kind]
	for i := range l.ways {
		if w, ok := l.ways[i].way.(*i16Way); ok {
			l.inner[i] = w.endWith(kind)
		}
	}
	l.label += "+" + activationLabel(kind)
	return l, nil
}

// newLinear binds the product of node n, whose result ends as out; bias may be nil.
func newLinear(b *binder, n *graph.Node, out, bias *graph.Value) (*linear, error) {
	p, err := newProduct(b, n)
	if err != nil {
		return nil, err
	}
	x := b.operand(n.In[0])
	return &linear{product: p, x: x, y: b.f32(out), out: b.blocks(out), bias: b.f32(bias).full, inner: make([]bool, len(p.ways)), label: x.own.label(p.most().label())}, nil
}

func (l *linear) name() string { return l.label }

func (l *linear) width(b tensor.Bind, n int) int {
	rows := l.x.rows(b)
	return l.at(rows).split().width(rows, l.n, l.k, 1, n)
}

func (l *linear) run(w *worker, b tensor.Bind, i, n int) {
	rows := l.x.rows(b)
	at := l.index(rows)
	way := l.ways[at].way
	cut, x := way.split(), l.x.of(w, b, i)
	m0, m1, c0, c1 := cut.part(rows, l.n, i, n)
	if l.out != nil {
		way.(*bf16Way).round(w, l.out[m0*l.n:], task{x: x.from(m0), bias: l.bias, rows: m1 - m0}, l.round, gate{}, c0, c1)
		return
	}
	after := l.act != nil && !l.inner[at]
	chunk := max(1, m1-m0)
	if cut.cheap && after && cut.ownRows == 0 {
		chunk = rowChunk
	}
	for m := m0; m < m1; m += chunk {
		end := min(m+chunk, m1)
		add := l.plus.put(m, end, c0, c1)
		way.multiply(w, task{y: l.y.full[m*l.n:], x: x.from(m), bias: l.bias, rows: end - m, add: add}, c0, c1)
		if !after {
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
	x            operand
	y            mat
	out          []uint16 // y in bf16 instead, where not nil
	gBias, uBias []float32
	times        func(dst, x, u []float32)
	round        bf16.Act // the same for y in bf16
	label        string
}

func bindLinearGLU(b *binder, s *plan.Step) (kernel, error) {
	glu := s.Root()
	gn, un := glu.In[0].Node, glu.In[1].Node
	ms := b.mats(glu.Out[0], gn.In[2], un.In[2])
	l := &linearGLU{x: b.operand(gn.In[0]), y: ms[0], out: b.blocks(glu.Out[0]), gBias: ms[1].full, uBias: ms[2].full}
	var err error
	if l.gate, err = newProduct(b, gn); err != nil {
		return nil, err
	}
	if l.up, err = newProduct(b, un); err != nil {
		return nil, err
	}
	kind := glu.Attr.(graph.ActAttr).Kind
	l.times, l.round = activation(kind).times, roundActs[kind]
	l.label = l.x.own.label(kernelLabel(l.gate, l.up)) + "+glu " + activationLabel(kind)
	b.want(min(4*rowChunk, l.x.rows(b.plan.Max)) * l.gate.n)
	return l, nil
}

func (l *linearGLU) name() string { return l.label }

// split is that of both products for a number of rows.
func (l *linearGLU) split(rows int) split {
	return l.gate.at(rows).split().with(l.up.at(rows).split())
}

func (l *linearGLU) width(b tensor.Bind, n int) int {
	rows := l.x.rows(b)
	return l.split(rows).width(rows, l.gate.n, l.gate.k, 2, n)
}

func (l *linearGLU) run(w *worker, b tensor.Bind, i, n int) {
	all := l.x.rows(b)
	g, u, cut, in := l.gate.at(all), l.up.at(all), l.split(all), l.x.of(w, b, i)
	m0, m1, c0, c1 := cut.part(all, l.gate.n, i, n)
	if l.out != nil {
		g.(*bf16Way).round(w, l.out[m0*l.gate.n:], task{x: in.from(m0), bias: l.gBias, rows: m1 - m0}, l.round, gate{u.(*bf16Way), l.uBias}, c0, c1)
		return
	}
	// Few rows are finished together where they should stay close, many where a
	// panel must be built, or rows encoded, for each chunk.
	chunk := 4 * rowChunk
	if cut.cheap && cut.ownRows == 0 {
		chunk = rowChunk
	}
	for m := m0; m < m1; m += chunk {
		rows, n := min(chunk, m1-m), l.gate.n
		x, y := in.from(m), l.y.full[m*n:]
		tmp := w.scratch.f[:rows*n]
		g.multiply(w, task{y: y, x: x, bias: l.gBias, rows: rows}, c0, c1)
		u.multiply(w, task{y: tmp, x: x, bias: l.uBias, rows: rows}, c0, c1)
		for r := range rows {
			row := y[r*n+c0 : r*n+c1]
			l.times(row, row, tmp[r*n+c0:r*n+c1])
		}
	}
}

// addend is a value that another is added to where it lies.
type addend struct{ value, sum mat }

// newAddend binds the first operand of an add whose result a step makes; the
// zero value where n is nil.
func newAddend(b *binder, n *graph.Node) addend {
	if n == nil {
		return addend{}
	}
	ms := b.mats(n.In[0], n.Out[0])
	return addend{ms[0], ms[1]}
}

// put brings columns [c0,c1) of rows [m0,m1) to where the sum will be, unless
// they are there, and reports whether there is anything to add to.
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
	return k, nil
}

func (k *linearDX) name() string { return "gemm f32 dx" }
func (k *linearDX) width(b tensor.Bind, n int) int {
	return gridWidth(k.dy.rows(b), k.k, k.n, n)
}
func (k *linearDX) run(w *worker, b tensor.Bind, i, n int) {
	rows := k.dy.rows(b)
	m0, m1, p0, p1 := gridShare(rows, k.k, k.n, i, n)
	add := k.plus.put(m0, m1, p0*gemm.NR(), min(k.k, p1*gemm.NR()))
	t := gemm.Task{M: rows, N: k.k, K: k.n, A: k.dy.full, LDA: k.n, B: k.w, C: k.dx.full, LDC: k.k, Accumulate: add, Epoch: w.epoch}
	gemm.Run(&t, m0, m1, p0, p1, k.scratch.of[w.lane])
}

// gridWidth is the number of shares of a product of m rows, n columns and depth
// k whose operands are both packed while it runs. Each share packs its rows and
// its panels by itself, so shares are the cells of a grid (gridCut), and they are
// longer than other shares.
func gridWidth(m, n, k, workers int) int {
	shares := workers
	if long := m * n * k / (2 * maxMACs); long > workers {
		shares = (long + sharesEach - 1) / sharesEach * sharesEach // prime numbers make poor grids
	}
	return gridCells(m, n, k, max(1, min(shares, m*n*k/minMACs)))
}

// gridCells is the largest number of shares, up to a limit, that make a grid.
func gridCells(m, n, k, limit int) int {
	for ; limit > 1; limit-- {
		if rows, _ := gridCut(m, n, k, limit); rows > 0 {
			break
		}
	}
	return limit
}

// gridCut cuts a product into rows x cols shares. It weighs what all shares pack
// against the largest share, which the others may have to wait for, in
// multiplications: packing a value of A takes as long as 32, of B as long as 24.
// A worker that goes on with other columns of the same rows finds them packed,
// where its scratch holds them. rows is 0 where there are too few strips or panels
// for so many shares.
func gridCut(m, n, k, shares int) (rows, cols int) {
	mr, nr := gemm.MR(), gemm.NR()
	strips, panels := max(1, (m+mr-1)/mr), max(1, gemm.NumPanels(n))
	least := 0
	for r := 1; r <= min(shares, strips); r++ {
		c := shares / r
		if r*c != shares || c > panels {
			continue
		}
		high := (strips + r - 1) / r * mr
		packs := c // of the rows
		if gemm.Holds(high, k) {
			packs = (c + sharesEach - 1) / sharesEach
		}
		largest := high * ((panels + c - 1) / c) * nr
		if cost := 32*m*packs + 24*n*r + largest; rows == 0 || cost < least {
			rows, cols, least = r, c, cost
		}
	}
	return rows, cols
}

// gridShare is share i: rows [m0,m1) of panels [p0,p1). Shares of the same rows
// follow each other. Of a number of shares that makes no grid the last have
// nothing.
func gridShare(m, n, k, i, shares int) (m0, m1, p0, p1 int) {
	cells := gridCells(m, n, k, shares)
	if i >= cells {
		return 0, 0, 0, 0
	}
	rows, cols := gridCut(m, n, k, cells)
	m0, m1 = share(m, gemm.MR(), i/cols, rows)
	p0, p1 = share(gemm.NumPanels(n), 1, i%cols, cols)
	return m0, m1, p0, p1
}
