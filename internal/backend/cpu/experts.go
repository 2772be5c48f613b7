package cpu

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/amx"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// route is one worker's: sorting by expert goes through all tokens, and it is
// little beside the products that follow.
type route struct {
	graph.RouteAttr
	logits, weights      mat
	rows, slots, offsets ints
}

func bindRoute(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms, err := b.mats(n.In[0], n.Out[0])
	if err != nil {
		return nil, err
	}
	b.want(ms[0].cols)
	return &route{n.Attr.(graph.RouteAttr), ms[0], ms[1], b.i32(n.Out[1]), b.i32(n.Out[2]), b.i32(n.Out[3])}, nil
}

func (k *route) name() string               { return "route" }
func (k *route) width(tensor.Bind, int) int { return 1 }
func (k *route) run(w *worker, b tensor.Bind, _, _ int) {
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

// grouped multiplies the rows of each expert with its matrix. Shares are
// columns, the same of every expert: they are equal whatever the routing, and
// each element is computed by the same kernel whoever has it.
type grouped struct {
	x, y    mat
	offsets ints
	experts []gemm.Stored // the file's rows of each
	use     []expertUse   // [worker]
	direct  bool
}

// expertUse is a worker's product, which takes the experts in turn.
type expertUse struct {
	product
	tiles *amx.Stored // nil in f32
	_     [64]byte
}

func bindGrouped(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms, err := b.mats(n.In[0], n.Out[0])
	if err != nil {
		return nil, err
	}
	w := b.weight(n.In[1])
	if w == nil || w.rows == nil {
		return nil, fmt.Errorf("%s is no weight in the file's rows", n.In[1])
	}
	k := &grouped{x: ms[0], y: ms[1], offsets: b.i32(n.In[2])}
	size := w.dtype.RowBytes(k.x.cols) * k.y.cols // of one expert
	for e := range n.In[2].Shape.Outer.Add - 1 {
		stored, err := gemm.NewStored(w.rows[e*size:(e+1)*size], w.dtype, k.y.cols, k.x.cols)
		if err != nil {
			return nil, err
		}
		k.experts = append(k.experts, *stored)
	}
	k.use = make([]expertUse, b.workers)
	class := b.be.opts.Precision.class()
	for i := range k.use {
		u := &k.use[i]
		u.product = product{n: k.y.cols, k: k.x.cols, class: class, label: fmt.Sprintf("grouped gemm %s from %s", class, w.dtype)}
		if class == BF16 {
			u.tiles, u.tiled = amx.NewStored(&k.experts[0]), amx.CanFew(&k.experts[0])
			for range b.workers {
				u.bf16 = append(u.bf16, u.tiles)
			}
			u.stored = &k.experts[0]
			u.setCoded()
		}
	}
	if class == BF16 {
		b.wantTiles(k.x.cols)
	}
	if k.direct = !b.invariant && b.least(k.x.outer) <= k.use[0].fewest(); k.direct {
		b.wantFew(&k.use[0].product)
	}
	return k, nil
}

func (k *grouped) name() string            { return k.use[0].label }
func (k *grouped) computeClass() Precision { return k.use[0].class }

func (k *grouped) width(b tensor.Bind, n int) int {
	_, nr := k.use[0].tile()
	return productWidth(k.x.rows(b), k.y.cols, k.x.cols, nr, n)
}

func (k *grouped) run(w *worker, b tensor.Bind, i, n int) {
	u := &k.use[w.lane]
	_, nr := u.tile()
	c0, c1 := share(u.n, nr, i, n)
	if c0 == c1 {
		return
	}
	offsets := k.offsets.all(b)
	for e := range k.experts {
		lo, hi := int(offsets[e]), int(offsets[e+1])
		if lo == hi {
			continue
		}
		u.stored = &k.experts[e]
		u.f32 = u.stored
		if u.tiles != nil {
			u.tiles.W = u.stored
		}
		u.multiply(w, k.y.full[lo*u.n:], factor{f32: k.x.full[lo*u.k:]}, nil, hi-lo, c0, c1, u.isFew(hi-lo, k.direct))
	}
}

func bindCombine(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms, err := b.mats(n.In[0], n.In[2], n.Out[0])
	if err != nil {
		return nil, err
	}
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
	ms, err := b.mats(n.In[0], n.In[1], n.Out[0])
	if err != nil {
		return nil, err
	}
	x, f, y := ms[0], ms[1], ms[2]
	return &rowwise{"mul rows", y, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for t := lo; t < hi; t++ {
			vec.Scale(y.row(t), x.row(t), f.full[t])
		}
	}}, nil
}
