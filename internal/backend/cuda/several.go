package cuda

import (
	"slices"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Products of 2 to 8 rows with matrices in bf16 on compute capability 9.0, as several.cu
// has them: 16 rows of weights are a unit, and 64 values of k a part. They pay where they
// take in rotation and the way into a cache. They do not take in the norm before them: for
// queries, keys and values of Llama 1B an H200 took 11.5 us with it, and 8.2 with a kernel
// of its own that lets this one start early.
const (
	severalRows   = 8
	severalWarps  = 8
	severalParts  = 4         // of k that a warp holds of 8 rows of x
	severalSplits = 8         // blocks of a cluster at most
	severalMost   = 160 << 10 // bytes of shared memory
	// mostOfSeveral is the largest k: what the warps of a cluster hold of 8 rows.
	mostOfSeveral = 64 * severalParts * severalWarps * severalSplits
)

// severalFit reports whether products of 2 to 8 rows are computed by these kernels; as is
// the type of a weight on the card. The planner merges steps, and the binder takes the
// kernels, by this function alone.
func (b *Backend) severalFit(nodes []*graph.Node, as func(weight *graph.Value) tensor.DType) bool {
	for _, n := range nodes {
		w := n.In[1]
		rows, k := w.Shape.Outer.Add, w.Shape.RowLen()
		if n.Op != graph.OpLinear || !isWeight(w) || as(w) != tensor.BF16 || b.inF32(k) || !half.Holds(k) || k > mostOfSeveral || b.large(rows, k) {
			return false
		}
	}
	return b.wgmma
}

// severalShape is how blocks share a step.
type severalShape struct {
	blocks, splits int // blocks, each of a cluster that shares k
	split          int // warps of a block that share its part of k
}

// shapeSeveral estimates the time of each division by the parts that a block reads one
// after the other. A cluster shares k only where a block cannot hold its part of x:
// each thread that ends results reads the sums of all blocks.
func shapeSeveral(pairs, k, cards int) (best severalShape) {
	units, parts, least := (pairs+7)/8, (k+63)/64, 0
	ceil := func(a, b int) int { return (a + b - 1) / b }
	for splits := 1; splits <= severalSplits && least == 0; splits *= 2 {
		per := ceil(parts, splits)
		if per > severalWarps*severalParts || splits > 1 && parts/splits < 4 {
			continue
		}
		blocks := max(1, min(units, cards/splits))
		mine := ceil(units, blocks)
		cost := mine * per
		if splits > 1 {
			cost += 8 + 2*splits
		}
		if least > 0 && cost >= least {
			continue
		}
		least, best = cost, severalShape{blocks, splits, severalWarps}
		turns := mine * ceil(per, severalWarps)
		for split := severalWarps / 2; split > 0 && ceil(per, split) <= severalParts; split /= 2 {
			if t := ceil(mine, severalWarps/split) * ceil(per, split); t < turns {
				turns, best.split = t, split
			}
		}
	}
	return best
}

// severalShared is the dynamic shared memory of a block: the ring, sums and the addresses
// of rows.
func severalShared(s severalShape, pairs int) int {
	const ring, sums = severalWarps * 5 * 2048, 2 * severalWarps * 2 * 128 * 4
	return ring + sums + 16*8*(((pairs+7)/8+s.blocks-1)/s.blocks)
}

// several is 2 to 8 rows, with what makes queries, keys and values of them.
func (b *binder) several(p *device.Products, x in) {
	pairs := p.Pairs()
	s := shapeSeveral(pairs, p.K, b.be.drv.describe().Units)
	b.launch("k_several", [3]int{s.blocks, s.splits, 1}, 32*severalWarps, append(append(b.oneArgs(p, device.RowNorm{X: x.at}, stream{split: s.split}), b.sizes, p.X.Shape.Outer, tail(8)), b.factor()...)...)
	l := &b.launches[len(b.launches)-1]
	l.shared, l.cluster = severalShared(s, pairs), s.splits
}

// merges are the steps of few rows that take in their neighbours: of a single row, and
// queries, keys and values of up to 8 rows, which take in what follows them.
func (b *Backend) merges() []plan.Merge {
	all := device.Merges(func(width int) bool { return width <= mostOfABlock }, nil)
	core := func(fits func(nodes []*graph.Node, as func(*graph.Value) tensor.DType) bool) func([]*graph.Node, func(*graph.Value) *plan.Format) bool {
		return func(nodes []*graph.Node, packing func(*graph.Value) *plan.Format) bool {
			return fits(nodes, func(w *graph.Value) tensor.DType { return typeOnCard(w, packing(w)) })
		}
	}
	for i := range all {
		all[i].Core = core(ofOneType)
	}
	m := all[0]
	heads := m.After
	m.Rows, m.Core = severalRows, core(b.severalFit)
	m.Before = nil
	m.After = func(nodes []*graph.Node) bool { return heads(nodes) && readsInputs(nodes) }
	return append(all, m)
}

// ofOneType reports whether the matrices of products have one type on the card.
func ofOneType(nodes []*graph.Node, as func(*graph.Value) tensor.DType) bool {
	products := slices.DeleteFunc(slices.Clone(nodes), func(n *graph.Node) bool { return n.Op != graph.OpLinear })
	return !slices.ContainsFunc(products, func(n *graph.Node) bool { return as(n.In[1]) != as(products[0].In[1]) })
}

// readsInputs reports whether positions, lengths and slots of nodes are inputs, which
// are there before the kernels before have ended.
func readsInputs(nodes []*graph.Node) bool {
	for _, n := range nodes {
		from := map[*graph.OpDef][]int{graph.OpRope: {1, 3}, graph.OpKVWrite: {4}}[n.Op]
		for _, i := range from {
			if !given(n.In[i]) {
				return false
			}
		}
	}
	return true
}
