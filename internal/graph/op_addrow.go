package graph

import "hotpath/internal/tensor"

// AddRow adds the vector v[D] to each row of x[rows,D].
func (b *Builder) AddRow(name string, x, v *Value) *Value {
	return b.Apply(OpAddRow, name, nil, x, v).Out[0]
}

// OpAddRow: x[rows,D], v[D] -> y[rows,D].
var OpAddRow = register(&OpDef{
	Name:       "add_row",
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ff"); err != nil {
			return nil, err
		}
		x := n.In[0]
		return []Type{like(x)}, wantShape("v", n.In[1], tensor.Static(x.Shape.RowLen()))
	},
	Cost: onePerElement,
	Ref: func(c *Call) {
		x, v, y := &c.In[0], c.In[1].F32, &c.Out[0]
		for i := range x.Rows {
			row := y.Row(i)
			for j, a := range x.Row(i) {
				row[j] = a + v[j]
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		d := []*Value{dOut[0], nil}
		if n.In[1].NeedsGrad {
			d[1] = b.Apply(OpColSum, "dv", nil, dOut[0]).Out[0]
		}
		return d
	},
})
