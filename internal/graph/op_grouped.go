package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// GroupedLinear is a Linear whose rows are of several experts: rows
// [offsets[e],offsets[e+1]) of x are multiplied with matrix e of w, which has
// the experts' matrices [N,K] one below the other. It has no bias.
func (b *Builder) GroupedLinear(name string, x, w, offsets *Value) *Value {
	return b.Apply(OpGroupedLinear, name, nil, x, w, offsets).Out[0]
}

// OpGroupedLinear: x[rows,K], w[E*N,K], offsets[E+1] -> y[rows,N].
var OpGroupedLinear = register(&OpDef{
	Name:   "grouped_linear",
	Matrix: 2,
	NoGrad: OpRoute.NoGrad,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fwi"); err != nil {
			return nil, err
		}
		x, w, offsets := n.In[0], n.In[1], n.In[2]
		experts, rows := offsets.Shape.Outer.Add-1, w.Shape.Outer.Add
		switch {
		case offsets.Shape.Rank() != 1 || offsets.Shape.Outer.Sym != tensor.None || experts < 1:
			return nil, fmt.Errorf("offsets are %s, expected a vector of one more than there are experts", offsets.Shape)
		case x.Shape.RowLen() != w.Shape.RowLen():
			return nil, fmt.Errorf("x is %s but w is %s: the inner dimensions differ", x.Shape, w.Shape)
		case rows%experts != 0:
			return nil, fmt.Errorf("w is %s, expected the rows of %d experts", w.Shape, experts)
		}
		return []Type{{tensor.Rows(x.Shape.Outer, rows/experts), tensor.F32}}, nil
	},
	// Experts without rows are not read. Which ones those are is known to the
	// run alone, so the bytes are those of as many experts as there can be.
	Cost: func(c *Call) Cost {
		x, w, y := &c.In[0], &c.In[1], &c.Out[0]
		experts := int64(c.In[2].Rows - 1)
		read := w.Bytes() / experts * min(experts, int64(x.Rows))
		return Cost{2 * int64(x.Len()) * int64(y.Cols), x.Bytes() + read + c.In[2].Bytes() + y.Bytes()}
	},
	Scratch: func(n *Node, _ tensor.Bind) int { return n.In[1].Shape.RowLen() },
	Ref: func(c *Call) {
		x, w, offsets, y := &c.In[0], &c.In[1], c.In[2].I32, &c.Out[0]
		for e := range len(offsets) - 1 {
			for j := range y.Cols {
				if offsets[e] == offsets[e+1] {
					break
				}
				w.ReadRow(c.Scratch, e*y.Cols+j)
				for i := offsets[e]; i < offsets[e+1]; i++ {
					y.F32[int(i)*y.Cols+j] = float32(dot64(x.Row(int(i)), c.Scratch[:w.Cols]))
				}
			}
		}
	},
})

// MulRows multiplies each row of x[T,D] with its element of f[T,1].
func (b *Builder) MulRows(name string, x, f *Value) *Value {
	return b.Apply(OpMulRows, name, nil, x, f).Out[0]
}

// OpMulRows: x[T,D], f[T,1] -> y[T,D].
var OpMulRows = register(&OpDef{
	Name:       "mul_rows",
	NoGrad:     OpRoute.NoGrad,
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ff"); err != nil {
			return nil, err
		}
		return []Type{like(n.In[0])}, wantShape("f", n.In[1], tensor.Rows(n.In[0].Shape.Outer, 1))
	},
	Cost: onePerElement,
	Ref: func(c *Call) {
		for t, f := range c.In[1].F32 {
			y := c.Out[0].Row(t)
			for i, v := range c.In[0].Row(t) {
				y[i] = f * v
			}
		}
	},
})
