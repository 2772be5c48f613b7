package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// Linear is y[rows,N] = x[rows,K] w[N,K]^T + bias[N]. The weight may have any
// encoding; bias may be nil.
func (b *Builder) Linear(name string, x, w, bias *Value) *Value {
	return b.Apply(OpLinear, name, nil, x, w, bias).Out[0]
}

// OpLinear: x, w, bias? -> y.
var OpLinear = register(&OpDef{
	Name:   "linear",
	ByRow:  SameRow,
	Matrix: 2,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fwF"); err != nil {
			return nil, err
		}
		x, w := n.In[0], n.In[1]
		if x.Shape.RowLen() != w.Shape.RowLen() {
			return nil, fmt.Errorf("x is %s but w is %s: the inner dimensions differ", x.Shape, w.Shape)
		}
		rows := w.Shape.Outer.Add
		if bias := n.In[2]; bias != nil && bias.Shape.Len(tensor.Bind{}) != rows {
			return nil, fmt.Errorf("bias is %s, expected [%d]", bias.Shape, rows)
		}
		return []Type{{tensor.Rows(x.Shape.Outer, rows), tensor.F32}}, nil
	},
	Cost: func(c *Call) Cost {
		return Cost{2 * int64(c.In[0].Rows) * int64(c.In[1].Rows) * int64(c.In[1].Cols), c.IOBytes()}
	},
	Scratch: func(n *Node, _ tensor.Bind) int { return n.In[1].Shape.RowLen() },
	Ref: func(c *Call) {
		x, w, bias, y := &c.In[0], &c.In[1], &c.In[2], &c.Out[0]
		for j := range w.Rows {
			w.ReadRow(c.Scratch, j)
			for i := range x.Rows {
				acc := dot64(x.Row(i), c.Scratch)
				if bias.Present() {
					acc += float64(bias.F32[j])
				}
				y.F32[i*y.Cols+j] = float32(acc)
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		x, w, bias := n.In[0], n.In[1], n.In[2]
		d := make([]*Value, 3)
		if x.NeedsGrad {
			d[0] = b.Apply(OpLinearDX, "dx", nil, dOut[0], w).Out[0]
		}
		if w.NeedsGrad {
			d[1] = b.Apply(OpLinearDW, "dw", nil, dOut[0], x).Out[0]
		}
		if bias != nil && bias.NeedsGrad {
			d[2] = b.Apply(OpColSum, "db", nil, dOut[0]).Out[0]
		}
		return d
	},
})

// OpLinearDX: dy[rows,N], w[N,K] -> dx[rows,K].
var OpLinearDX = register(&OpDef{
	Name:   "linear_dx",
	ByRow:  SameRow,
	Matrix: 2,
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fw"); err != nil {
			return nil, err
		}
		return []Type{{tensor.Rows(n.In[0].Shape.Outer, n.In[1].Shape.RowLen()), tensor.F32}}, nil
	},
	Cost: func(c *Call) Cost {
		return Cost{2 * int64(c.In[0].Rows) * int64(c.In[1].Rows) * int64(c.In[1].Cols), c.IOBytes()}
	},
	Scratch: func(n *Node, _ tensor.Bind) int { return n.In[1].Shape.RowLen() },
	Ref: func(c *Call) {
		dy, w, dx := &c.In[0], &c.In[1], &c.Out[0]
		clear(dx.F32)
		for j := range w.Rows {
			w.ReadRow(c.Scratch, j)
			for i := range dy.Rows {
				g, row := dy.F32[i*dy.Cols+j], dx.Row(i)
				for k, v := range c.Scratch[:w.Cols] {
					row[k] += g * v
				}
			}
		}
	},
})

// OpLinearDW: dy[rows,N], x[rows,K] -> dw[N,K].
var OpLinearDW = register(&OpDef{
	Name:   "linear_dw",
	ByRow:  RowSum,
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ff"); err != nil {
			return nil, err
		}
		return []Type{{tensor.Static(n.In[0].Shape.RowLen(), n.In[1].Shape.RowLen()), tensor.F32}}, nil
	},
	Cost: func(c *Call) Cost {
		return Cost{2 * int64(c.In[0].Rows) * int64(c.In[0].Cols) * int64(c.In[1].Cols), c.IOBytes()}
	},
	Ref: func(c *Call) {
		dy, x, dw := &c.In[0], &c.In[1], &c.Out[0]
		clear(dw.F32)
		for i := range x.Rows {
			xr := x.Row(i)
			for j, g := range dy.Row(i) {
				row := dw.Row(j)
				for k, v := range xr {
					row[k] += g * v
				}
			}
		}
	},
})

// OpColSum: x[rows,N] -> sum over rows [N]: the gradient of a bias.
var OpColSum = register(&OpDef{
	Name:   "col_sum",
	ByRow:  RowSum,
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "f"); err != nil {
			return nil, err
		}
		return []Type{{tensor.Static(n.In[0].Shape.RowLen()), tensor.F32}}, nil
	},
	Cost: func(c *Call) Cost { return Cost{int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		x, y := &c.In[0], &c.Out[0]
		clear(y.F32)
		for i := range x.Rows {
			for j, v := range x.Row(i) {
				y.F32[j] += v
			}
		}
	},
})

// dot64 is a dot product with a float64 accumulator.
func dot64(a, b []float32) float64 {
	var acc float64
	for i, v := range a {
		acc += float64(v) * float64(b[i])
	}
	return acc
}
