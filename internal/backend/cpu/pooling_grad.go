package cpu

import (
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Backward passes of pooling and of gathering rows. A worker either owns columns
// and adds rows in their order, or owns rows.

// bindScatterRows adds rows to the rows from which they were gathered.
func bindScatterRows(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	dy, dx, rows := ms[0], ms[1], b.i32(n.In[1])
	return &columns{label: "gather backward", like: dx, cols: dx.cols, part: func(_ *worker, b tensor.Bind, lo, hi int) {
		for r := range dx.rows(b) {
			clear(dx.row(r)[lo:hi])
		}
		for i := range dy.rows(b) {
			to := dx.row(int(rows.full[i]))[lo:hi]
			vec.Add(to, to, dy.row(i)[lo:hi])
		}
	}}, nil
}

func bindPoolGrad(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0], n.In[2])
	dy, dx, x, starts, kind := ms[0], ms[1], ms[2], b.i32(n.In[1]), n.Attr.(graph.PoolAttr).Kind
	return &columns{label: "pool backward", like: dx, cols: dx.cols, part: func(_ *worker, b tensor.Bind, lo, hi int) {
		for r := range dx.rows(b) {
			clear(dx.row(r)[lo:hi])
		}
		for i := range dy.rows(b) {
			for j := range kind.Len() {
				poolGrad(kind.At(j), dx, x, dy.row(i)[j*dx.cols+lo:j*dx.cols+hi], int(starts.full[i]), int(starts.full[i+1]), lo)
			}
		}
	}}, nil
}

// poolGrad adds the gradient of one kind of pooling of rows [t0,t1) to dx, from
// column lo on. Only max pooling needs x.
func poolGrad(kind graph.PoolKind, dx, x mat, dy []float32, t0, t1, lo int) {
	if t0 == t1 {
		return
	}
	add := func(t int, f float32) { vec.Axpy(dx.row(t)[lo:lo+len(dy)], dy, f) }
	n := float32(t1 - t0)
	switch kind {
	case graph.PoolCLS:
		add(t0, 1)
		return
	case graph.PoolLast:
		add(t1-1, 1)
		return
	case graph.PoolMax:
		for i, g := range dy {
			top := t0
			for t := t0 + 1; t < t1; t++ {
				if x.row(t)[lo+i] > x.row(top)[lo+i] {
					top = t
				}
			}
			dx.row(top)[lo+i] += g
		}
		return
	case graph.PoolWeighted:
		for t := t0; t < t1; t++ {
			add(t, float32(t-t0+1)/(n*(n+1)/2))
		}
		return
	case graph.PoolMeanSqrt:
		n = float32(math.Sqrt(float64(n)))
	}
	for t := t0; t < t1; t++ {
		add(t, 1/n)
	}
}

func bindEmbedBagGrad(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	dy, dt, ids, starts := ms[0], ms[1], b.i32(n.In[1]), b.i32(n.In[2])
	return &columns{label: "embed bag backward", like: dt, cols: dt.cols, part: func(_ *worker, b tensor.Bind, lo, hi int) {
		for r := range dt.rows(b) {
			clear(dt.row(r)[lo:hi])
		}
		for i := range dy.rows(b) {
			t0, t1 := int(starts.full[i]), int(starts.full[i+1])
			for _, id := range ids.full[t0:t1] {
				vec.Axpy(dt.row(int(id))[lo:hi], dy.row(i)[lo:hi], 1/float32(t1-t0))
			}
		}
	}}, nil
}

func bindL2NormGrad(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.Out[0])
	dy, x, dx := ms[0], ms[1], ms[2]
	return &rowwise{"l2norm backward", dx, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			norm, dot := math.Sqrt(float64(vec.SumSquares(x.row(i)))), vec.Dot(x.row(i), dy.row(i))
			inv := float32(1 / max(norm, 1e-12))
			vec.Scale(dx.row(i), dy.row(i), inv)
			if norm >= 1e-12 { // below, the divisor is a constant
				vec.Axpy(dx.row(i), x.row(i), -dot*inv*inv*inv)
			}
		}
	}}, nil
}
