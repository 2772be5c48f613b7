package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// AttentionRel is Attention with a bias by distance on the scores: key j is seen by query i of head h at a score of
// rel[h, j-i+reach] more, where distances beyond reach count as reach. rel is
// [Heads,2*reach+1]. key is that of AttentionDropout.
func (b *Builder) AttentionRel(name string, q, k, v, qStart, rel, key *Value, attr AttentionAttr) *Value {
	return b.Apply(OpAttentionRel, name, attr.resolved(), q, k, v, qStart, rel, key).Out[0]
}

// RelReach is the largest distance that a row of rel tells apart.
func RelReach(cols int) int { return (cols - 1) / 2 }

// OpAttentionRel: q[T,Hq*D], k[T,Hkv*D], v[T,Hkv*D], q_start[S+1],
// rel[Hq,2*reach+1], key[DropoutLen] or none -> out[T,Hq*D], lse[T,Hq].
var OpAttentionRel = register(&OpDef{
	Name: "attention_rel",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fffifI"); err != nil {
			return nil, err
		}
		a, q := n.Attr.(AttentionAttr), n.In[0]
		return []Type{like(q), {tensor.Rows(q.Shape.Outer, a.Heads), tensor.F32}}, first(wantKey(n.In[5]), a.checkRel(q, n.In[1], n.In[2], n.In[3], n.In[4]))
	},
	CostReads: []int{3},
	Cost: func(c *Call) Cost {
		a := c.Node.Attr.(AttentionAttr)
		return Cost{(4*int64(a.HeadDim) + 1) * int64(a.Heads) * a.batchPairs(c.In[3].I32), c.IOBytes()}
	},
	Scratch: func(n *Node, most tensor.Bind) int { return n.In[1].Shape.NumRows(most) },
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
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		if dOut[1] != nil {
			b.Fail("no gradient flows through the log-sum-exp of attention")
			return make([]*Value, 6)
		}
		g := b.Apply(OpAttentionRelGrad, "dqkv", n.Attr, n.In[0], n.In[1], n.In[2], n.Out[0], n.Out[1], dOut[0], n.In[3], n.In[4], n.In[5])
		return []*Value{g.Out[0], g.Out[1], g.Out[2], nil, g.Out[3], nil}
	},
})

func (a *AttentionAttr) checkRel(q, k, v, qStart, bias *Value) error {
	_, err := sequences(qStart)
	rel := bias.Shape
	switch err := first(err, a.check(q, k, v)); {
	case err != nil:
		return err
	case q.Shape.Outer != k.Shape.Outer:
		return fmt.Errorf("q is %s but k is %s: the numbers of tokens differ", q.Shape, k.Shape)
	case a.SoftCap != 0 || a.Alibi:
		return fmt.Errorf("soft cap is %g and ALiBi %v, expected neither beside a bias", a.SoftCap, a.Alibi)
	case rel.Rank() != 2 || rel.Outer != tensor.Fixed(a.Heads) || rel.RowLen()%2 == 0:
		return fmt.Errorf("rel is %s, expected a row of odd length for each of %d heads", rel, a.Heads)
	}
	return nil
}

// relAt is the column of rel for key j and query i.
func relAt(cols, i, j int) int {
	reach := RelReach(cols)
	return min(max(j-i, -reach), reach) + reach
}

// attendRel is query i of head h among the keys of a sequence that begins at
// row first.
func (a *AttentionAttr) attendRel(c *Call, first, keys, i, h int) {
	d, p := a.HeadDim, c.Scratch
	q, out := c.In[0].Row(first + i)[h*d:(h+1)*d], c.Out[0].Row(first + i)[h*d:(h+1)*d]
	off := h / (a.Heads / a.KVHeads) * d
	rel := c.In[4].Row(h)
	lo, hi := a.Visible(i, keys)
	top := math.Inf(-1)
	for j := lo; j < hi; j++ {
		s := a.score(q, c.In[1].Row(first + j)[off:off+d], h, j) + float64(rel[relAt(len(rel), i, j)])
		p[j-lo] = float32(s)
		top = max(top, s)
	}
	var sum float64
	for j := range hi - lo {
		e := math.Exp(float64(p[j]) - top)
		p[j] = float32(e)
		sum += e
	}
	drop := a.Dropout(c.In[5].I32)
	drop.Apply(p[:hi-lo], first+i, h, lo)
	for e := range out {
		var acc float64
		for j := lo; j < hi; j++ {
			acc += float64(p[j-lo]) * float64(c.In[2].Row(first + j)[off+e])
		}
		out[e] = float32(acc / sum)
	}
	if lse := &c.Out[1]; lse.Present() {
		lse.Row(first + i)[h] = float32(top + math.Log(sum))
	}
}
