package cpu

import (
	"fmt"
	"strings"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// siblings are products of one x with several weights, as one step: queries, keys
// and values. Shares are cut over the columns of all products, so that a narrow
// product delays no worker, and a worker encodes x once. The weights may differ
// in storage type, size and form.
type siblings struct {
	x     operand
	parts []sibling
	nr    int // columns of each product are counted in whole blocks of so many
	label string
	inner *perWorker[[]float32] // rows of results that lie in no other memory
}

// sibling is y = x w^T + bias.
type sibling struct {
	*product
	y     mat // absent where the results end in a cache
	bias  []float32
	end   headEnd
	first int // column among those of all, each in whole blocks
}

// beside reports whether two products of one input may share a step: they have
// the same class, and training rewrites both weights or neither.
func (b *Backend) beside(m, n *graph.Node) bool {
	form := func(n *graph.Node) (Precision, graph.LeafKind) {
		w := n.In[1]
		return b.opts.Precision.Class(w.Node.Leaf.Role, w.DType), w.Node.Leaf.Kind
	}
	mc, mk := form(m)
	nc, nk := form(n)
	return mc == nc && mk == nk
}

func bindSiblings(b *binder, s *plan.Step) (kernel, error) {
	nodes := s.Core()
	k := &siblings{x: b.operand(nodes[0].In[0]), parts: make([]sibling, len(nodes)), nr: 1}
	var products []*product
	grain := 1 // columns that belong together
	for i, n := range nodes {
		p, err := newProduct(b, n)
		if err != nil {
			return nil, err
		}
		products = append(products, p)
		part, v := sibling{product: p, bias: b.f32(n.In[2]).full}, n.Out[0]
		for _, w := range p.ways {
			k.nr = max(k.nr, w.split().nr)
		}
		if len(s.After) > 0 {
			part.end, v, grain = newHeadEnd(b, v, grain)
			k.inner = scratchFor(b, "inner rows", [2]int{k.x.rows(b.plan.Max) * p.n}, func(size [2]int) []float32 { return make([]float32, size[0]) })
		}
		part.y = b.f32(v)
		k.parts[i] = part
	}
	k.nr = lcm(k.nr, grain)
	for i := range k.parts[1:] {
		before := &k.parts[i]
		k.parts[i+1].first = before.first + (before.n+k.nr-1)/k.nr*k.nr
	}
	k.label = endLabel(b, k.x.own.label(kernelLabel(products...)))
	return k, nil
}

// kernelLabel names the kernels of products that run in one step: each once, with
// the number of products in a row that it multiplies.
func kernelLabel(products ...*product) string {
	var labels []string
	for i := 0; i < len(products); {
		first, label := i, products[i].most().label()
		for i < len(products) && products[i].most().label() == label {
			i++
		}
		if i-first > 1 {
			label += fmt.Sprintf(" x%d", i-first)
		}
		labels = append(labels, label)
	}
	return strings.Join(labels, ", ")
}

func (k *siblings) name() string { return k.label }

// columns is the sum of the columns of all products, each in whole blocks.
func (k *siblings) columns() int {
	last := &k.parts[len(k.parts)-1]
	return last.first + last.n
}

// columns is its part of columns [c0,c1) of all products.
func (p *sibling) columns(c0, c1 int) (lo, hi int) {
	return max(0, c0-p.first), min(p.n, c1-p.first)
}

// split is that of all products for a number of rows.
func (k *siblings) split(rows int) split {
	cut := k.parts[0].at(rows).split()
	for i := range k.parts[1:] {
		cut = cut.with(k.parts[i+1].at(rows).split())
	}
	cut.nr = k.nr
	return k.x.cut(cut)
}

func (k *siblings) width(b tensor.Bind, n int) int {
	rows := k.x.rows(b)
	return k.split(rows).width(rows, k.columns(), k.parts[0].k, 1, n)
}

func (k *siblings) grains(b tensor.Bind) (shares int, c claims) {
	return k.split(k.x.rows(b)).grains(k.columns(), k.parts[0].k, 1)
}

func (k *siblings) runShare(w *worker, b tensor.Bind, i, n int) { k.runShares(w, b, i, i+1, n) }

func (k *siblings) runShares(w *worker, b tensor.Bind, i, j, n int) {
	rows := k.x.rows(b)
	m0, m1, c0, c1 := k.split(rows).span(rows, k.columns(), i, j, n)
	in := k.x.of(w, b, i)
	x := in.from(m0)
	for j := range k.parts {
		if lo, hi := k.parts[j].columns(c0, c1); lo < hi {
			k.parts[j].end.fetch(m0, m1, lo, hi)
		}
	}
	last := w.next
	for j := range k.parts {
		p := &k.parts[j]
		lo, hi := p.columns(c0, c1)
		if lo >= hi {
			continue
		}
		if w.next = last; j+1 < len(k.parts) && k.parts[j+1].first < c1 {
			w.next = firstOf(k.parts[j+1].at(rows), rows, 0, c1-k.parts[j+1].first)
		}
		y := p.y.full
		if y == nil {
			y = k.inner.of[w.lane]
		}
		p.at(rows).multiply(w, task{y: y[m0*p.n:], x: x, bias: p.bias, rows: m1 - m0}, lo, hi)
		for m := m0; m < m1; m++ {
			for _, f := range p.end.parts {
				f(w, y[m*p.n+lo:m*p.n+hi], m, lo)
			}
		}
	}
}
