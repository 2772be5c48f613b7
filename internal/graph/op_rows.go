package graph

import "hotpath/internal/tensor"

// Gather takes rows of x[T,D]: rows[R] -> [R,D]. Rows may repeat.
func (b *Builder) Gather(name string, x, rows *Value) *Value {
	return b.Apply(OpGather, name, nil, x, rows).Out[0]
}

// RowsAttr is the number of rows that an op makes where no operand has it.
type RowsAttr struct{ Outer tensor.Dim }

// OpGather: x[T,D], rows[R] -> y[R,D].
var OpGather = register(&OpDef{
	Name: "gather",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fi"); err != nil {
			return nil, err
		}
		x, rows := n.In[0], n.In[1]
		s := x.Shape
		s.Outer = rows.Shape.Outer
		return []Type{{s, tensor.F32}}, wantShape("rows", rows, tensor.Rows(s.Outer))
	},
	Cost: func(c *Call) Cost { return Cost{0, 2*c.Out[0].Bytes() + c.In[1].Bytes()} },
	Ref: func(c *Call) {
		x, y := &c.In[0], &c.Out[0]
		for r, t := range c.In[1].I32 {
			copy(y.Row(r), x.Row(int(t)))
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		attr := RowsAttr{n.In[0].Shape.Outer}
		return []*Value{b.Apply(OpScatterRows, "dx", attr, dOut[0], n.In[1]).Out[0], nil}
	},
})

// OpScatterRows: dy[R,D], rows[R] -> dx[T,D]: zeros where no row points;
// repeated rows are added in order of R.
var OpScatterRows = register(&OpDef{
	Name:   "scatter_rows",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fi"); err != nil {
			return nil, err
		}
		s := n.In[0].Shape
		err := wantShape("rows", n.In[1], tensor.Rows(s.Outer))
		s.Outer = n.Attr.(RowsAttr).Outer
		return []Type{{s, tensor.F32}}, err
	},
	Cost: func(c *Call) Cost { return Cost{int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		dy, dx := &c.In[0], &c.Out[0]
		clear(dx.F32)
		for r, t := range c.In[1].I32 {
			row := dx.Row(int(t))
			for i, v := range dy.Row(r) {
				row[i] += v
			}
		}
	},
})
