package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// Pool makes one row of each sequence: x[T,D], q_start[S+1] -> [S,D]. An
// empty sequence gives zeros.
func (b *Builder) Pool(name string, x, qStart *Value, kind PoolKind) *Value {
	return b.Apply(OpPool, name, PoolAttr{Kind: kind}, x, qStart).Out[0]
}

// L2Norm divides each row of x by its Euclidean length, or by 1e-12 where the
// row is shorter than that.
func (b *Builder) L2Norm(name string, x *Value) *Value {
	return b.Apply(OpL2Norm, name, nil, x).Out[0]
}

// PoolKind says which rows of a sequence a pool takes.
type PoolKind uint8

const (
	PoolMean PoolKind = iota
	PoolCLS           // the first
	PoolLast
)

func (k PoolKind) String() string { return [...]string{"mean", "cls", "last"}[k] }

// PoolAttr describes a pool; Outer is set for the gradient only.
type PoolAttr struct {
	Kind  PoolKind
	Outer tensor.Dim
}

// span narrows the rows of a sequence to those that are averaged.
func (a *PoolAttr) span(lo, hi int) (int, int) {
	switch {
	case lo == hi || a.Kind == PoolMean:
		return lo, hi
	case a.Kind == PoolCLS:
		return lo, lo + 1
	}
	return hi - 1, hi
}

func (a *PoolAttr) check() error {
	if a.Kind > PoolLast {
		return fmt.Errorf("unknown pooling %d", uint8(a.Kind))
	}
	return nil
}

// rows counts the rows that are touched: read of x, or added into dx.
func (a *PoolAttr) rows(qStart []int32) (rows, seqs int64) {
	for s := 0; s+1 < len(qStart); s++ {
		if lo, hi := a.span(int(qStart[s]), int(qStart[s+1])); lo < hi {
			rows, seqs = rows+int64(hi-lo), seqs+1
		}
	}
	return rows, seqs
}

// OpPool: x[T,D], q_start[S+1] -> y[S,D].
var OpPool = register(&OpDef{
	Name: "pool",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fi"); err != nil {
			return nil, err
		}
		a, s := n.Attr.(PoolAttr), n.In[0].Shape
		seqs, err := sequences(n.In[1])
		s.Outer = seqs
		return []Type{{s, tensor.F32}}, first(err, a.check())
	},
	Cost: func(c *Call) Cost {
		a, cols := c.Node.Attr.(PoolAttr), int64(c.In[0].Cols)
		rows, seqs := a.rows(c.In[1].I32)
		cost := Cost{0, rows*cols*4 + c.In[1].Bytes() + c.Out[0].Bytes()}
		if a.Kind == PoolMean {
			cost.FLOPs = (rows + seqs) * cols
		}
		return cost
	},
	Ref: func(c *Call) {
		a, x, qStart, y := c.Node.Attr.(PoolAttr), &c.In[0], c.In[1].I32, &c.Out[0]
		for s := range y.Rows {
			lo, hi := a.span(int(qStart[s]), int(qStart[s+1]))
			for i := range y.Cols {
				var acc float64
				for t := lo; t < hi; t++ {
					acc += float64(x.Row(t)[i])
				}
				y.Row(s)[i] = float32(acc / float64(max(hi-lo, 1)))
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		attr := PoolAttr{n.Attr.(PoolAttr).Kind, n.In[0].Shape.Outer}
		return []*Value{b.Apply(OpPoolGrad, "dx", attr, dOut[0], n.In[1]).Out[0], nil}
	},
})

// OpPoolGrad: dy[S,D], q_start[S+1] -> dx[T,D].
var OpPoolGrad = register(&OpDef{
	Name:   "pool_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fi"); err != nil {
			return nil, err
		}
		a, s := n.Attr.(PoolAttr), n.In[0].Shape
		seqs, err := sequences(n.In[1])
		if err == nil && seqs != s.Outer {
			err = fmt.Errorf("dy is %s, expected %s rows", s, seqs)
		}
		s.Outer = a.Outer
		return []Type{{s, tensor.F32}}, first(err, a.check())
	},
	Cost: func(c *Call) Cost {
		a, cost := c.Node.Attr.(PoolAttr), Cost{0, c.IOBytes()}
		if a.Kind == PoolMean {
			_, seqs := a.rows(c.In[1].I32)
			cost.FLOPs = seqs * int64(c.In[0].Cols)
		}
		return cost
	},
	Ref: func(c *Call) {
		a, dy, qStart, dx := c.Node.Attr.(PoolAttr), &c.In[0], c.In[1].I32, &c.Out[0]
		clear(dx.F32)
		for s := range dy.Rows {
			lo, hi := a.span(int(qStart[s]), int(qStart[s+1]))
			for t := lo; t < hi; t++ {
				row := dx.Row(t)
				for i, g := range dy.Row(s) {
					row[i] = float32(float64(g) / float64(hi-lo))
				}
			}
		}
	},
})

// l2Eps is the smallest length that L2Norm divides by.
const l2Eps = 1e-12

// OpL2Norm: x[R,D] -> x / max(|x|, 1e-12) row by row.
var OpL2Norm = register(&OpDef{
	Name:       "l2norm",
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "f"); err != nil {
			return nil, err
		}
		return []Type{like(n.In[0])}, nil
	},
	Cost: func(c *Call) Cost {
		return Cost{3*int64(c.In[0].Len()) + 3*int64(c.In[0].Rows), c.IOBytes()}
	},
	Ref: func(c *Call) {
		x, y := &c.In[0], &c.Out[0]
		for r := range x.Rows {
			inv := 1 / max(math.Sqrt(dot64(x.Row(r), x.Row(r))), l2Eps)
			row := y.Row(r)
			for i, v := range x.Row(r) {
				row[i] = float32(float64(v) * inv)
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		return []*Value{b.Apply(OpL2NormGrad, "dx", nil, dOut[0], n.In[0]).Out[0]}
	},
})

// OpL2NormGrad: dy[R,D], x[R,D] -> dx = (dy - y*(y.dy)) / |x|, y = x/|x|.
var OpL2NormGrad = register(&OpDef{
	Name:       "l2norm_grad",
	NoGrad:     noSecond,
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ff"); err != nil {
			return nil, err
		}
		return []Type{like(n.In[1])}, wantShape("dy", n.In[0], n.In[1].Shape)
	},
	Cost: func(c *Call) Cost {
		return Cost{7*int64(c.In[0].Len()) + 5*int64(c.In[0].Rows), c.IOBytes()}
	},
	Ref: func(c *Call) {
		dy, x, dx := &c.In[0], &c.In[1], &c.Out[0]
		for r := range x.Rows {
			norm := math.Sqrt(dot64(x.Row(r), x.Row(r)))
			inv := 1 / max(norm, l2Eps)
			proj := dot64(x.Row(r), dy.Row(r)) * inv * inv
			if norm < l2Eps {
				proj = 0 // the divisor is a constant there
			}
			row, xr := dx.Row(r), x.Row(r)
			for i, g := range dy.Row(r) {
				row[i] = float32((float64(g) - float64(xr[i])*proj) * inv)
			}
		}
	},
})
