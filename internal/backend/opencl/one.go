package opencl

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

const (
	// oneLanes are the work items of a group of k_one, leastTeam those of a pair of
	// rows at least.
	oneLanes  = 128
	leastTeam = 32
	// oneLocal is local memory of k_one beside the row.
	oneLocal = 2 << 10
)

// rowRoom is how many values local memory holds for a row: few sizes, since each is
// compiled. It is 0 where the device has no room for the row.
func rowRoom(d description, k int) int {
	room := 1024
	for room < k {
		room *= 2
	}
	if 4*int64(room)+oneLocal > d.Local {
		return 0
	}
	return room
}

// merges are the steps of a single row that take in their neighbours: so a layer of
// a decoder is five kernels.
func merges(d description) []plan.Merge {
	isNorm := func(nodes []*graph.Node) bool { return rowNorm(nodes, d) }
	heads := func(nodes []*graph.Node) bool { return byHeads(nodes, d) }
	return []plan.Merge{
		{Rows: oneRow, Kind: "linear+linear", Before: isNorm, After: heads, Varies: true},
		{Rows: oneRow, Kind: "linear+glu", Before: isNorm, Varies: true},
		{Rows: oneRow, Kind: "linear+act", Before: isNorm, Varies: true},
		{Rows: oneRow, Kind: "linear", Before: isNorm, Varies: true},
	}
}

// rowNorm reports whether nodes are the norm of a row, or of a sum of rows, that
// local memory holds.
func rowNorm(nodes []*graph.Node, d description) bool {
	root := nodes[len(nodes)-1]
	if root.Op != graph.OpNorm {
		return false
	}
	a, width := root.Attr.(graph.NormAttr), root.In[1].Shape.Outer.Add
	return width == root.In[0].Shape.RowLen() && a.Size(width) == width && width%4 == 0 && rowRoom(d, width) > 0
}

// byHeads reports whether nodes rotate heads or bring them into a cache whose
// values are not in blocks, and come from products whose rows local memory holds.
func byHeads(nodes []*graph.Node, d description) bool {
	held := func(v *graph.Value) bool {
		n := v.Node
		if n.Op == graph.OpRope {
			n = n.In[0].Node
		}
		return n.Op == graph.OpLinear && rowRoom(d, n.In[1].Shape.RowLen()) > 0
	}
	for _, n := range nodes {
		switch n.Op {
		case graph.OpRope:
			if n.Attr.(graph.RopeAttr).HeadDim%2 != 0 || !held(n.Out[0]) {
				return false
			}
		case graph.OpKVWrite:
			if n.In[2] == n.In[3] || n.In[0].DType == tensor.Q8_0 || !held(n.In[2]) || !held(n.In[3]) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// one is a single row, with the norm before it and what makes queries, keys and
// values of it.
func (b *binder) one(p *products) {
	pairs := p.cols(0)
	if !p.glu {
		pairs = (p.cols(0)+1)/2 + (p.cols(1)+1)/2 + (p.cols(2)+1)/2
	}
	// Teams grow until every unit has two groups.
	units, team := b.be.about.Units, leastTeam
	for team < oneLanes && pairs*team < 2*units*oneLanes && p.k/8 >= 2*team {
		team *= 2
	}
	var norm ownNorm
	if len(b.step.Before) > 0 {
		norm = b.ownNorm(p)
	} else {
		norm.x = b.value(p.x)
	}
	var ends [mostParts]end
	if p.glu || p.act >= 0 {
		ends[0].y = b.value(p.out[0])
	} else {
		for i, n := range p.ns {
			ends[i] = b.endOf(n.Out[0])
		}
	}
	var slots address
	kv := tensor.F32
	for _, e := range ends {
		if e.cache != 0 {
			slots, kv = e.slots, e.kv
		}
	}
	each := func(f func(i int) any) (out []any) {
		for i := range mostParts {
			out = append(out, f(i))
		}
		return out
	}
	operand := func(k int) func(i int) any {
		return func(i int) any {
			if i >= len(p.ns) {
				return address(0)
			}
			return b.value(p.ns[i].In[k])
		}
	}
	arguments := []any{norm.x, norm.add, norm.sum, norm.weight, norm.bias}
	arguments = append(arguments, each(operand(1))...)
	arguments = append(arguments, each(func(i int) any { return ends[i].y })...)
	arguments = append(arguments, each(operand(2))...)
	arguments = append(arguments, each(func(i int) any { return ends[i].cache })...)
	arguments = append(arguments, slots)
	arguments = append(arguments, each(func(i int) any { return ends[i].pos })...)
	arguments = append(arguments, each(func(i int) any { return ends[i].length })...)
	arguments = append(arguments, each(func(i int) any { return ends[i].turns })...)
	arguments = append(arguments, each(func(i int) any { return ends[i].rope })...)
	arguments = append(arguments, each(func(i int) any { return p.cols(i) })...)
	arguments = append(arguments, p.k, p.glu, p.act, norm.kind, norm.eps, norm.offset, kv, team)
	many := min((pairs*team+oneLanes-1)/oneLanes, 8*units)
	c := typed(b.dtype(p.ns[0].In[1]), "common", "act", "turn", "one")
	c.options += fmt.Sprintf(" -DROOM=%d", rowRoom(b.be.about, p.k))
	b.launchOf(c, "k_one", [2]extent{groups(many), groups(1)}, oneLanes, arguments...)
}

// ownNorm is the norm before the products of a single row.
type ownNorm struct {
	x, add, sum, weight, bias address
	kind                      int // 0: none, 1: RMS, 2: layer
	eps, offset               float32
}

func (b *binder) ownNorm(p *products) ownNorm {
	norm := p.x.Node
	a := norm.Attr.(graph.NormAttr)
	o := ownNorm{x: b.value(norm.In[0]), weight: b.value(norm.In[1]), bias: b.value(norm.In[2]), kind: 2, eps: a.Eps, offset: a.Offset}
	if a.Kind == graph.RMSNorm {
		o.kind = 1
	}
	if len(b.step.Before) > 1 { // of a sum
		add := norm.In[0].Node
		o.x, o.add, o.sum = b.value(add.In[0]), b.value(add.In[1]), b.value(norm.In[0])
	}
	return o
}

// end is where the results of a part of a single row go.
type end struct {
	y, cache, slots    address
	kv                 tensor.DType
	rope               graph.RopeAttr
	pos, length, turns address // 0: no rotation
}

// endOf follows v through the steps that were taken in.
func (b *binder) endOf(v *graph.Value) end {
	var e end
	for _, n := range b.step.After {
		switch {
		case n.Op == graph.OpKVWrite && (n.In[2] == v || n.In[3] == v):
			e.cache, e.kv, e.slots = b.value(n.In[0]), n.In[0].DType, b.value(n.In[4])
			if n.In[3] == v {
				e.cache = b.value(n.In[1])
			}
			return e
		case n.Op == graph.OpRope && n.In[0] == v:
			e.rope = n.Attr.(graph.RopeAttr)
			e.pos, e.length, e.turns, v = b.value(n.In[1]), b.value(n.In[3]), b.turns(n, e.rope), n.Out[0]
		}
	}
	e.y = b.value(v)
	return e
}
