package opencl

import (
	"errors"
	"slices"
	"time"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// bindProducts takes the kernels for the largest number of rows of the plan.
func bindProducts(b *binder, _ *graph.Node) {
	p := b.Products()
	if p.Rows <= device.OneRow && !b.Plan.Invariant && rowRoom(b.be.about, p.K) > 0 {
		b.one(p)
		return
	}
	if !p.Gated {
		for i, v := range p.Out {
			b.product(p, i, b.Value(v), p.Act)
		}
		return
	}
	v := p.Out[0]
	bytes := 4 * int64(p.Rows) * int64(p.Cols(0))
	gate, up := b.Workspace(bytes), b.Workspace(bytes)
	b.product(p, 0, gate, -1)
	b.product(p, 1, up, -1)
	b.each("k_glu", v, b.Value(v), gate, up, p.Act)
}

// fewLanes are the work items per row of the weights where rows are few.
const fewLanes = 32

// product is one of the products, of few rows or of many.
func (b *binder) product(p *device.Products, i int, y address, act int) {
	w, bias, cols := p.Nodes[i].In[1], b.Value(p.Nodes[i].In[2]), p.Cols(i)
	t, x := b.DType(w), b.Value(p.X)
	if p.Rows <= fewRows && !b.Plan.Invariant {
		b.launchOf(typed(t, "common", "act", "few"), "k_few", [2]extent{groups(cols), {p.X.Shape.Outer, 1, fewRows, 0}}, fewLanes,
			b.sizes, p.X.Shape.Outer, cols, p.K, y, x, b.Value(w), bias, act)
		return
	}
	shape := Shape{p.Rows, cols, p.K, t}
	if b.At == 0 {
		if c, ok := b.be.tuner.expected(shape, b.be.about); ok {
			b.many(c, t, p.X.Shape.Outer, cols, p.K, b.sizes, y, x, b.Value(w), bias, act)
		}
		return
	}
	chosen, err := b.be.tuner.choose(shape, b.be.about, func(s Shape) ([]Timing, time.Duration, error) { return b.be.measure(s, b.Value(w)) })
	if err != nil {
		b.Fail(err)
		return
	}
	b.largest(chosen, func(c tile) { b.many(c, t, p.X.Shape.Outer, cols, p.K, b.sizes, y, x, b.Value(w), bias, act) })
}

// largest launches a product in a tile, or in the next smaller one whose groups fit.
func (b *binder) largest(t tile, launch func(t tile)) {
	for i := slices.Index(tiles, t); ; i-- {
		launch(tiles[i])
		if i == 0 || !errors.Is(b.Failed, errGroup) {
			return
		}
		l := b.exec.launches
		b.exec.launches, b.Failed = l[:len(l)-1], b.be.drv.drop(l[len(l)-1].kernel)
	}
}

// tiled are the groups of a product of rows x cols results.
func (t tile) tiled(rows tensor.Dim, cols int) [2]extent {
	return [2]extent{{tensor.Fixed(cols), 1, t.N, 0}, {rows, 1, t.M, 0}}
}

// many is a product in tiles.
func (b *binder) many(t tile, of tensor.DType, rows tensor.Dim, cols, k int, sizes, y, x, w, bias address, act int) {
	b.launchOf(t.code(of, false, b.be.half()), "k_many", t.tiled(rows, cols), t.items(), sizes, rows, cols, k, y, x, w, bias, act)
}

func bindLinearDX(b *binder, n *graph.Node) {
	dy, w := n.In[0], n.In[1]
	rows, k, t := w.Shape.Outer.Add, w.Shape.RowLen(), usual(b.be.about, b.Most(dy))
	b.largest(t, func(t tile) {
		b.launchOf(t.code(b.DType(w), true, false), "k_gemm", t.tiled(dy.Shape.Outer, k), t.items(), b.sizes, dy.Shape.Outer, tensor.Fixed(rows), k, b.Value(n.Out[0]), b.Value(dy), uint64(rows), uint64(1), b.Value(w))
	})
}

func bindLinearDW(b *binder, n *graph.Node) {
	dy, x := n.In[0], n.In[1]
	rows, k := dy.Shape.RowLen(), x.Shape.RowLen()
	t := usual(b.be.about, rows)
	b.largest(t, func(t tile) {
		b.launchOf(t.code(tensor.F32, true, false), "k_gemm", t.tiled(tensor.Fixed(rows), k), t.items(), b.sizes, tensor.Fixed(rows), dy.Shape.Outer, k, b.Value(n.Out[0]), b.Value(dy), uint64(1), uint64(rows), b.Value(x))
	})
}
