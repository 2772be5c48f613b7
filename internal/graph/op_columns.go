package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// Columns is the first n columns of x[rows,D].
func (b *Builder) Columns(name string, x *Value, n int) *Value {
	return b.Apply(OpColumns, name, ColumnsAttr{n}, x).Out[0]
}

// RowDot is the dot product of each row of x[rows,D] with that of y, [rows].
func (b *Builder) RowDot(name string, x, y *Value) *Value {
	return b.Apply(OpRowDot, name, nil, x, y).Out[0]
}

// ColumnsAttr is the number of columns of the result.
type ColumnsAttr struct{ N int }

func inferColumns(n *Node) ([]Type, error) {
	if err := wantInputs(n, "f"); err != nil {
		return nil, err
	}
	a, s := n.Attr.(ColumnsAttr), n.In[0].Shape
	if s.Rank() != 2 || a.N < 1 {
		return nil, fmt.Errorf("x is %s, expected rows of at least %d columns", s, a.N)
	}
	return []Type{{tensor.Rows(s.Outer, a.N), tensor.F32}}, nil
}

// copyColumns copies what both have, and leaves zeros beyond it.
func copyColumns(c *Call) {
	x, y := &c.In[0], &c.Out[0]
	for i := range x.Rows {
		row := y.Row(i)
		clear(row[copy(row, x.Row(i)[:min(x.Cols, y.Cols)]):])
	}
}

// OpColumns: x[rows,D] -> y[rows,N], N at most D.
var OpColumns = register(&OpDef{
	Name: "columns",
	Infer: func(n *Node) ([]Type, error) {
		t, err := inferColumns(n)
		if a := n.Attr.(ColumnsAttr); err == nil && a.N > n.In[0].Shape.RowLen() {
			err = fmt.Errorf("x is %s, expected rows of at least %d columns", n.In[0].Shape, a.N)
		}
		return t, err
	},
	Cost: func(c *Call) Cost { return Cost{0, 2 * c.Out[0].Bytes()} },
	Ref:  copyColumns,
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		return []*Value{b.Apply(OpColumnsGrad, "dx", ColumnsAttr{n.In[0].Shape.RowLen()}, dOut[0]).Out[0]}
	},
})

// OpColumnsGrad: dy[rows,N] -> dx[rows,D], zeros behind N.
var OpColumnsGrad = register(&OpDef{
	Name:   "columns_grad",
	NoGrad: noSecond,
	Infer:  inferColumns,
	Cost:   func(c *Call) Cost { return Cost{0, c.IOBytes()} },
	Ref:    copyColumns,
})

// OpRowDot: x[rows,D], y[rows,D] -> [rows].
var OpRowDot = register(&OpDef{
	Name: "row_dot",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ff"); err != nil {
			return nil, err
		}
		s := n.In[0].Shape
		return []Type{{tensor.Rows(s.Outer), tensor.F32}}, wantShape("y", n.In[1], s)
	},
	Cost: func(c *Call) Cost { return Cost{2 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		x, y := &c.In[0], &c.In[1]
		for i := range x.Rows {
			c.Out[0].F32[i] = float32(dot64(x.Row(i), y.Row(i)))
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		d := make([]*Value, 2)
		for i, name := range []string{"dx", "dy"} {
			if n.In[i].NeedsGrad {
				d[i] = b.Apply(OpRowDotGrad, name, nil, n.In[1-i], dOut[0]).Out[0]
			}
		}
		return d
	},
})

// OpRowDotGrad: x[rows,D], d[rows] -> each row of x times its d.
var OpRowDotGrad = register(&OpDef{
	Name:   "row_dot_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ff"); err != nil {
			return nil, err
		}
		return []Type{like(n.In[0])}, wantShape("d", n.In[1], tensor.Rows(n.In[0].Shape.Outer))
	},
	Cost: onePerElement,
	Ref: func(c *Call) {
		x, y := &c.In[0], &c.Out[0]
		for i, d := range c.In[1].F32 {
			row := y.Row(i)
			for j, v := range x.Row(i) {
				row[j] = d * v
			}
		}
	},
})
