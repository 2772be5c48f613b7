package graph

import (
	"math"

	"hotpath/internal/tensor"
)

// CrossEntropy is the negative log-likelihood (natural logarithm) of
// targets[R] under logits[R,V], and the log-sum-exp of each row. A negative
// target is ignored: its loss is 0 and no gradient flows.
func (b *Builder) CrossEntropy(name string, logits, targets *Value) (nll, lse *Value) {
	return b.SmoothedCrossEntropy(name, logits, targets, nil)
}

// SmoothedCrossEntropy is CrossEntropy with label smoothing as torch has it:
// smoothing is an Input[1] with the bits of the share that all labels get in
// equal parts in place of the target; nil means none.
func (b *Builder) SmoothedCrossEntropy(name string, logits, targets, smoothing *Value) (nll, lse *Value) {
	n := b.Apply(OpCrossEntropy, name, nil, logits, targets, smoothing)
	return n.Out[0], n.Out[1]
}

// Smoothing is the share of label smoothing that bits, an operand of a cross
// entropy, hold: 0 where there are none.
func Smoothing(bits []int32) float32 {
	if len(bits) == 0 {
		return 0
	}
	return math.Float32frombits(uint32(bits[0]))
}

// Mean is the mean of x[R] -> [1] over the rows whose target counts (is not
// negative), over all rows where targets is nil, and 0 where none counts.
func (b *Builder) Mean(name string, x, targets *Value) *Value {
	return b.Apply(OpMean, name, nil, x, targets).Out[0]
}

// OpCrossEntropy: logits[R,V], targets[R], smoothing[1]? -> nll[R], lse[R].
var OpCrossEntropy = register(&OpDef{
	Name:  "cross_entropy",
	ByRow: SameRow,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fiI"); err != nil {
			return nil, err
		}
		s := tensor.Rows(n.In[0].Shape.Outer)
		return []Type{{s, tensor.F32}, {s, tensor.F32}}, first(wantShape("targets", n.In[1], s), wantShape("smoothing", n.In[2], tensor.Static(1)))
	},
	// Maximum, subtract, exponential, add; then logarithm, add, subtract a row.
	Cost: func(c *Call) Cost {
		return Cost{4*int64(c.In[0].Len()) + 3*int64(c.In[0].Rows), c.IOBytes()}
	},
	Ref: func(c *Call) {
		logits, nll, lse := &c.In[0], &c.Out[0], &c.Out[1]
		smooth := float64(Smoothing(c.In[2].I32))
		for r, target := range c.In[1].I32 {
			row := logits.Row(r)
			l := logSumExp(row)
			if lse.Present() {
				lse.F32[r] = float32(l)
			}
			if !nll.Present() {
				continue
			}
			nll.F32[r] = 0
			if target >= 0 {
				likely := float64(row[target])
				if smooth > 0 {
					likely = (1-smooth)*likely + smooth*mean64(row)
				}
				nll.F32[r] = float32(l - likely)
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		if dOut[1] != nil {
			b.Fail("no gradient flows through the log-sum-exp of a cross entropy")
			return make([]*Value, 3)
		}
		return []*Value{b.Apply(OpCrossEntropyGrad, "dlogits", nil, n.In[0], n.Out[1], n.In[1], dOut[0], n.In[2]).Out[0], nil, nil}
	},
})

func logSumExp(x []float32) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, float64(v))
	}
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

func mean64(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	return sum / float64(len(x))
}

// OpCrossEntropyGrad: logits[R,V], lse[R], targets[R], dnll[R], smoothing[1]?
// -> dlogits[R,V].
var OpCrossEntropyGrad = register(&OpDef{
	Name:       "cross_entropy_grad",
	ByRow:      SameRow,
	NoGrad:     noSecond,
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ffifI"); err != nil {
			return nil, err
		}
		s := tensor.Rows(n.In[0].Shape.Outer)
		return []Type{like(n.In[0])}, first(
			wantShape("lse", n.In[1], s), wantShape("targets", n.In[2], s), wantShape("dnll", n.In[3], s), wantShape("smoothing", n.In[4], tensor.Static(1)))
	},
	// Subtract, exponential, product; and one subtraction a row.
	Cost: func(c *Call) Cost {
		return Cost{3*int64(c.In[0].Len()) + int64(c.In[0].Rows), c.IOBytes()}
	},
	Ref: func(c *Call) {
		logits, dx := &c.In[0], &c.Out[0]
		smooth := float64(Smoothing(c.In[4].I32))
		for r, target := range c.In[2].I32 {
			row := dx.Row(r)
			if target < 0 {
				clear(row)
				continue
			}
			lse, g := float64(c.In[1].F32[r]), float64(c.In[3].F32[r])
			for i, v := range logits.Row(r) {
				p := math.Exp(float64(v)-lse) - smooth/float64(len(row))
				if i == int(target) {
					p -= 1 - smooth
				}
				row[i] = float32(g * p)
			}
		}
	},
})

// counted is the number of rows that a mean is taken over.
func counted(targets *Tensor, rows int) int {
	if !targets.Present() {
		return rows
	}
	n := 0
	for _, t := range targets.I32 {
		if t >= 0 {
			n++
		}
	}
	return n
}

// OpMean: x[R], targets[R]? -> [1].
var OpMean = register(&OpDef{
	Name: "mean",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fI"); err != nil {
			return nil, err
		}
		s := tensor.Rows(n.In[0].Shape.Outer)
		return []Type{{tensor.Static(1), tensor.F32}}, first(wantShape("x", n.In[0], s), wantShape("targets", n.In[1], s))
	},
	CostReads: []int{1},
	Cost: func(c *Call) Cost {
		return Cost{int64(counted(&c.In[1], c.In[0].Rows)) + 1, c.IOBytes()}
	},
	Ref: func(c *Call) {
		x, targets := c.In[0].F32, &c.In[1]
		var sum float64
		for r, v := range x {
			if !targets.Present() || targets.I32[r] >= 0 {
				sum += float64(v)
			}
		}
		c.Out[0].F32[0] = float32(sum / float64(max(counted(targets, len(x)), 1)))
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		attr := RowsAttr{n.In[0].Shape.Outer}
		return []*Value{b.Apply(OpMeanGrad, "dx", attr, dOut[0], n.In[1]).Out[0], nil}
	},
})

// OpMeanGrad: d[1], targets[R]? -> dx[R].
var OpMeanGrad = register(&OpDef{
	Name:   "mean_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fI"); err != nil {
			return nil, err
		}
		s := tensor.Rows(n.Attr.(RowsAttr).Outer)
		return []Type{{s, tensor.F32}}, first(
			wantShape("d", n.In[0], tensor.Static(1)), wantShape("targets", n.In[1], s))
	},
	Cost: func(c *Call) Cost { return Cost{1, c.IOBytes()} },
	Ref: func(c *Call) {
		targets, dx := &c.In[1], c.Out[0].F32
		d := float32(float64(c.In[0].F32[0]) / float64(max(counted(targets, len(dx)), 1)))
		for r := range dx {
			dx[r] = 0
			if !targets.Present() || targets.I32[r] >= 0 {
				dx[r] = d
			}
		}
	},
})
