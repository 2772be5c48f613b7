package cpu

import (
	"fmt"
	"strings"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// siblings are products of one x with several weights, as one step: queries,
// keys and values. Shares are cut over the columns of all, so that a narrow one
// keeps no worker waiting, and a worker makes its form of x once. The weights
// may differ in storage type, size and form.
type siblings struct {
	x     mat
	xh    half // x, where it is kept in bf16
	parts []sibling
	mr    int  // shares are cut at multiples of it where they are rows
	nr    int  // and of it where they are columns: whole blocks of all products
	cheap bool // panels of all cost nothing to fetch
	label string
}

// sibling is y = x w^T + bias.
type sibling struct {
	*product
	y      mat
	bias   []float32
	direct bool // few rows multiply with the file's rows as they lie
	first  int  // column among those of all, each in whole blocks
}

// beside reports whether two products of one input may share a step: their
// class is the same, and training rewrites both weights or none.
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
	x := s.Nodes[0].In[0]
	xm, err := b.f32(x)
	if err != nil {
		return nil, err
	}
	k := &siblings{x: xm, xh: b.half(x, xm), cheap: true, parts: make([]sibling, len(s.Nodes))}
	for i, n := range s.Nodes {
		ms, err := b.mats(n.Out[0], n.In[2])
		if err != nil {
			return nil, err
		}
		p, err := newProduct(b, n.In[1])
		if err != nil {
			return nil, err
		}
		k.parts[i] = sibling{product: p, y: ms[0], bias: ms[1].full, direct: b.direct(p, xm)}
		mr, nr := p.tile()
		k.mr, k.nr, k.cheap = max(k.mr, mr), max(k.nr, nr), k.cheap && p.cheap
	}
	for i := range k.parts[1:] {
		k.parts[0].own = max(k.parts[0].own, k.parts[i+1].own) // which is asked for all
		before := &k.parts[i]
		k.parts[i+1].first = before.first + (before.n+k.nr-1)/k.nr*k.nr
	}
	k.label = siblingLabel(k.parts)
	return k, nil
}

// siblingLabel names each kernel once, with how many there are of it.
func siblingLabel(parts []sibling) string {
	var labels []string
	for i := 0; i < len(parts); {
		first := i
		for i < len(parts) && parts[i].label == parts[first].label {
			i++
		}
		label := parts[first].label
		if i-first > 1 {
			label += fmt.Sprintf(" x%d", i-first)
		}
		labels = append(labels, label)
	}
	return strings.Join(labels, ", ")
}

func (k *siblings) name() string            { return k.label }
func (k *siblings) computeClass() Precision { return k.parts[0].class }

// columns is those of all products, each in whole blocks.
func (k *siblings) columns() int {
	last := &k.parts[len(k.parts)-1]
	return last.first + last.n
}

func (k *siblings) width(b tensor.Bind, n int) int {
	return k.parts[0].width(k.x.rows(b), k.columns(), 1, k.nr, n)
}

func (k *siblings) run(w *worker, b tensor.Bind, i, n int) {
	rows := k.x.rows(b)
	m0, m1, c0, c1 := k.parts[0].part(rows, k.columns(), k.mr, k.nr, k.cheap, i, n)
	x := k.x.factor(k.xh, b, m0)
	for j := range k.parts {
		p := &k.parts[j]
		lo, hi := max(0, c0-p.first), min(p.n, c1-p.first)
		if lo < hi {
			p.multiply(w, p.y.full[m0*p.n:], x, p.bias, m1-m0, lo, hi, p.isFew(rows, p.direct))
		}
	}
}
