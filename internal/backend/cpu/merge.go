package cpu

import (
	"fmt"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// ownNorm is a norm of few rows, with the sum before it, that every worker computes
// for itself in its own memory, so that no barrier is needed between the norm and
// the products of the step. The next such norm adds to the sum, so a worker keeps that too:
// else all would read it from the cache of the one that writes it for other steps.
type ownNorm struct {
	normed
	format   *plan.Format // nil: f32
	from, to *graph.Value // what is added to, and the sum; nil where there is none
	made     *perWorker[*ownRows]
}

// ownRows are the rows that one worker has computed for itself.
type ownRows struct {
	y     []float32
	half  []uint16 // y in bf16
	epoch uint64   // of the worker when it computed them

	sum []float32
	of  *graph.Value // that sum is
	run uint64       // of the exec when it was
}

// newOwnNorm binds the norm that the step at hand has before its products.
func newOwnNorm(b *binder) *ownNorm {
	k := &ownNorm{normed: *newNormed(b, b.step.Before), format: b.step.Own}
	// Steps without a barrier between them have the same epoch, so each of them
	// has rows of its own.
	slot := b.slot(func(s *plan.Step) bool { return len(s.Before) > 0 })
	k.made = scratchFor(b, fmt.Sprintf("own rows %d", slot), [2]int{k.y.rows(b.plan.Max) * k.y.cols}, func(size [2]int) *ownRows {
		n := size[0]
		return &ownRows{y: make([]float32, n), half: make([]uint16, n), sum: make([]float32, n)}
	})
	if k.sum.present() {
		add := b.step.Before[len(b.step.Before)-2]
		k.from, k.to = add.In[0], add.Out[0]
	}
	return k
}

// of computes the norm unless the worker has already computed it. If other steps
// read the sum, the first share computes the norm in any case and writes the sum.
func (k *ownNorm) of(w *worker, b tensor.Bind, share int) operand {
	r, rows := k.made.of[w.lane], k.y.rows(b)
	n := rows * k.y.cols
	writes := share == 0 && k.sum.present()
	if rows > 0 && (w.epoch == 0 || r.epoch != w.epoch || writes) {
		one := k.normed
		if one.y.full = r.y[:n]; k.to != nil {
			k.keep(&one, r, w.run(), n, writes)
		}
		if k.format != nil {
			one.y.full, one.out = nil, r.half[:n]
		}
		one.rows(w, b, 0, rows)
		r.epoch = w.epoch
	}
	x := operand{mat: k.y, format: k.format}
	if x.full = r.y[:n]; k.format != nil {
		x.raw = unsafe.Slice((*byte)(unsafe.Pointer(&r.half[0])), k.format.Bytes(rows, k.y.cols))
	}
	return x
}

// keep lets one begin with the sum that the worker has kept, if that is what it adds to,
// and keep its own sum there, unless it writes that for others: then it has it in its cache.
func (k *ownNorm) keep(one *normed, r *ownRows, run uint64, n int, writes bool) {
	if r.of == k.from && r.run == run {
		one.x.full, one.task.X = r.sum[:n], r.sum[:n]
	}
	if r.of = nil; !writes {
		one.sum.full, one.task.Sum = r.sum[:n], r.sum[:n]
		r.of, r.run = k.to, run
	}
}

// label joins the names of the norm and of the products.
func (k *ownNorm) label(products string) string {
	if k == nil {
		return products
	}
	return k.normed.label() + ", " + products
}

// headEnd is the work that follows a share of a product's columns, in order:
// norms and rotations of whole heads in place, then the write into the cache.
// Each part processes the columns of a row from col on.
type headEnd struct {
	parts []func(w *worker, x []float32, row, col int)
	cache keys // where columns end, at their rows' slots; absent where they end in memory of the plan
	slots ints
}

// fetch prefetches the lines of the cache to which columns [lo,hi) of rows
// [m0,m1) are written. A step writes them once and they are in no cache, so each
// write would stall.
func (e *headEnd) fetch(m0, m1, lo, hi int) {
	if e.slots.full == nil {
		return
	}
	for _, slot := range e.slots.full[m0:m1] {
		vec.Fetch(e.cache.from(int(slot), lo)[:e.cache.bytes(hi-lo)])
	}
}

// newHeadEnd binds the nodes of the current step that process the product's
// result v. end is the final value, nil if it is in the cache. whole is the
// smallest multiple of grain columns that shares must not cut.
func newHeadEnd(b *binder, v *graph.Value, grain int) (e headEnd, end *graph.Value, whole int) {
	for _, n := range b.step.After {
		switch {
		case n.Op == graph.OpKVWrite && (n.In[2] == v || n.In[3] == v):
			cache := n.Out[0]
			if n.In[3] == v {
				cache = n.Out[1]
			}
			write, slots := b.rowWriter(cache), b.i32(n.In[4])
			e.parts = append(e.parts, func(_ *worker, x []float32, row, col int) { write(int(slots.full[row]), col, x) })
			e.cache, e.slots = b.keys(cache), slots
			return e, nil, lcm(grain, cache.DType.Info().BlockLen)
		case n.In[0] != v:
			continue
		case n.Op == graph.OpNorm:
			r := newNormRow(b, n)
			e.parts, grain = append(e.parts, func(_ *worker, x []float32, _, col int) { r.applyAt(x, x, col) }), lcm(grain, r.Size(len(r.w)))
		case n.Op == graph.OpRope:
			r := newRotation(b, n)
			e.parts, grain = append(e.parts, func(w *worker, x []float32, row, _ int) { r.turn(w, x, row) }), lcm(grain, r.HeadDim)
		}
		v = n.Out[0]
	}
	return e, v, grain
}

// endLabel adds the names of the nodes that follow the products of the current
// step.
func endLabel(b *binder, products string) string {
	for _, n := range b.step.After {
		products += ", " + n.Op.Name
	}
	return products
}

// mergedRows is the maximum number of rows of a step that absorbs its neighbours.
// A worker computes a norm of that many rows in less time than a barrier takes.
const mergedRows = bf16.FewRows

// merges are the steps that absorb their neighbours if they compute few rows: the
// norm before products, and the nodes that turn their results into queries, keys
// and values. A norm that later steps read too, as in BERT, stays a step: taken in,
// MiniLM embedded 16 tokens 2 to 3 per cent slower on two workers, although 46 steps
// became 34.
var merges = []plan.Merge{
	{Rows: mergedRows, Kind: "linear+linear", Before: isNorm, After: byHeads},
	{Rows: mergedRows, Kind: "linear+glu", Before: isNorm},
	{Rows: mergedRows, Kind: "linear+act", Before: isNorm},
	{Rows: mergedRows, Kind: "linear", Before: isNorm},
}

// isNorm reports whether nodes are the norm of rows, or of a sum of rows.
func isNorm(nodes []*graph.Node) bool {
	root := nodes[len(nodes)-1]
	return root.Op == graph.OpNorm && wholeRows(root)
}

// byHeads reports whether nodes treat each head of a row alone.
func byHeads(nodes []*graph.Node) bool {
	for _, n := range nodes {
		switch n.Op {
		case graph.OpNorm:
			a := n.Attr.(graph.NormAttr)
			if a.Size(n.In[1].Shape.Outer.Add) == n.In[0].Shape.RowLen() {
				return false
			}
		case graph.OpKVWrite:
			if n.In[2] == n.In[3] {
				return false
			}
		case graph.OpRope:
		default:
			return false
		}
	}
	return true
}

func lcm(a, b int) int {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
}
