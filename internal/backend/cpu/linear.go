package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// rowChunk is how many rows of a product are finished before its epilogue
// passes over them, so that they are still in L2.
const rowChunk = 128

// linear is y = x w^T + bias, followed by the fused activation, if any.
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

// newLinear binds the product of node n, with the final result out; bias may be
// nil.
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
	return l.x.cut(l.at(rows).split()).width(rows, l.n, l.k, 1, n)
}

func (l *linear) grains(b tensor.Bind) (shares int, c claims) {
	return l.x.cut(l.at(l.x.rows(b)).split()).grains(l.n, l.k, 1)
}

func (l *linear) runShare(w *worker, b tensor.Bind, i, n int) { l.runShares(w, b, i, i+1, n) }

func (l *linear) runShares(w *worker, b tensor.Bind, i, j, n int) {
	rows := l.x.rows(b)
	at := l.index(rows)
	way := l.ways[at].way
	cut, x := l.x.cut(way.split()), l.x.of(w, b, i)
	m0, m1, c0, c1 := cut.span(rows, l.n, i, j, n)
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
	return l.x.cut(l.gate.at(rows).split()).with(l.x.cut(l.up.at(rows).split()))
}

func (l *linearGLU) width(b tensor.Bind, n int) int {
	rows := l.x.rows(b)
	return l.split(rows).width(rows, l.gate.n, l.gate.k, 2, n)
}

func (l *linearGLU) grains(b tensor.Bind) (shares int, c claims) {
	return l.split(l.x.rows(b)).grains(l.gate.n, l.gate.k, 2)
}

func (l *linearGLU) runShare(w *worker, b tensor.Bind, i, n int) { l.runShares(w, b, i, i+1, n) }

func (l *linearGLU) runShares(w *worker, b tensor.Bind, i, j, n int) {
	all := l.x.rows(b)
	g, u, cut, in := l.gate.at(all), l.up.at(all), l.split(all), l.x.of(w, b, i)
	m0, m1, c0, c1 := cut.span(all, l.gate.n, i, j, n)
	if l.out != nil {
		g.(*bf16Way).round(w, l.out[m0*l.gate.n:], task{x: in.from(m0), bias: l.gBias, rows: m1 - m0}, l.round, gate{u.(*bf16Way), l.uBias}, c0, c1)
		return
	}
	// Chunks are small if rows should stay in the cache until they are finished,
	// and large if each chunk must build a panel or encode rows.
	chunk := 4 * rowChunk
	if cut.cheap && cut.ownRows == 0 {
		chunk = rowChunk
	}
	for m := m0; m < m1; m += chunk {
		rows, n := min(chunk, m1-m), l.gate.n
		x, y := in.from(m), l.y.full[m*n:]
		tmp := w.scratch.f[:rows*n]
		next := w.next
		if next == nil && c1 < l.gate.n {
			next = firstOf(g, all, c1, l.gate.n) // of the next claim, if this worker gets it
		}
		w.next = firstOf(u, all, c0, c1)
		g.multiply(w, task{y: y, x: x, bias: l.gBias, rows: rows}, c0, c1)
		w.next = next
		u.multiply(w, task{y: tmp, x: x, bias: l.uBias, rows: rows}, c0, c1)
		for r := range rows {
			row := y[r*n+c0 : r*n+c1]
			l.times(row, row, tmp[r*n+c0:r*n+c1])
		}
	}
}
