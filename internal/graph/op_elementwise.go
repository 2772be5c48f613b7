package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// Add is x + y, shapes equal.
func (b *Builder) Add(name string, x, y *Value) *Value {
	return b.Apply(OpAdd, name, nil, x, y).Out[0]
}

// Mul is x * y elementwise, shapes equal.
func (b *Builder) Mul(name string, x, y *Value) *Value {
	return b.Apply(OpMul, name, nil, x, y).Out[0]
}

// Scale is c * x.
func (b *Builder) Scale(name string, x *Value, c float32) *Value {
	return b.Apply(OpScale, name, ScaleAttr{c}, x).Out[0]
}

// Shift is x + c.
func (b *Builder) Shift(name string, x *Value, c float32) *Value {
	return b.Apply(OpShift, name, ShiftAttr{c}, x).Out[0]
}

// Fill is a constant tensor: the seed of a gradient, for example.
func (b *Builder) Fill(name string, s tensor.Shape, c float32) *Value {
	return b.Apply(OpFill, name, FillAttr{s, c}).Out[0]
}

// ScaleAttr is the factor of OpScale.
type ScaleAttr struct{ C float32 }

// ShiftAttr is what OpShift adds.
type ShiftAttr struct{ C float32 }

// FillAttr is the shape and the content of OpFill.
type FillAttr struct {
	Shape tensor.Shape
	C     float32
}

func inferBinary(n *Node) ([]Type, error) {
	if err := wantInputs(n, "ff"); err != nil {
		return nil, err
	}
	return []Type{like(n.In[0])}, wantShape("operand 1", n.In[1], n.In[0].Shape)
}

// onePerElement is the cost of an op with one FLOP an output element.
func onePerElement(c *Call) Cost { return Cost{int64(c.Out[0].Len()), c.IOBytes()} }

// OpAdd: x, y -> x + y.
var OpAdd = register(&OpDef{
	Name:       "add",
	ByRow:      SameRow,
	ReuseInput: 1,
	Infer:      inferBinary,
	Cost:       onePerElement,
	Ref: func(c *Call) {
		x, y, z := c.In[0].F32, c.In[1].F32, c.Out[0].F32
		for i, v := range x {
			z[i] = v + y[i]
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		return []*Value{dOut[0], dOut[0]}
	},
})

// OpMul: x, y -> x * y.
var OpMul = register(&OpDef{
	Name:       "mul",
	ByRow:      SameRow,
	ReuseInput: 1,
	Infer:      inferBinary,
	Cost:       onePerElement,
	Ref: func(c *Call) {
		x, y, z := c.In[0].F32, c.In[1].F32, c.Out[0].F32
		for i, v := range x {
			z[i] = v * y[i]
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		x, y, d := n.In[0], n.In[1], make([]*Value, 2)
		if x.NeedsGrad {
			d[0] = b.Apply(n.Op, "dx", nil, dOut[0], y).Out[0]
		}
		if y.NeedsGrad {
			d[1] = b.Apply(n.Op, "dy", nil, dOut[0], x).Out[0]
		}
		return d
	},
})

// inferOne checks one operand and gives a result like it.
func inferOne(n *Node) ([]Type, error) {
	if err := wantInputs(n, "f"); err != nil {
		return nil, err
	}
	return []Type{like(n.In[0])}, nil
}

// OpScale: x -> C * x.
var OpScale = register(&OpDef{
	Name:       "scale",
	ByRow:      SameRow,
	ReuseInput: 1,
	Infer:      inferOne,
	Cost:       onePerElement,
	Ref: func(c *Call) {
		f, y := c.Node.Attr.(ScaleAttr).C, c.Out[0].F32
		for i, v := range c.In[0].F32 {
			y[i] = f * v
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		return []*Value{b.Apply(n.Op, "dx", n.Attr, dOut[0]).Out[0]}
	},
})

// OpShift: x -> x + C.
var OpShift = register(&OpDef{
	Name:       "shift",
	ReuseInput: 1,
	Infer:      inferOne,
	Cost:       onePerElement,
	Ref: func(c *Call) {
		f, y := c.Node.Attr.(ShiftAttr).C, c.Out[0].F32
		for i, v := range c.In[0].F32 {
			y[i] = v + f
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value { return dOut },
})

// OpFill: -> a constant.
var OpFill = register(&OpDef{
	Name:   "fill",
	NoGrad: "it is a constant",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, ""); err != nil {
			return nil, err
		}
		s := n.Attr.(FillAttr).Shape
		if s.Outer.Sym == tensor.None && s.Outer.Add <= 0 {
			return nil, fmt.Errorf("shape is %s, expected positive dimensions", s)
		}
		return []Type{{s, tensor.F32}}, nil
	},
	Cost: func(c *Call) Cost { return Cost{0, c.IOBytes()} },
	Ref: func(c *Call) {
		v, y := c.Node.Attr.(FillAttr).C, c.Out[0].F32
		for i := range y {
			y[i] = v
		}
	},
})
