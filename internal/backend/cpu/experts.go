package cpu

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// route runs on one worker. Sorting by expert reads all tokens and costs little
// compared with the products that follow.
type route struct {
	graph.RouteAttr
	logits, weights      mat
	rows, slots, offsets ints
}

func bindRoute(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	b.want(ms[0].cols)
	return &route{n.Attr.(graph.RouteAttr), ms[0], ms[1], b.i32(n.Out[1]), b.i32(n.Out[2]), b.i32(n.Out[3])}, nil
}

func (k *route) name() string               { return "route" }
func (k *route) width(tensor.Bind, int) int { return 1 }
func (k *route) runShare(w *worker, b tensor.Bind, _, _ int) {
	p := w.scratch.f[:k.logits.cols] // [E]
	slots := k.slots.all(b)
	for t := range k.logits.rows(b) {
		row, weights, ids := k.logits.row(t), k.weights.row(t), slots[t*k.Used:(t+1)*k.Used]
		graph.Best(ids, row)
		sum := vec.Exp(p, row, vec.Max(row))
		if k.Normalize {
			sum = 0
			for _, e := range ids {
				sum += p[e]
			}
		}
		for j, e := range ids {
			weights[j] = p[e] / sum
		}
	}
	graph.SortChoices(k.rows.all(b), slots, k.offsets.all(b), k.Used)
}

// grouped multiplies the rows of each expert with its matrix. A share is a range of
// columns, the same for all experts. So shares are equally large for any routing, and
// the kernel of an element does not depend on the worker.
type grouped struct {
	x, y    mat
	offsets ints
	experts []*product
}

func bindGrouped(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	w, ok := b.weight(n.In[1]).(*fileRows)
	if !ok {
		return nil, fmt.Errorf("%s is not a weight in the file's rows", n.In[1])
	}
	k := &grouped{x: ms[0], y: ms[1], offsets: b.i32(n.In[2])}
	size := w.dtype.RowBytes(k.x.cols) * k.y.cols // of one expert
	for e := range n.In[2].Shape.Outer.Add - 1 {
		m := &matrix{n: k.y.cols, k: k.x.cols, value: n.In[1], w: &fileRows{w.dtype, w.rows[e*size : (e+1)*size]}}
		p, err := b.product(m, b.choices(n))
		if err != nil {
			return nil, err
		}
		k.experts = append(k.experts, p)
	}
	return k, nil
}

func (k *grouped) name() string { return "grouped " + k.experts[0].most().label() }

func (k *grouped) width(b tensor.Bind, n int) int {
	return productWidth(k.x.rows(b), k.y.cols, k.x.cols, k.blocks(), n)
}

// blocks is the number of columns that shares are cut at multiples of.
func (k *grouped) blocks() int {
	nr := 1
	for _, w := range k.experts[0].ways {
		nr = max(nr, w.split().nr)
	}
	return nr
}

func (k *grouped) runShare(w *worker, b tensor.Bind, i, n int) {
	c0, c1 := share(k.y.cols, k.blocks(), i, n)
	if c0 == c1 {
		return
	}
	offsets := k.offsets.all(b)
	for e, p := range k.experts {
		if lo, hi := int(offsets[e]), int(offsets[e+1]); lo < hi {
			p.at(hi-lo).multiply(w, task{y: k.y.full[lo*p.n:], x: factor{f32: k.x.full[lo*p.k:]}, rows: hi - lo}, c0, c1)
		}
	}
}

func bindCombine(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[2], n.Out[0])
	y, weights, out, slots := ms[0], ms[1], ms[2], b.i32(n.In[1])
	return &rowwise{"combine", out, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for t := lo; t < hi; t++ {
			dst := out.row(t)
			clear(dst)
			for j, f := range weights.row(t) {
				vec.Axpy(dst, y.row(int(slots.full[t*weights.cols+j])), f)
			}
		}
	}}, nil
}

func bindMulRows(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.Out[0])
	x, f, y := ms[0], ms[1], ms[2]
	return &rowwise{"mul rows", y, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for t := lo; t < hi; t++ {
			vec.Scale(y.row(t), x.row(t), f.full[t])
		}
	}}, nil
}
