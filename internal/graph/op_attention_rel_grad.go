package graph

import (
	"math"

	"hotpath/internal/tensor"
)

// OpAttentionRelGrad: q, k, v, out, lse, dout, q_start, rel, key or none -> dq, dk,
// dv, drel. One head is summed in the order of sequences, queries and keys, so
// heads can be computed side by side.
var OpAttentionRelGrad = register(&OpDef{
	Name:   "attention_rel_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ffffffifI"); err != nil {
			return nil, err
		}
		a, q, k := n.Attr.(AttentionAttr), n.In[0], n.In[1]
		return []Type{like(q), like(k), like(k), like(n.In[7])}, first(
			a.checkRel(q, k, n.In[2], n.In[6], n.In[7]), wantKey(n.In[8]),
			wantShape("out", n.In[3], q.Shape),
			wantShape("lse", n.In[4], tensor.Rows(q.Shape.Outer, a.Heads)),
			wantShape("dout", n.In[5], q.Shape))
	},
	CostReads: []int{6},
	Cost: func(c *Call) Cost {
		a := c.Node.Attr.(AttentionAttr)
		hd := int64(a.HeadDim) * int64(a.Heads)
		return Cost{(10*hd+2*int64(a.Heads))*a.batchPairs(c.In[6].I32) + 2*hd*int64(c.In[0].Rows), c.IOBytes()}
	},
	Ref: func(c *Call) {
		a, qStart := c.Node.Attr.(AttentionAttr), c.In[6].I32
		for i := range c.Out {
			clear(c.Out[i].F32)
		}
		for h := range a.Heads {
			for s := 0; s+1 < len(qStart); s++ {
				a.relGrad(c, int(qStart[s]), int(qStart[s+1]), h)
			}
		}
	},
})

// relGrad adds the gradients of head h of the sequence in rows [q0,q1).
func (a *AttentionAttr) relGrad(c *Call, q0, q1, h int) {
	d, kv := a.HeadDim, h/(a.Heads/a.KVHeads)
	of := func(t *Tensor, row, head int) []float32 { // nil where nobody wants the gradient
		if !t.Present() {
			return nil
		}
		return t.Row(row)[head*d : (head+1)*d]
	}
	add := func(dst, src []float32, f float64) {
		for e := range dst {
			dst[e] += float32(f * float64(src[e]))
		}
	}
	rel, drel, drop := c.In[7].Row(h), &c.Out[3], a.Dropout(c.In[8].I32)
	for i := range q1 - q0 {
		q, out, dout := of(&c.In[0], q0+i, h), of(&c.In[3], q0+i, h), of(&c.In[5], q0+i, h)
		lse, mean := float64(c.In[4].Row(q0 + i)[h]), dot64(dout, out)
		lo, hi := a.Visible(i, q1-q0)
		for j := lo; j < hi; j++ {
			k, v := of(&c.In[1], q0+j, kv), of(&c.In[2], q0+j, kv)
			at := relAt(len(rel), i, j)
			p := math.Exp(a.score(q, k, h, j) + float64(rel[at]) - lse)
			keep := float64(drop.Factor(q0+i, h, j))
			ds := p * (keep*dot64(dout, v) - mean)
			add(of(&c.Out[0], q0+i, h), k, ds*float64(a.Scale))
			add(of(&c.Out[1], q0+j, kv), q, ds*float64(a.Scale))
			add(of(&c.Out[2], q0+j, kv), dout, p*keep)
			if drel.Present() {
				drel.Row(h)[at] += float32(ds)
			}
		}
	}
}
