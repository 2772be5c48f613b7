package cuda

import (
	"slices"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// foldedNorm is an RMS norm of a sum that has no kernel of its own, as tall.cu says: the
// product before it joins the sum, and the product behind it multiplies by its factor.
type foldedNorm struct {
	norm    *graph.Node
	x       *graph.Value // what the product is added to
	squares address      // [rows][width / 32]
}

// foldNorms finds such norms of few rows, by each of their three steps.
func (b *binder) foldNorms() {
	b.Moved = map[device.Moved]address{}
	b.joins, b.factors, b.folded = map[*plan.Step]*foldedNorm{}, map[*plan.Step]*foldedNorm{}, map[*plan.Step]bool{}
	steps := b.Plan.Steps
	for i := range steps[:max(len(steps)-2, 0)] {
		f, ok := b.foldedNorm(&steps[i], &steps[i+1], &steps[i+2])
		if !ok {
			continue
		}
		values := b.Most(f.norm.In[0]) * f.norm.In[0].Shape.RowLen()
		f.squares = b.Constant(make([]byte, 4*values/squaresOf))
		// The plan has a place for the sum and its norm only from the norm on: before it
		// others may lie there.
		for _, v := range []*graph.Value{f.norm.In[0], f.norm.Out[0]} {
			b.move(v, nil, 4*values)
			b.move(v, half, 2*values)
		}
		b.joins[&steps[i]], b.folded[&steps[i+1]], b.factors[&steps[i+2]] = f, true, f
	}
}

// squaresOf is how many values of a row have one sum of squares.
const squaresOf = 32

// foldedNorm reports whether three steps are a product, the norm of its sum with x, and
// products of that norm, and nobody else reads what is between them.
func (b *binder) foldedNorm(before, at, behind *plan.Step) (*foldedNorm, bool) {
	if before.Kind != "linear" || at.Kind != "add+norm" || at.Host {
		return nil, false
	}
	n := at.Root()
	add, v := n.In[0].Node, before.Root().Out[0]
	x := add.In[0]
	if x == v {
		x = add.In[1]
	}
	a, width := n.Attr.(graph.NormAttr), n.In[1].Shape.Len(tensor.Bind{})
	if x == v || !slices.Contains(add.In, v) || a.Kind != graph.RMSNorm || n.In[2] != nil || a.Size(width) != width || width != n.In[0].Shape.RowLen() || width%(4*squaresOf) != 0 || !normGiven(n) {
		return nil, false
	}
	if _, rounded := b.Plan.Form(n.In[0], half); rounded { // a product writes the sum in f32 only
		return nil, false
	}
	if at.ReadAs(x) != nil || !b.readOnlyBy(v, at) || !b.readOnlyBy(n.Out[0], behind) || !b.isTall(before) {
		return nil, false
	}
	return &foldedNorm{norm: n, x: x}, b.isTall(behind) || b.isSeveral(behind)
}

// readOnlyBy reports whether one step alone reads a value.
func (b *binder) readOnlyBy(v *graph.Value, by *plan.Step) bool {
	for i := range b.Plan.Steps {
		if s := &b.Plan.Steps[i]; slices.Contains(s.In, v) != (s == by) {
			return false
		}
	}
	for _, f := range []*plan.Format{nil, half} {
		if pl, ok := b.Plan.Form(v, f); ok && pl.Class == plan.IO {
			return false
		}
	}
	return true
}

// move gives a value memory of its own in a format that it has, unless it is a result of
// the graph, which shares memory with none.
func (b *binder) move(v *graph.Value, f *plan.Format, bytes int) {
	if pl, ok := b.Plan.Form(v, f); ok && pl.Bytes > 0 && pl.Class != plan.IO {
		b.Moved[device.Moved{Value: v, Format: f}] = b.Constant(make([]byte, bytes))
	}
}

// with calls f for another step than the one at hand.
func (b *binder) with(s *plan.Step, f func(p *device.Products, x in) bool) bool {
	defer func(s *plan.Step) { b.Step = s }(b.Step)
	b.Step = s
	if !slices.Contains([]string{"linear", "linear+act", "linear+glu", "linear+linear"}, s.Kind) {
		return false
	}
	p := b.Products()
	return f(p, b.reads(p.X))
}

// isTall reports whether the products of a step are computed by tall.cu in one launch.
func (b *binder) isTall(s *plan.Step) bool {
	return b.with(s, func(p *device.Products, x in) bool {
		return len(s.Before)+len(s.After) == 0 && p.Rows > device.OneRow && x.half && b.be.wgmma && !b.be.inF32(p.K) && half.Holds(p.K) && b.tallFits(p)
	})
}

// isSeveral reports whether the products of a step are computed by several.cu from rows that
// the step before wrote in bf16: those that lack a factor must not be rounded.
func (b *binder) isSeveral(s *plan.Step) bool {
	return b.with(s, func(p *device.Products, x in) bool {
		return len(s.Before) == 0 && len(s.After) > 0 && p.Rows > device.OneRow && p.Rows <= severalRows && x.half && b.be.severalFit(p.Nodes, b.DType)
	})
}

// join is what the step at hand adds its results to, as Join in tall.cu.
func (b *binder) join() []any {
	f := b.joins[b.Step]
	if f == nil {
		return []any{address(0), address(0), address(0), address(0), float32(0), tail(8)}
	}
	return []any{b.Value(f.x), b.Value(f.norm.In[0]), b.Value(f.norm.In[1]), f.squares, f.norm.Attr.(graph.NormAttr).Offset, tail(8)}
}

// factor is the factor that rows of the step at hand lack, as Factor in several.cu.
func (b *binder) factor() []any {
	f := b.factors[b.Step]
	if f == nil {
		return []any{address(0), 0, float32(0), float32(0), tail(8)}
	}
	width := f.norm.In[0].Shape.RowLen()
	return []any{f.squares, width / squaresOf, 1 / float32(width), f.norm.Attr.(graph.NormAttr).Eps, tail(8)}
}

// results are where the step at hand writes its results: its own, or those of the norm
// behind it without its factor.
func (b *binder) results(v *graph.Value) out {
	if f := b.joins[b.Step]; f != nil {
		return b.writes(f.norm.Out[0])
	}
	return b.writes(v)
}

// attendedWeights is from how many values on a matrix behind attention is multiplied by
// tall.cu for few rows, from rows in bf16: on an H200 8 rows of Llama 1B take 4.6 us so,
// and 6.2 by k_wide.
const attendedWeights = 1 << 22

// behindAttention reports whether a product reads what attention wrote.
func (b *Backend) behindAttention(s *plan.Step, n *graph.Node) bool {
	return b.wgmma && len(s.Nodes) == 1 && n.In[0].Node.Op == graph.OpAttentionKV
}
