package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// SumSquares is the sum of the squares of all elements of g -> [1].
func (b *Builder) SumSquares(name string, g *Value) *Value {
	return b.Apply(OpSumSquares, name, nil, g).Out[0]
}

// GlobalNorm is the root of the sum of parts[1]... -> [1], added in order.
func (b *Builder) GlobalNorm(name string, parts ...*Value) *Value {
	return b.Apply(OpGlobalNorm, name, nil, parts...).Out[0]
}

// AdamW makes one step of torch.optim.AdamW with decoupled decay and with
// clipping by the global norm: w, m, v are State and new versions come back.
// hyper is an Input[HyperLen] whose entries are named by Hyper constants.
func (b *Builder) AdamW(name string, w, m, v, g, norm, hyper *Value, attr AdamWAttr) (wNew, mNew, vNew *Value) {
	n := b.Apply(OpAdamW, name, attr, w, m, v, g, norm, hyper)
	return n.Out[0], n.Out[1], n.Out[2]
}

// AdamWAttr says whether weight decay applies to this tensor.
type AdamWAttr struct{ Decay bool }

// SGD makes one step of torch.optim.SGD with momentum, with clipping by the
// global norm: w and m are State and new versions come back. hyper is that of
// AdamW, where HyperBeta1 is the momentum and HyperDecay is added to gradients.
func (b *Builder) SGD(name string, w, m, g, norm, hyper *Value, attr SGDAttr) (wNew, mNew *Value) {
	n := b.Apply(OpSGD, name, attr, w, m, g, norm, hyper)
	return n.Out[0], n.Out[1]
}

// SGDAttr says whether weight decay applies to this tensor, and whether the
// momentum is Nesterov's.
type SGDAttr struct{ Decay, Nesterov bool }

// Entries of an optimizer's hyper input.
const (
	HyperLR = iota
	HyperBeta1
	HyperBeta2
	HyperEps
	HyperDecay
	HyperCorr1 // 1 - beta1^step
	HyperCorr2 // 1 - beta2^step
	HyperClip  // largest global norm; at most 0 means no clipping
	HyperLimit // a larger global norm, or one that is no number, changes nothing; at most 0 means that every one does
	HyperLen
)

// SumSquaresBlock is the unit of a sum of squares: each block of so many
// elements is summed by itself and the blocks' sums are added in order, so
// that any split of blocks among workers gives the same bits.
const SumSquaresBlock = 4096

// OpSumSquares: g -> [1].
var OpSumSquares = register(&OpDef{
	Name:   "sum_squares",
	NoGrad: "it belongs to the optimizer",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "f"); err != nil {
			return nil, err
		}
		return []Type{{tensor.Static(1), tensor.F32}}, nil
	},
	Cost: func(c *Call) Cost { return Cost{2 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		var sum float64
		for x := c.In[0].F32; len(x) > 0; {
			block := x[:min(len(x), SumSquaresBlock)]
			sum += dot64(block, block)
			x = x[len(block):]
		}
		c.Out[0].F32[0] = float32(sum)
	},
})

// OpGlobalNorm: parts[1]... -> sqrt of their sum [1].
var OpGlobalNorm = register(&OpDef{
	Name:   "global_norm",
	NoGrad: "it belongs to the optimizer",
	Infer: func(n *Node) ([]Type, error) {
		if len(n.In) == 0 {
			return nil, fmt.Errorf("no operands, expected at least one")
		}
		for i, v := range n.In {
			if v == nil || v.DType != tensor.F32 || v.Shape != tensor.Static(1) {
				return nil, fmt.Errorf("operand %d is %v, expected F32 [1]", i, v)
			}
		}
		return []Type{{tensor.Static(1), tensor.F32}}, nil
	},
	Cost: func(c *Call) Cost { return Cost{int64(len(c.In)), c.IOBytes()} },
	Ref: func(c *Call) {
		var sum float64
		for i := range c.In {
			sum += float64(c.In[i].F32[0])
		}
		c.Out[0].F32[0] = float32(math.Sqrt(sum))
	},
})

// OpAdamW: w, m, v, g (one shape), norm[1], hyper[HyperLen] -> w', m', v'.
var OpAdamW = register(&OpDef{
	Name:    "adamw",
	NoGrad:  "it belongs to the optimizer",
	InPlace: map[int]int{0: 0, 1: 1, 2: 2},
	Commits: true,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ffffff"); err != nil {
			return nil, err
		}
		w := n.In[0]
		return []Type{like(w), like(w), like(w)}, first(
			wantShape("m", n.In[1], w.Shape),
			wantShape("v", n.In[2], w.Shape),
			wantShape("g", n.In[3], w.Shape),
			wantShape("norm", n.In[4], tensor.Static(1)),
			wantShape("hyper", n.In[5], tensor.Static(HyperLen)))
	},
	// Clip 1, m 3, v 4, root, correction, eps, quotient, step, subtract; decay 1.
	Cost: func(c *Call) Cost {
		per := int64(14)
		if c.Node.Attr.(AdamWAttr).Decay {
			per++
		}
		return Cost{per * int64(c.In[0].Len()), c.IOBytes()}
	},
	Ref: func(c *Call) {
		h := c.In[5].F32
		if !WithinLimit(h[HyperLimit], c.In[4].F32[0]) {
			keepState(c, 3)
			return
		}
		lr, beta1, beta2 := float64(h[HyperLR]), float64(h[HyperBeta1]), float64(h[HyperBeta2])
		clip, keep := ClipFactor(h[HyperClip], c.In[4].F32[0]), 1.0
		if c.Node.Attr.(AdamWAttr).Decay {
			keep = 1 - lr*float64(h[HyperDecay])
		}
		step, root := lr/float64(h[HyperCorr1]), math.Sqrt(float64(h[HyperCorr2]))
		w, m, v, g := c.In[0].F32, c.In[1].F32, c.In[2].F32, c.In[3].F32
		for i, gi := range g {
			gc := float64(gi) * clip
			mi := beta1*float64(m[i]) + (1-beta1)*gc
			vi := beta2*float64(v[i]) + (1-beta2)*gc*gc
			wi := keep*float64(w[i]) - step*mi/(math.Sqrt(vi)/root+float64(h[HyperEps]))
			c.Out[0].F32[i], c.Out[1].F32[i], c.Out[2].F32[i] = float32(wi), float32(mi), float32(vi)
		}
	},
})

// OpSGD: w, m, g (one shape), norm[1], hyper[HyperLen] -> w', m'.
var OpSGD = register(&OpDef{
	Name:    "sgd",
	NoGrad:  "it belongs to the optimizer",
	InPlace: map[int]int{0: 0, 1: 1},
	Commits: true,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fffff"); err != nil {
			return nil, err
		}
		w := n.In[0]
		return []Type{like(w), like(w)}, first(
			wantShape("m", n.In[1], w.Shape),
			wantShape("g", n.In[2], w.Shape),
			wantShape("norm", n.In[3], tensor.Static(1)),
			wantShape("hyper", n.In[4], tensor.Static(HyperLen)))
	},
	// Clip, momentum 2, step 2; decay 2, Nesterov 2.
	Cost: func(c *Call) Cost {
		a, per := c.Node.Attr.(SGDAttr), int64(5)
		if a.Decay {
			per += 2
		}
		if a.Nesterov {
			per += 2
		}
		return Cost{per * int64(c.In[0].Len()), c.IOBytes()}
	},
	Ref: func(c *Call) {
		a, h := c.Node.Attr.(SGDAttr), c.In[4].F32
		if !WithinLimit(h[HyperLimit], c.In[3].F32[0]) {
			keepState(c, 2)
			return
		}
		clip, momentum, decay := ClipFactor(h[HyperClip], c.In[3].F32[0]), float64(h[HyperBeta1]), 0.0
		if a.Decay {
			decay = float64(h[HyperDecay])
		}
		w, m := c.In[0].F32, c.In[1].F32
		for i, gi := range c.In[2].F32 {
			d := float64(gi)*clip + decay*float64(w[i])
			mi := momentum*float64(m[i]) + d
			if d += momentum * mi; !a.Nesterov {
				d = mi
			}
			c.Out[0].F32[i], c.Out[1].F32[i] = float32(float64(w[i])-float64(h[HyperLR])*d), float32(mi)
		}
	},
})

// WithinLimit reports whether a step with a global norm of gradients is made.
func WithinLimit(limit, norm float32) bool { return limit <= 0 || norm <= limit }

// keepState gives the first n operands as results.
func keepState(c *Call, n int) {
	for i := range n {
		copy(c.Out[i].F32, c.In[i].F32)
	}
}

// ClipFactor scales gradients of a global norm down to clip, as
// torch.nn.utils.clip_grad_norm_ does.
func ClipFactor(clip, norm float32) float64 {
	if clip <= 0 {
		return 1
	}
	return min(1, float64(clip)/(float64(norm)+1e-6))
}
