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

// lookup is rows of a table, one per token.
type lookup struct {
	table mat    // in f32, or
	w     weight // in another type
	ids   ints
	scale float32
}

func newLookup(b *binder, n *graph.Node) lookup {
	l := lookup{w: b.weight(n.In[0]), ids: b.i32(n.In[1]), scale: n.Attr.(graph.EmbedAttr).Scale}
	if f, ok := l.w.(*fileRows); l.w == nil || ok && f.dtype == tensor.F32 {
		l.table = b.f32(n.In[0])
	}
	return l
}

// put writes the row of token i.
func (l *lookup) put(dst []float32, i int) {
	id := int(l.ids.full[i])
	if l.table.present() {
		copy(dst, l.table.row(id))
	} else {
		l.w.unpackRow(dst, id)
	}
	if l.scale != 0 && l.scale != 1 {
		vec.Scale(dst, dst, l.scale)
	}
}

func bindEmbed(b *binder, s *plan.Step) (kernel, error) {
	y, rows := b.f32(s.Root().Out[0]), newLookup(b, s.Root())
	return &rowwise{"embed", y, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			rows.put(y.row(i), i)
		}
	}}, nil
}

// bindEmbeds is the sum of two lookups, of tokens and of their positions, and of one
// vector for all rows where there is one.
func bindEmbeds(b *binder, s *plan.Step) (kernel, error) {
	sum, y := s.Nodes[2], b.f32(s.Root().Out[0])
	first, second := newLookup(b, sum.In[0].Node), newLookup(b, sum.In[1].Node)
	label, all := "embed+embed", []float32(nil)
	if s.Root() != sum {
		label, all = "embed+embed+row", b.f32(s.Root().In[1]).full
	}
	b.want(y.cols)
	return &rowwise{label, y, func(w *worker, _ tensor.Bind, lo, hi int) {
		other := w.scratch.f[:y.cols]
		for i := lo; i < hi; i++ {
			row := y.row(i)
			first.put(row, i)
			second.put(other, i)
			vec.Add(row, row, other)
			if all != nil {
				vec.Add(row, row, all)
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
