package cpu

import (
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// rowwise is any step whose output rows depend only on the same rows of its
// input. A share is a range of rows.
type rowwise struct {
	label string
	like  mat // decides how many rows there are, and how wide
	rows  func(w *worker, b tensor.Bind, lo, hi int)
}

// rowPasses is the cost of a row in passes over it: sums before the result, or
// the wait for a row of a table.
const rowPasses = 4

func (k *rowwise) name() string { return k.label }
func (k *rowwise) width(b tensor.Bind, n int) int {
	return min(widthFor(rowPasses*k.like.rows(b)*k.like.cols, n), max(1, k.like.rows(b)))
}
func (k *rowwise) runShare(w *worker, b tensor.Bind, i, n int) {
	lo, hi := share(k.like.rows(b), 1, i, n)
	k.rows(w, b, lo, hi)
}

func bindEmbed(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	w := b.weight(n.In[0])
	y := b.f32(n.Out[0])
	ids, scale := b.i32(n.In[1]), n.Attr.(graph.EmbedAttr).Scale
	var table mat
	if f, ok := w.(*fileRows); w == nil || ok && f.dtype == tensor.F32 {
		table = b.f32(n.In[0])
	}
	return &rowwise{"embed", y, func(_ *worker, b tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			dst, id := y.row(i), int(ids.full[i])
			if table.present() {
				copy(dst, table.row(id))
			} else {
				w.unpackRow(dst, id)
			}
			if scale != 0 && scale != 1 {
				vec.Scale(dst, dst, scale)
			}
		}
	}}, nil
}

func bindGather(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	x, y, rows := ms[0], ms[1], b.i32(n.In[1])
	return &rowwise{"gather", y, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(y.row(i), x.row(int(rows.full[i])))
		}
	}}, nil
}

func bindPool(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	x, y, starts, kind := ms[0], ms[1], b.i32(n.In[1]), n.Attr.(graph.PoolAttr).Kind
	return &rowwise{"pool", y, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			dst := y.row(i)
			for j := range kind.Len() {
				pool(kind.At(j), dst[j*x.cols:(j+1)*x.cols], x, int(starts.full[i]), int(starts.full[i+1]))
			}
		}
	}}, nil
}

// pool is one kind of pooling of rows [t0,t1) of x.
func pool(kind graph.PoolKind, dst []float32, x mat, t0, t1 int) {
	if t0 == t1 {
		clear(dst)
		return
	}
	if kind == graph.PoolLast {
		copy(dst, x.row(t1-1))
		return
	}
	copy(dst, x.row(t0))
	n := float32(t1 - t0)
	switch kind {
	case graph.PoolCLS:
		return
	case graph.PoolMax:
		for t := t0 + 1; t < t1; t++ {
			for i, v := range x.row(t) {
				dst[i] = max(dst[i], v)
			}
		}
		return
	case graph.PoolWeighted:
		for t := t0 + 1; t < t1; t++ {
			vec.Axpy(dst, x.row(t), float32(t-t0+1))
		}
		n = n * (n + 1) / 2
	default:
		for t := t0 + 1; t < t1; t++ {
			vec.Add(dst, dst, x.row(t))
		}
		if kind == graph.PoolMeanSqrt {
			n = float32(math.Sqrt(float64(n)))
		}
	}
	vec.Scale(dst, dst, 1/n)
}

func bindL2Norm(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	x, y := ms[0], ms[1]
	return &rowwise{"l2norm", y, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			norm := float32(math.Sqrt(float64(vec.SumSquares(x.row(i)))))
			vec.Scale(y.row(i), x.row(i), 1/max(norm, 1e-12))
		}
	}}, nil
}
