package graph

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hotpath/internal/tensor"
)

// Pool makes one row of each sequence: x[T,D], q_start[S+1] -> [S,k*D] for k
// kinds side by side. An empty sequence gives zeros.
func (b *Builder) Pool(name string, x, qStart *Value, kind PoolKind) *Value {
	return b.Apply(OpPool, name, PoolAttr{Kind: kind}, x, qStart).Out[0]
}

// L2Norm divides each row of x by its Euclidean length, or by 1e-12 where the
// row is shorter than that.
func (b *Builder) L2Norm(name string, x *Value) *Value {
	return b.Apply(OpL2Norm, name, nil, x).Out[0]
}

// PoolKind says what a pool makes of the rows of a sequence: one of the kinds
// below, or several side by side (PoolOf).
type PoolKind uint32

const (
	PoolMean     PoolKind = iota
	PoolCLS               // the first
	PoolLast              // the last
	PoolMax               // the largest of each element
	PoolMeanSqrt          // the sum over the root of the number of rows
	PoolWeighted          // the mean, row i counting i+1 times
	poolKinds
)

var poolNames = [poolKinds]string{"mean", "cls", "last", "max", "mean_sqrt_len", "weightedmean"}

// poolBits is the room of one kind in a PoolKind, and poolMost how many there
// can be. All but the first count from 1, so that 0 is the end.
const (
	poolBits = 4
	poolMost = 32 / poolBits
)

// PoolOf puts kinds side by side, in this order.
func PoolOf(kinds ...PoolKind) (PoolKind, error) {
	if len(kinds) == 0 || len(kinds) > poolMost {
		return 0, fmt.Errorf("%d poolings side by side, expected 1 to %d", len(kinds), poolMost)
	}
	all := kinds[0]
	for i, k := range kinds[1:] {
		all |= (k + 1) << (poolBits * (i + 1))
	}
	return all, nil
}

// Len is the number of kinds side by side.
func (k PoolKind) Len() int {
	n := 1
	for k >>= poolBits; k != 0; k >>= poolBits {
		n++
	}
	return n
}

// At is kind i of those side by side.
func (k PoolKind) At(i int) PoolKind {
	if i == 0 {
		return k & (1<<poolBits - 1)
	}
	return k>>(poolBits*i)&(1<<poolBits-1) - 1
}

func (k PoolKind) String() string {
	var names []string
	for i := range k.Len() {
		names = append(names, poolNames[k.At(i)])
	}
	return strings.Join(names, "+")
}

// ParsePool reads what String writes: mean, cls+max.
func ParsePool(s string) (PoolKind, error) {
	var kinds []PoolKind
	for name := range strings.SplitSeq(s, "+") {
		i := slices.Index(poolNames[:], name)
		if i < 0 {
			return 0, fmt.Errorf("pooling %q, expected one of %s, or several joined by +", name, strings.Join(poolNames[:], ", "))
		}
		kinds = append(kinds, PoolKind(i))
	}
	return PoolOf(kinds...)
}

// PoolAttr describes a pool; Outer is set for the gradient only.
type PoolAttr struct {
	Kind  PoolKind
	Outer tensor.Dim
}

// span narrows the rows of a sequence to those that a kind reads.
func (k PoolKind) span(lo, hi int) (int, int) {
	switch {
	case lo == hi:
		return lo, hi
	case k == PoolCLS:
		return lo, lo + 1
	case k == PoolLast:
		return hi - 1, hi
	}
	return lo, hi
}

func (a *PoolAttr) check() error {
	for i := range a.Kind.Len() {
		if k := a.Kind.At(i); k >= poolKinds {
			return fmt.Errorf("unknown pooling %d", k)
		}
	}
	return nil
}

// rows counts the rows that are touched: read of x, or added into dx.
func (a *PoolAttr) rows(qStart []int32) (rows, seqs int64) {
	kind := a.Kind.At(0)
	for i := range a.Kind.Len() {
		if k := a.Kind.At(i); k != PoolCLS && k != PoolLast {
			kind = k // it reads all of them
		}
	}
	for s := 0; s+1 < len(qStart); s++ {
		if lo, hi := kind.span(int(qStart[s]), int(qStart[s+1])); lo < hi {
			rows, seqs = rows+int64(hi-lo), seqs+1
		}
	}
	return rows, seqs
}

// divisor is what the sum over rows is divided by.
func (k PoolKind) divisor(rows int) float64 {
	n := float64(max(rows, 1))
	switch k {
	case PoolMeanSqrt:
		return math.Sqrt(n)
	case PoolWeighted:
		return n * (n + 1) / 2
	}
	return n
}

// pool is y[D] of rows [lo,hi) of x[T,D].
func (k PoolKind) pool(y []float32, x *Tensor, lo, hi int) {
	lo, hi = k.span(lo, hi)
	n := k.divisor(hi - lo)
	for i := range y {
		var acc float64
		for t := lo; t < hi; t++ {
			v := float64(x.Row(t)[i])
			switch {
			case k == PoolWeighted:
				acc += v * float64(t-lo+1)
			case k != PoolMax:
				acc += v
			case t == lo || v > acc:
				acc = v
			}
		}
		if k != PoolMax {
			acc /= n
		}
		y[i] = float32(acc)
	}
}

// OpPool: x[T,D], q_start[S+1] -> y[S,k*D].
var OpPool = register(&OpDef{
	Name: "pool",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fi"); err != nil {
			return nil, err
		}
		a, s := n.Attr.(PoolAttr), n.In[0].Shape
		seqs, err := sequences(n.In[1])
		if s.Rank() != 2 {
			err = fmt.Errorf("x is %s, expected [T,D]", s)
		}
		return []Type{{tensor.Rows(seqs, a.Kind.Len()*s.RowLen()), tensor.F32}}, first(err, a.check())
	},
	CostReads: []int{1},
	Cost: func(c *Call) Cost {
		a, cols := c.Node.Attr.(PoolAttr), int64(c.In[0].Cols)
		rows, seqs := a.rows(c.In[1].I32)
		cost := Cost{0, rows*cols*4 + c.In[1].Bytes() + c.Out[0].Bytes()}
		for i := range a.Kind.Len() {
			switch a.Kind.At(i) {
			case PoolMean, PoolMeanSqrt:
				cost.FLOPs += (rows + seqs) * cols
			case PoolMax:
				cost.FLOPs += rows * cols
			case PoolWeighted:
				cost.FLOPs += (2*rows + seqs) * cols
			}
		}
		return cost
	},
	Ref: func(c *Call) {
		a, x, qStart, y := c.Node.Attr.(PoolAttr), &c.In[0], c.In[1].I32, &c.Out[0]
		for s := range y.Rows {
			for i := range a.Kind.Len() {
				a.Kind.At(i).pool(y.Row(s)[i*x.Cols:(i+1)*x.Cols], x, int(qStart[s]), int(qStart[s+1]))
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		attr, x := PoolAttr{n.Attr.(PoolAttr).Kind, n.In[0].Shape.Outer}, (*Value)(nil)
		for i := range attr.Kind.Len() {
			if attr.Kind.At(i) == PoolMax {
				x = n.In[0] // says which row is the largest
			}
		}
		return []*Value{b.Apply(OpPoolGrad, "dx", attr, dOut[0], n.In[1], x).Out[0], nil}
	},
})

// grad adds to rows [lo,hi) of dx[T,D] what flows back from dy[D]. x is read
// by PoolMax only: the first of the largest rows gets all of it.
func (k PoolKind) grad(dx, x *Tensor, dy []float32, lo, hi int) {
	lo, hi = k.span(lo, hi)
	n := k.divisor(hi - lo)
	if k == PoolMax {
		for i, g := range dy {
			top := lo
			for t := lo + 1; t < hi; t++ {
				if x.Row(t)[i] > x.Row(top)[i] {
					top = t
				}
			}
			if lo < hi {
				dx.Row(top)[i] += g
			}
		}
		return
	}
	for t := lo; t < hi; t++ {
		row, f := dx.Row(t), 1/n
		if k == PoolWeighted {
			f *= float64(t - lo + 1)
		}
		for i, g := range dy {
			row[i] += float32(float64(g) * f)
		}
	}
}

// OpPoolGrad: dy[S,k*D], q_start[S+1], x[T,D]? -> dx[T,D]; x is there where one
// of the kinds is PoolMax.
var OpPoolGrad = register(&OpDef{
	Name:   "pool_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fiF"); err != nil {
			return nil, err
		}
		a, s := n.Attr.(PoolAttr), n.In[0].Shape
		seqs, err := sequences(n.In[1])
		if err == nil && (seqs != s.Outer || s.RowLen()%a.Kind.Len() != 0) {
			err = fmt.Errorf("dy is %s, expected %s rows of %d parts", s, seqs, a.Kind.Len())
		}
		s = tensor.Rows(a.Outer, s.RowLen()/a.Kind.Len())
		return []Type{{s, tensor.F32}}, first(err, a.check(), wantShape("x", n.In[2], s))
	},
	CostReads: []int{1},
	Cost: func(c *Call) Cost {
		a, cols := c.Node.Attr.(PoolAttr), int64(c.Out[0].Cols)
		rows, _ := a.rows(c.In[1].I32)
		return Cost{2 * int64(a.Kind.Len()) * rows * cols, c.IOBytes()}
	},
	Ref: func(c *Call) {
		a, dy, qStart, dx := c.Node.Attr.(PoolAttr), &c.In[0], c.In[1].I32, &c.Out[0]
		clear(dx.F32)
		for s := range dy.Rows {
			for i := range a.Kind.Len() {
				a.Kind.At(i).grad(dx, &c.In[2], dy.Row(s)[i*dx.Cols:(i+1)*dx.Cols], int(qStart[s]), int(qStart[s+1]))
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
