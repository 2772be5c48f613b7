package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// AttentionRel is Attention without its log-sum-exp, with a bias by distance
// on the scores: key j is seen by query i of head h at a score of
// rel[h, j-i+reach] more, where distances beyond reach count as reach. rel is
// [Heads,2*reach+1].
func (b *Builder) AttentionRel(name string, q, k, v, qStart, rel *Value, attr AttentionAttr) *Value {
	return b.Apply(OpAttentionRel, name, attr.resolved(), q, k, v, qStart, rel).Out[0]
}

// RelReach is the largest distance that a row of rel tells apart.
func RelReach(cols int) int { return (cols - 1) / 2 }

// OpAttentionRel: q[T,Hq*D], k[T,Hkv*D], v[T,Hkv*D], q_start[S+1],
// rel[Hq,2*reach+1] -> out[T,Hq*D].
var OpAttentionRel = register(&OpDef{
	Name:   "attention_rel",
	NoGrad: "encoders with a bias by distance are not trained",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fffif"); err != nil {
			return nil, err
		}
		a, q, k, rel := n.Attr.(AttentionAttr), n.In[0], n.In[1], n.In[4].Shape
		_, err := sequences(n.In[3])
		if err := first(err, a.check(q, k, n.In[2])); err != nil {
			return nil, err
		}
		if q.Shape.Outer != k.Shape.Outer {
			return nil, fmt.Errorf("q is %s but k is %s: the numbers of tokens differ", q.Shape, k.Shape)
		}
		if a.SoftCap != 0 || a.Alibi {
			return nil, fmt.Errorf("soft cap is %g and ALiBi %v, expected neither beside a bias", a.SoftCap, a.Alibi)
		}
		if rel.Rank() != 2 || rel.Outer != tensor.Fixed(a.Heads) || rel.RowLen()%2 == 0 {
			return nil, fmt.Errorf("rel is %s, expected a row of odd length for each of %d heads", rel, a.Heads)
		}
		return []Type{like(q)}, nil
	},
	CostReads: []int{3},
	Cost: func(c *Call) Cost {
		a := c.Node.Attr.(AttentionAttr)
		return Cost{(4*int64(a.HeadDim) + 1) * int64(a.Heads) * a.batchPairs(c.In[3].I32), c.IOBytes()}
	},
	Scratch: func(n *Node, max tensor.Bind) int { return n.In[1].Shape.NumRows(max) },
	Ref: func(c *Call) {
		a, qStart := c.Node.Attr.(AttentionAttr), c.In[3].I32
		for s := 0; s+1 < len(qStart); s++ {
			q0, q1 := int(qStart[s]), int(qStart[s+1])
			for i := range q1 - q0 {
				for h := range a.Heads {
					a.attendRel(c, q0, q1-q0, i, h)
				}
			}
		}
	},
})

// attendRel is query i of head h among the keys of a sequence that begins at
// row first.
func (a *AttentionAttr) attendRel(c *Call, first, keys, i, h int) {
	d, p := a.HeadDim, c.Scratch
	q, out := c.In[0].Row(first + i)[h*d:(h+1)*d], c.Out[0].Row(first + i)[h*d:(h+1)*d]
	off := h / (a.Heads / a.KVHeads) * d
	rel := c.In[4].Row(h)
	reach := RelReach(len(rel))
	lo, hi := a.Visible(i, keys)
	top := math.Inf(-1)
	for j := lo; j < hi; j++ {
		s := a.score(q, c.In[1].Row(first + j)[off:off+d], h, j) + float64(rel[min(max(j-i, -reach), reach)+reach])
		p[j-lo] = float32(s)
		top = max(top, s)
	}
	var sum float64
	for j := range hi - lo {
		e := math.Exp(float64(p[j]) - top)
		p[j] = float32(e)
		sum += e
	}
	for e := range out {
		var acc float64
		for j := lo; j < hi; j++ {
			acc += float64(p[j-lo]) * float64(c.In[2].Row(first + j)[off+e])
		}
		out[e] = float32(acc / sum)
	}
}
