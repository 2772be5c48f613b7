package graph

import (
	"math"

	"hotpath/internal/tensor"
)

// OpAttentionGrad: q, k, v, out, lse, dout, q_start, key or none -> dq, dk, dv. The
// probabilities are computed again from lse, so nothing quadratic is kept.
// Each row of dq belongs to one query and each row of dk and dv to one key:
// sums run in a fixed order whoever computes them.
var OpAttentionGrad = register(&OpDef{
	Name:   "attention_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ffffffiI"); err != nil {
			return nil, err
		}
		a, q, k := n.Attr.(AttentionAttr), n.In[0], n.In[1]
		_, err := sequences(n.In[6])
		return []Type{like(q), like(k), like(k)}, first(err,
			a.check(q, k, n.In[2]), wantKey(n.In[7]),
			wantShape("k", k, tensor.Rows(q.Shape.Outer, k.Shape.RowLen())),
			wantShape("out", n.In[3], q.Shape),
			wantShape("lse", n.In[4], tensor.Rows(q.Shape.Outer, a.Heads)),
			wantShape("dout", n.In[5], q.Shape))
	},
	CostReads: []int{6},
	Cost: func(c *Call) Cost {
		// Five products a pair (scores, dP, dq, dk, dv) and dout.out a query head.
		a := c.Node.Attr.(AttentionAttr)
		hd := int64(a.HeadDim) * int64(a.Heads)
		return Cost{10*hd*a.batchPairs(c.In[6].I32) + 2*hd*int64(c.In[0].Rows), c.IOBytes()}
	},
	Scratch: func(n *Node, most tensor.Bind) int {
		a := n.Attr.(AttentionAttr)
		return 2 * (a.Heads / a.KVHeads) * n.In[0].Shape.NumRows(most)
	},
	Ref: func(c *Call) {
		g := attentionGrad{AttentionAttr: c.Node.Attr.(AttentionAttr), c: c}
		g.drop = g.Dropout(c.In[7].I32)
		for i := range c.Out {
			if c.Out[i].Present() {
				clear(c.Out[i].F32)
			}
		}
		qStart := c.In[6].I32
		for s := 0; s+1 < len(qStart); s++ {
			q0, q1 := int(qStart[s]), int(qStart[s+1])
			for t := q0; t < q1; t++ {
				if c.Out[0].Present() {
					g.query(q0, q1, t)
				}
				if c.Out[1].Present() || c.Out[2].Present() {
					g.key(q0, q1, t)
				}
			}
		}
	},
})

// attentionGrad is one bound call.
type attentionGrad struct {
	AttentionAttr
	c    *Call
	drop WeightDropout
}

// pair gives the weight of key row u for head h of query row t of the
// sequence that begins at row q0, after dropout, and the gradient of q.k: the
// scale and the derivative of the soft cap included.
func (g *attentionGrad) pair(q0, t, u, h int) (p, ds float64) {
	d, kv := g.HeadDim, h/(g.Heads/g.KVHeads)
	q := g.c.In[0].Row(t)[h*d : (h+1)*d]
	k := g.c.In[1].Row(u)[kv*d : (kv+1)*d]
	v := g.c.In[2].Row(u)[kv*d : (kv+1)*d]
	out := g.c.In[3].Row(t)[h*d : (h+1)*d]
	dout := g.c.In[5].Row(t)[h*d : (h+1)*d]
	s := g.score(q, k, h, u-q0)
	p = math.Exp(s - float64(g.c.In[4].Row(t)[h]))
	keep := float64(g.drop.Factor(t, h, u-q0))
	ds = p * (keep*dot64(dout, v) - dot64(dout, out)) * float64(g.Scale)
	if g.SoftCap > 0 {
		r := s / float64(g.SoftCap)
		ds *= 1 - r*r
	}
	return p * keep, ds
}

// query fills row t of dq.
func (g *attentionGrad) query(q0, q1, t int) {
	d, k, dq := g.HeadDim, &g.c.In[1], g.c.Out[0].Row(t)
	lo, hi := g.Visible(t-q0, q1-q0)
	for h := range g.Heads {
		ds := g.c.Scratch[:hi-lo]
		for j := lo; j < hi; j++ {
			_, s := g.pair(q0, t, q0+j, h)
			ds[j-lo] = float32(s)
		}
		off := h / (g.Heads / g.KVHeads) * d
		for i := range d {
			var acc float64
			for j := lo; j < hi; j++ {
				acc += float64(ds[j-lo]) * float64(k.Row(q0 + j)[off+i])
			}
			dq[h*d+i] = float32(acc)
		}
	}
}

// key fills row u of dk and dv: the sum over the heads that share a key head
// and over the queries that see it.
func (g *attentionGrad) key(q0, q1, u int) {
	d, group, n := g.HeadDim, g.Heads/g.KVHeads, q1-q0
	q, dout := &g.c.In[0], &g.c.In[5]
	p, ds := g.c.Scratch[:group*n], g.c.Scratch[group*n:2*group*n] // [group][n]
	for kv := range g.KVHeads {
		for e := range group {
			for i := range n {
				var pe, dse float64
				if lo, hi := g.Visible(i, n); lo <= u-q0 && u-q0 < hi {
					pe, dse = g.pair(q0, q0+i, u, kv*group+e)
				}
				p[e*n+i], ds[e*n+i] = float32(pe), float32(dse)
			}
		}
		for c := range d {
			var dk, dv float64
			for e := range group {
				col := (kv*group+e)*d + c
				for i := range n {
					dk += float64(ds[e*n+i]) * float64(q.Row(q0 + i)[col])
					dv += float64(p[e*n+i]) * float64(dout.Row(q0 + i)[col])
				}
			}
			if t := &g.c.Out[1]; t.Present() {
				t.Row(u)[kv*d+c] = float32(dk)
			}
			if t := &g.c.Out[2]; t.Present() {
				t.Row(u)[kv*d+c] = float32(dv)
			}
		}
	}
}
