package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// Rope rotates pairs of each head of x[T,H*HeadDim] by angles that grow with
// pos[T]. freqs[RotDim/2] holds divisors of the frequencies (Llama 3 files)
// and may be nil. A RotDim of 0 means HeadDim, a Scale or Magnitude of 0
// means 1.
func (b *Builder) Rope(name string, x, pos, freqs *Value, attr RopeAttr) *Value {
	return b.RopeByLength(name, x, pos, freqs, nil, attr)
}

// RopeByLength is a Rope whose frequencies depend on how long a text is:
// length[T] is that of each token's text, in tokens. freqs may be
// [2,RotDim/2]: the first row serves texts of up to Context tokens, the second
// longer ones. A Stretch widens the base for longer ones instead.
func (b *Builder) RopeByLength(name string, x, pos, freqs, length *Value, attr RopeAttr) *Value {
	if attr.RotDim == 0 {
		attr.RotDim = attr.HeadDim
	}
	if attr.Scale == 0 {
		attr.Scale = 1
	}
	if attr.Magnitude == 0 {
		attr.Magnitude = 1
	}
	return b.Apply(OpRope, name, attr, x, pos, freqs, length).Out[0]
}

// RopeAttr describes rotary positions.
type RopeAttr struct {
	HeadDim     int
	RotDim      int // leading elements of a head that rotate, in pairs
	Base        float64
	Interleaved bool    // pairs (2i, 2i+1); otherwise (i, i+RotDim/2)
	Scale       float32 // positions are divided by it
	Magnitude   float32 // what rotates grows by it (YaRN, LongRoPE)
	Context     int     // texts up to it are short; 0 where length does not matter
	Stretch     float64 // factor of the dynamic rope; 0: none
	Inverse     bool    // rotate back: the gradient
}

// RopeFrequencies fills dst[RotDim/2] with radians per position in a text of
// length tokens. factors may be empty, one row or, short and long, two.
func RopeFrequencies(dst []float64, a RopeAttr, factors []float32, length int) {
	for i := range dst {
		dst[i] = a.Frequency(i, factors, length)
	}
}

// Frequency is the radians per position of pair i; see RopeFrequencies.
func (a *RopeAttr) Frequency(i int, factors []float32, length int) float64 {
	base, half := a.Base, a.RotDim/2
	long := a.Context > 0 && length > a.Context
	if a.Stretch > 0 && long && a.RotDim > 2 {
		grown := a.Stretch*float64(length)/float64(a.Context) - (a.Stretch - 1)
		base *= math.Pow(grown, float64(a.RotDim)/float64(a.RotDim-2))
	}
	f := math.Pow(base, -2*float64(i)/float64(a.RotDim)) / float64(a.Scale)
	switch {
	case long && len(factors) == 2*half:
		f /= float64(factors[half+i])
	case len(factors) > 0:
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
	case !(a.Scale > 0) || !(a.Magnitude > 0):
		return fmt.Errorf("scale is %g and magnitude %g, expected positive numbers", a.Scale, a.Magnitude)
	case a.Context < 0 || !(a.Stretch >= 0):
		return fmt.Errorf("context is %d and stretch %g, expected at least 0", a.Context, a.Stretch)
	}
	return nil
}

// checkLength holds the operands of a rope by length against each other.
func (a *RopeAttr) checkLength(freqs, length *Value) error {
	two := freqs != nil && freqs.Shape == tensor.Static(2, a.RotDim/2)
	switch {
	case length == nil && (two || a.Context > 0 || a.Stretch > 0):
		return fmt.Errorf("frequencies that depend on the length need an operand with the lengths")
	case length != nil && a.Context == 0:
		return fmt.Errorf("context is 0, expected the length of short texts")
	case two:
		return nil
	}
	return wantShape("freqs", freqs, tensor.Static(a.RotDim/2))
}

// OpRope: x[T,H*Dh], pos[T], freqs[RotDim/2]? or [2,RotDim/2], length[T]? ->
// y[T,H*Dh]. Angles are taken in float64 from the integer position.
var OpRope = register(&OpDef{
	Name:       "rope",
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fiFI"); err != nil {
			return nil, err
		}
		a, x := n.Attr.(RopeAttr), n.In[0]
		if err := a.check(x); err != nil {
			return nil, err
		}
		return []Type{like(x)}, first(
			wantShape("pos", n.In[1], tensor.Rows(x.Shape.Outer)),
			a.checkLength(n.In[2], n.In[3]),
			wantShape("length", n.In[3], tensor.Rows(x.Shape.Outer)))
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
			freq := a.Frequency(i, c.In[2].F32, 0)
			for t, pos := range c.In[1].I32 {
				if c.In[3].Present() {
					freq = a.Frequency(i, c.In[2].F32, int(c.In[3].I32[t]))
				}
				sin64, cos64 := math.Sincos(float64(pos) * freq)
				sin, cos := float32(sin64)*a.Magnitude, float32(cos64)*a.Magnitude
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
		return []*Value{b.Apply(n.Op, "dx", a, dOut[0], n.In[1], n.In[2], n.In[3]).Out[0], nil, nil, nil}
	},
})
