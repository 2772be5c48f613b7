package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// InfoNCE is the contrastive loss of rows x[S,D], of which some are anchors
// (same is negative) and the others documents (same tells texts apart). A row
// whose partner is not negative asks for that row of the other side among all
// rows of the other side: nll is the negative log-likelihood under a softmax of
// scale times the dot products. Other documents with the text of the right one
// do not count as wrong. Rows that ask nothing have nll 0.
func (b *Builder) InfoNCE(name string, x, partner, same *Value, scale float32) (nll, lse *Value) {
	n := b.Apply(OpInfoNCE, name, InfoNCEAttr{scale}, x, partner, same)
	return n.Out[0], n.Out[1]
}

// InfoNCEAttr is the factor of dot products: 1/temperature.
type InfoNCEAttr struct{ Scale float32 }

// Counts reports whether row c is among the answers of row q.
func (InfoNCEAttr) Counts(partner, same []int32, q, c int) bool {
	right := int(partner[q])
	switch {
	case same[q] < 0 == (same[c] < 0): // of one side
		return false
	case c == right:
		return true
	case same[q] < 0: // another copy of the right document is not wrong
		return same[c] != same[right]
	}
	// A document asks for its anchor: those of its copies are not wrong.
	return partner[c] < 0 || same[partner[c]] != same[q]
}

func (a InfoNCEAttr) check(x, partner, same *Value) error {
	s := tensor.Rows(x.Shape.Outer)
	if x.Shape.Rank() != 2 {
		return fmt.Errorf("x is %s, expected [S,D]", x.Shape)
	}
	if !(a.Scale > 0) {
		return fmt.Errorf("scale is %g, expected a positive number", a.Scale)
	}
	return first(wantShape("partner", partner, s), wantShape("same", same, s))
}

// OpInfoNCE: x[S,D], partner[S], same[S] -> nll[S], lse[S].
var OpInfoNCE = register(&OpDef{
	Name: "infonce",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fii"); err != nil {
			return nil, err
		}
		t := Type{tensor.Rows(n.In[0].Shape.Outer), tensor.F32}
		return []Type{t, t}, n.Attr.(InfoNCEAttr).check(n.In[0], n.In[1], n.In[2])
	},
	CostReads: []int{1, 2},
	Cost: func(c *Call) Cost {
		return Cost{(2*int64(c.In[0].Cols) + 4) * infoPairs(c.In[1].I32, c.In[2].I32), c.IOBytes()}
	},
	Ref: func(c *Call) {
		a, x, partner, same := c.Node.Attr.(InfoNCEAttr), &c.In[0], c.In[1].I32, c.In[2].I32
		nll, lse := &c.Out[0], &c.Out[1]
		for q := range x.Rows {
			var l, right float64
			if partner[q] >= 0 {
				top, sum := math.Inf(-1), 0.0
				for pass := range 2 {
					for s := range x.Rows {
						if !a.Counts(partner, same, q, s) {
							continue
						}
						if v := float64(a.Scale) * dot64(x.Row(q), x.Row(s)); pass == 0 {
							top = max(top, v)
						} else {
							sum += math.Exp(v - top)
						}
					}
				}
				l, right = top+math.Log(sum), float64(a.Scale)*dot64(x.Row(q), x.Row(int(partner[q])))
			}
			if lse.Present() {
				lse.F32[q] = float32(l)
			}
			if nll.Present() {
				nll.F32[q] = float32(l - right)
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		if dOut[1] != nil {
			b.Fail("no gradient flows through the log-sum-exp of InfoNCE")
			return make([]*Value, 3)
		}
		return []*Value{b.Apply(OpInfoNCEGrad, "dx", n.Attr, n.In[0], n.Out[1], n.In[1], n.In[2], dOut[0]).Out[0], nil, nil}
	},
})

// infoPairs is how many products a batch has.
func infoPairs(partner, same []int32) int64 {
	var asked, sides [2]int64 // of anchors and of documents
	for i, s := range same {
		side := 1
		if s < 0 {
			side = 0
		}
		sides[side]++
		if i < len(partner) && partner[i] >= 0 {
			asked[side]++
		}
	}
	return asked[0]*sides[1] + asked[1]*sides[0]
}

// OpInfoNCEGrad: x[S,D], lse[S], partner[S], same[S], dnll[S] -> dx[S,D]. Each
// row is summed by itself, over the rows of the other side in order.
var OpInfoNCEGrad = register(&OpDef{
	Name:   "infonce_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ffiif"); err != nil {
			return nil, err
		}
		s := tensor.Rows(n.In[0].Shape.Outer)
		return []Type{like(n.In[0])}, first(n.Attr.(InfoNCEAttr).check(n.In[0], n.In[2], n.In[3]),
			wantShape("lse", n.In[1], s), wantShape("dnll", n.In[4], s))
	},
	CostReads: []int{2, 3},
	Cost: func(c *Call) Cost {
		return Cost{(8*int64(c.In[0].Cols) + 8) * infoPairs(c.In[2].I32, c.In[3].I32), c.IOBytes()}
	},
	Ref: func(c *Call) {
		a, x, lse, partner, same, d := c.Node.Attr.(InfoNCEAttr), &c.In[0], c.In[1].F32, c.In[2].I32, c.In[3].I32, c.In[4].F32
		clear(c.Out[0].F32)
		for i := range x.Rows {
			row := c.Out[0].Row(i)
			for j := range x.Rows {
				if same[i] < 0 == (same[j] < 0) {
					continue
				}
				var f float64 // i asks, j asks
				for _, q := range [2][2]int{{i, j}, {j, i}} {
					if partner[q[0]] >= 0 && a.Counts(partner, same, q[0], q[1]) {
						f += a.Slope(dot64(x.Row(i), x.Row(j)), lse[q[0]], d[q[0]], int(partner[q[0]]) == q[1])
					}
				}
				for e, v := range x.Row(j) {
					row[e] += float32(f * float64(v))
				}
			}
		}
	},
})

// Slope is the derivative of the loss by a dot product.
func (a InfoNCEAttr) Slope(dot float64, lse, d float32, right bool) float64 {
	p := math.Exp(float64(a.Scale)*dot - float64(lse))
	if right {
		p--
	}
	return p * float64(a.Scale) * float64(d)
}
