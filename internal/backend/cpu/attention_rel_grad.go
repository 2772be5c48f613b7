package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// attentionRelGrad is the backward pass of attention with a bias by distance. A
// worker has whole key heads, whose queries it sums in the order of sequences.
type attentionRelGrad struct {
	graph.AttentionAttr
	q, k, v, out, lse, dout, rel mat
	dq, dk, dv, drel             mat // absent if no step reads them
	qStart                       ints
	drop                         []int32 // key of dropout, [DropoutLen]; nil: none
}

func bindAttentionRelGrad(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.In[2], n.In[3], n.In[4], n.In[5], n.In[7], n.Out[0], n.Out[1], n.Out[2], n.Out[3])
	b.want(2 * b.plan.Max.T)
	return &attentionRelGrad{AttentionAttr: n.Attr.(graph.AttentionAttr), q: ms[0], k: ms[1], v: ms[2], out: ms[3], lse: ms[4], dout: ms[5], rel: ms[6],
		dq: ms[7], dk: ms[8], dv: ms[9], drel: ms[10], qStart: b.i32(n.In[6]), drop: b.optionalI32(n.In[8])}, nil
}

func (k *attentionRelGrad) name() string { return "attention by distance backward" }

func (k *attentionRelGrad) width(b tensor.Bind, n int) int {
	return max(1, min(max(n, gradMACs(&k.AttentionAttr, k.qStart.all(b))/maxMACs), k.KVHeads))
}

func (k *attentionRelGrad) runShare(w *worker, b tensor.Bind, i, n int) {
	lo, hi := share(k.KVHeads, 1, i, n)
	group, qs := k.Heads/k.KVHeads, k.qStart.all(b)
	for kv := lo; kv < hi; kv++ {
		for h := kv * group; h < (kv+1)*group; h++ {
			if k.drel.present() {
				clear(k.drel.row(h))
			}
			for s := 0; s+1 < len(qs); s++ {
				k.head(w, int(qs[s]), int(qs[s+1]), h, kv, h == kv*group)
			}
		}
	}
}

// head adds the gradients of query head h in rows [q0,q1). first: h is the first
// query head of its key head.
func (k *attentionRelGrad) head(w *worker, q0, q1, h, kv int, first bool) {
	d, n := k.HeadDim, q1-q0
	of := func(m *mat, row, head int) []float32 {
		if !m.present() {
			return nil
		}
		return m.row(row)[head*d : (head+1)*d]
	}
	for t := q0; t < q1 && first; t++ {
		clear(of(&k.dk, t, kv))
		clear(of(&k.dv, t, kv))
	}
	dropout := k.Dropout(k.drop)
	bias := scoreBias{rel: k.rel, reach: graph.RelReach(k.rel.cols)}
	for i := range n {
		q, dout, dq := of(&k.q, q0+i, h), of(&k.dout, q0+i, h), of(&k.dq, q0+i, h)
		mean := vec.Dot(dout, of(&k.out, q0+i, h))
		lo, hi := k.Visible(i, n)
		p, ds := w.scratch.f[:hi-lo], w.scratch.f[n:][:hi-lo]
		for j := lo; j < hi; j++ {
			p[j-lo] = k.Scale * vec.Dot(q, of(&k.k, q0+j, kv))
			ds[j-lo] = vec.Dot(dout, of(&k.v, q0+j, kv))
		}
		dropout.Apply(ds, q0+i, h, lo)
		for j := range ds {
			ds[j] -= mean
		}
		bias.addBias(p, h, i, lo)
		vec.Exp(p, p, k.lse.row(q0 + i)[h])
		vec.Mul(ds, ds, p)
		dropout.Apply(p, q0+i, h, lo)
		clear(dq)
		for j := lo; j < hi; j++ {
			if dq != nil {
				vec.Axpy(dq, of(&k.k, q0+j, kv), ds[j-lo]*k.Scale)
			}
			if dk := of(&k.dk, q0+j, kv); dk != nil {
				vec.Axpy(dk, q, ds[j-lo]*k.Scale)
			}
			if dv := of(&k.dv, q0+j, kv); dv != nil {
				vec.Axpy(dv, dout, p[j-lo])
			}
		}
		if k.drel.present() {
			row := k.drel.row(h)
			for j := lo; j < hi; j++ {
				row[min(max(j-i, -bias.reach), bias.reach)+bias.reach] += ds[j-lo]
			}
		}
	}
}
