package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// SequenceSum adds up x[R] within sequences, which starts[S+1] delimits: [S].
func (b *Builder) SequenceSum(name string, x, starts *Value) *Value {
	return b.Apply(OpSequenceSum, name, nil, x, starts).Out[0]
}

// Preference is the loss of direct preference optimisation. nll[S] is the
// negative log-likelihood of answers, in pairs of a chosen and a rejected one;
// ref[S] is that of the frozen reference. The loss of a pair, at its first row,
// is -log sigmoid(beta * ((ref - nll) of the chosen - that of the rejected));
// second rows have 0.
func (b *Builder) Preference(name string, nll, ref *Value, beta float32) *Value {
	return b.Apply(OpPreference, name, PreferenceAttr{beta}, nll, ref).Out[0]
}

// PreferenceAttr is how far the model may leave the reference.
type PreferenceAttr struct{ Beta float32 }

// OpSequenceSum: x[R], starts[S+1] -> y[S].
var OpSequenceSum = register(&OpDef{
	Name: "sequence_sum",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fi"); err != nil {
			return nil, err
		}
		seqs, err := sequences(n.In[1])
		return []Type{{tensor.Rows(seqs), tensor.F32}}, first(err, wantShape("x", n.In[0], tensor.Rows(n.In[0].Shape.Outer)))
	},
	Cost: func(c *Call) Cost { return Cost{int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		x, starts, y := c.In[0].F32, c.In[1].I32, c.Out[0].F32
		for s := range y {
			var sum float64
			for _, v := range x[starts[s]:starts[s+1]] {
				sum += float64(v)
			}
			y[s] = float32(sum)
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		attr := RowsAttr{n.In[0].Shape.Outer}
		return []*Value{b.Apply(OpSequenceSumGrad, "dx", attr, dOut[0], n.In[1]).Out[0], nil}
	},
})

// OpSequenceSumGrad: dy[S], starts[S+1] -> dx[R], zeros outside of sequences.
var OpSequenceSumGrad = register(&OpDef{
	Name:   "sequence_sum_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fi"); err != nil {
			return nil, err
		}
		return []Type{{tensor.Rows(n.Attr.(RowsAttr).Outer), tensor.F32}}, nil
	},
	Cost: func(c *Call) Cost { return Cost{0, c.IOBytes()} },
	Ref: func(c *Call) {
		dy, starts, dx := c.In[0].F32, c.In[1].I32, c.Out[0].F32
		clear(dx)
		for s, d := range dy {
			for i := starts[s]; i < starts[s+1]; i++ {
				dx[i] = d
			}
		}
	},
})

func inferPreference(kinds string) func(n *Node) ([]Type, error) {
	return func(n *Node) ([]Type, error) {
		if err := wantInputs(n, kinds); err != nil {
			return nil, err
		}
		s := tensor.Rows(n.In[0].Shape.Outer)
		var err error
		if b := n.Attr.(PreferenceAttr).Beta; !(b > 0) {
			err = fmt.Errorf("beta is %g, expected a positive number", b)
		}
		for i, v := range n.In {
			err = first(err, wantShape(fmt.Sprintf("operand %d", i), v, s))
		}
		return []Type{{s, tensor.F32}}, err
	}
}

// margin is beta times how much more the model prefers the chosen answer of
// the pair at row i than the reference does.
func (a PreferenceAttr) margin(nll, ref []float32, i int) float64 {
	of := func(i int) float64 { return float64(ref[i]) - float64(nll[i]) }
	return float64(a.Beta) * (of(i) - of(i+1))
}

// OpPreference: nll[S], ref[S] -> loss[S].
var OpPreference = register(&OpDef{
	Name:  "preference",
	Infer: inferPreference("ff"),
	Cost:  func(c *Call) Cost { return Cost{4 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		a, nll, ref, y := c.Node.Attr.(PreferenceAttr), c.In[0].F32, c.In[1].F32, c.Out[0].F32
		clear(y)
		for i := 0; i+1 < len(nll); i += 2 {
			m := a.margin(nll, ref, i)
			y[i] = float32(math.Log1p(math.Exp(-math.Abs(m))) + max(-m, 0))
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		return []*Value{b.Apply(OpPreferenceGrad, "dnll", n.Attr, n.In[0], n.In[1], dOut[0]).Out[0], nil}
	},
})

// OpPreferenceGrad: nll[S], ref[S], dloss[S] -> dnll[S].
var OpPreferenceGrad = register(&OpDef{
	Name:   "preference_grad",
	NoGrad: noSecond,
	Infer:  inferPreference("fff"),
	Cost:   func(c *Call) Cost { return Cost{5 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		a, nll, ref, d, y := c.Node.Attr.(PreferenceAttr), c.In[0].F32, c.In[1].F32, c.In[2].F32, c.Out[0].F32
		clear(y)
		for i := 0; i+1 < len(nll); i += 2 {
			g := float64(d[i]) * float64(a.Beta) * logistic(-a.margin(nll, ref, i))
			y[i], y[i+1] = float32(g), float32(-g)
		}
	},
})
