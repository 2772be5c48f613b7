package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// Rope rotates pairs of each head of x[T,H*HeadDim] by angles that grow with
// pos[T]. freqs[RotDim/2] holds divisors of the frequencies (Llama 3 files)
// and may be nil. A RotDim of 0 means HeadDim, a Scale of 0 means 1.
func (b *Builder) Rope(name string, x, pos, freqs *Value, attr RopeAttr) *Value {
	if attr.RotDim == 0 {
		attr.RotDim = attr.HeadDim
	}
	if attr.Scale == 0 {
		attr.Scale = 1
	}
	return b.Apply(OpRope, name, attr, x, pos, freqs).Out[0]
}

// RopeAttr describes rotary positions.
type RopeAttr struct {
	HeadDim     int
	RotDim      int // leading elements of a head that rotate, in pairs
	Base        float64
	Interleaved bool    // pairs (2i, 2i+1); otherwise (i, i+RotDim/2)
	Scale       float32 // positions are divided by it
	Inverse     bool    // rotate back: the gradient
}

// RopeFrequencies fills dst[RotDim/2] with radians per position. factors may
// be empty.
func RopeFrequencies(dst []float64, a RopeAttr, factors []float32) {
	for i := range dst {
		dst[i] = a.frequency(i, factors)
	}
}

func (a *RopeAttr) frequency(i int, factors []float32) float64 {
	f := math.Pow(a.Base, -2*float64(i)/float64(a.RotDim)) / float64(a.Scale)
	if len(factors) > 0 {
		f /= float64(factors[i])
	}
	return f
}

// Pair is where the two elements of pair i lie within a head.
func (a *RopeAttr) Pair(i int) (int, int) {
	if a.Interleaved {
		return 2 * i, 2*i + 1
	}
	return i, i + a.RotDim/2
}

func (a *RopeAttr) check(x *Value) error {
	switch {
	case a.HeadDim <= 0 || x.Shape.RowLen()%a.HeadDim != 0:
		return fmt.Errorf("x is %s: its rows are no multiple of the head size %d", x.Shape, a.HeadDim)
	case a.RotDim <= 0 || a.RotDim > a.HeadDim || a.RotDim%2 != 0:
		return fmt.Errorf("%d of %d elements rotate, expected an even number up to the head size", a.RotDim, a.HeadDim)
	case !(a.Base > 0) || math.IsInf(a.Base, 0):
		return fmt.Errorf("base is %g, expected a positive number", a.Base)
	case !(a.Scale > 0):
		return fmt.Errorf("scale is %g, expected a positive number", a.Scale)
	}
	return nil
}

// OpRope: x[T,H*Dh], pos[T], freqs[RotDim/2]? -> y[T,H*Dh]. Angles are taken
// in float64 from the integer position.
var OpRope = register(&OpDef{
	Name:       "rope",
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fiF"); err != nil {
			return nil, err
		}
		a, x := n.Attr.(RopeAttr), n.In[0]
		if err := a.check(x); err != nil {
			return nil, err
		}
		return []Type{like(x)}, first(
			wantShape("pos", n.In[1], tensor.Rows(x.Shape.Outer)),
			wantShape("freqs", n.In[2], tensor.Static(a.RotDim/2)))
	},
	Cost: func(c *Call) Cost {
		// Six a pair, and once for all heads of a token: angle, sine, cosine.
		a, heads := c.Node.Attr.(RopeAttr), int64(c.In[0].Cols/c.Node.Attr.(RopeAttr).HeadDim)
		return Cost{int64(c.In[0].Rows) * int64(a.RotDim/2) * (6*heads + 3), c.IOBytes()}
	},
	Ref: func(c *Call) {
		a, x, y := c.Node.Attr.(RopeAttr), &c.In[0], &c.Out[0]
		copy(y.F32, x.F32)
		for i := range a.RotDim / 2 {
			p, q := a.Pair(i)
			freq := a.frequency(i, c.In[2].F32)
			for t, pos := range c.In[1].I32 {
				sin64, cos64 := math.Sincos(float64(pos) * freq)
				sin, cos := float32(sin64), float32(cos64)
				if a.Inverse {
					sin = -sin
				}
				for row := y.Row(t); len(row) > 0; row = row[a.HeadDim:] {
					u, v := row[p], row[q]
					row[p], row[q] = u*cos-v*sin, v*cos+u*sin
				}
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		a := n.Attr.(RopeAttr)
		a.Inverse = !a.Inverse
		return []*Value{b.Apply(n.Op, "dx", a, dOut[0], n.In[1], n.In[2]).Out[0], nil, nil}
	},
})
