package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// Buckets spreads a table[B,H] over columns: row h of the result has, in column
// i, element (of[i], h) of the table. MPNet's bias by distance is such a table.
func (b *Builder) Buckets(name string, table *Value, of []int) *Value {
	return b.Apply(OpBuckets, name, &BucketsAttr{of, 0}, table).Out[0]
}

// BucketsAttr is the bucket of each column; Rows is the height of the table,
// for the gradient only.
type BucketsAttr struct {
	Of   []int
	Rows int
}

// OpBuckets: table[B,H] -> y[H,len(Of)].
var OpBuckets = register(&OpDef{
	Name: "buckets",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "f"); err != nil {
			return nil, err
		}
		a, s := n.Attr.(*BucketsAttr), n.In[0].Shape
		if s.Rank() != 2 || s.Outer.Sym != tensor.None {
			return nil, fmt.Errorf("table is %s, expected [B,H]", s)
		}
		for _, i := range a.Of {
			if i < 0 || i >= s.Outer.Add {
				return nil, fmt.Errorf("bucket %d, expected one below %d", i, s.Outer.Add)
			}
		}
		return []Type{{tensor.Static(s.RowLen(), len(a.Of)), tensor.F32}}, nil
	},
	Cost: func(c *Call) Cost { return Cost{0, c.IOBytes()} },
	Ref: func(c *Call) {
		table, y := &c.In[0], &c.Out[0]
		for i, at := range c.Node.Attr.(*BucketsAttr).Of {
			for h, v := range table.Row(at) {
				y.Row(h)[i] = v
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		attr := &BucketsAttr{n.Attr.(*BucketsAttr).Of, n.In[0].Shape.Outer.Add}
		return []*Value{b.Apply(OpBucketsGrad, "dtable", attr, dOut[0]).Out[0]}
	},
})

// OpBucketsGrad: dy[H,len(Of)] -> dtable[Rows,H], added in the order of columns.
var OpBucketsGrad = register(&OpDef{
	Name:   "buckets_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "f"); err != nil {
			return nil, err
		}
		a, dy := n.Attr.(*BucketsAttr), n.In[0].Shape
		return []Type{{tensor.Static(a.Rows, dy.Outer.Add), tensor.F32}}, nil
	},
	Cost: func(c *Call) Cost { return Cost{int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		dy, dt := &c.In[0], &c.Out[0]
		clear(dt.F32)
		for i, at := range c.Node.Attr.(*BucketsAttr).Of {
			for h := range dt.Cols {
				dt.Row(at)[h] += dy.Row(h)[i]
			}
		}
	},
})
