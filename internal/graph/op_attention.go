package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// Attention attends within each sequence of a ragged batch: q[T,Hq*D],
// k and v[T,Hkv*D], q_start[S+1] -> out[T,Hq*D] and the log-sum-exp of the
// scores [T,Hq], which is all that the gradient keeps. A Scale of 0 means
// 1/sqrt(HeadDim).
func (b *Builder) Attention(name string, q, k, v, qStart *Value, attr AttentionAttr) (out, lse *Value) {
	return b.AttentionDropout(name, q, k, v, qStart, nil, attr)
}

// AttentionDropout is Attention with dropout of its weights, the results of
// softmax. key is that of Dropout, nil for none.
func (b *Builder) AttentionDropout(name string, q, k, v, qStart, key *Value, attr AttentionAttr) (out, lse *Value) {
	n := b.Apply(OpAttention, name, attr.resolved(), q, k, v, qStart, key)
	return n.Out[0], n.Out[1]
}

// AttentionAttr describes heads and who may see whom: query i sees key j of
// the same sequence iff (!Causal || j <= i) and (Window == 0 || |i-j| < Window).
type AttentionAttr struct {
	Heads   int // of queries
	KVHeads int // Heads/KVHeads queries share a key head
	HeadDim int
	Scale   float32 // of scores
	Causal  bool
	Window  int     // 0: unlimited
	SoftCap float32 // 0: none; otherwise scores become cap*tanh(score/cap)
	Alibi   bool    // scores grow by AlibiBias with the position of a key
	Salt    uint32  // of dropout, as in DropoutAttr
}

func (a AttentionAttr) resolved() AttentionAttr {
	if a.Scale == 0 && a.HeadDim > 0 {
		a.Scale = float32(1 / math.Sqrt(float64(a.HeadDim)))
	}
	return a
}

// Visible is the range [lo,hi) of keys that a query at position pos sees
// among the first keys of its sequence.
func (a *AttentionAttr) Visible(pos, keys int) (lo, hi int) {
	lo, hi = 0, keys
	if a.Causal {
		hi = min(hi, pos+1)
	}
	if a.Window > 0 {
		lo, hi = max(lo, pos-a.Window+1), min(hi, pos+a.Window)
	}
	return lo, max(lo, hi)
}

// Pairs counts the visible (query, key) pairs of one sequence whose n queries
// are the last of keys positions.
func (a *AttentionAttr) Pairs(n, keys int) int64 {
	all, seen := int64(n), int64(keys)
	switch {
	case a.Window > 0:
	case a.Causal:
		return all*(seen-all) + all*(all+1)/2
	default:
		return all * seen
	}
	var pairs int64
	for i := range n {
		lo, hi := a.Visible(keys-n+i, keys)
		pairs += int64(hi - lo)
	}
	return pairs
}

// batchPairs is Pairs over the sequences that prefix sums delimit.
func (a *AttentionAttr) batchPairs(qStart []int32) int64 {
	var pairs int64
	for s := 0; s+1 < len(qStart); s++ {
		n := int(qStart[s+1] - qStart[s])
		pairs += a.Pairs(n, n)
	}
	return pairs
}

func (a *AttentionAttr) check(q, k, v *Value) error {
	switch {
	case a.Heads <= 0 || a.KVHeads <= 0 || a.HeadDim <= 0:
		return fmt.Errorf("%d heads, %d key heads of size %d: expected positive numbers", a.Heads, a.KVHeads, a.HeadDim)
	case a.Heads%a.KVHeads != 0:
		return fmt.Errorf("%d heads are no multiple of %d key heads", a.Heads, a.KVHeads)
	case !(a.Scale > 0):
		return fmt.Errorf("scale is %g, expected a positive number", a.Scale)
	case a.Window < 0:
		return fmt.Errorf("window is %d, expected at least 0", a.Window)
	case !(a.SoftCap >= 0):
		return fmt.Errorf("soft cap is %g, expected at least 0", a.SoftCap)
	case a.Alibi && a.SoftCap > 0:
		return fmt.Errorf("soft cap is %g, expected none beside ALiBi", a.SoftCap)
	}
	return first(
		wantShape("q", q, tensor.Rows(q.Shape.Outer, a.Heads*a.HeadDim)),
		wantShape("k", k, tensor.Rows(k.Shape.Outer, a.KVHeads*a.HeadDim)),
		wantShape("v", v, k.Shape))
}

// score is what softmax sees of a query of head h and the key at position j.
func (a *AttentionAttr) score(q, k []float32, h, j int) float64 {
	s := float64(a.Scale) * dot64(q, k)
	if a.Alibi {
		s += float64(a.AlibiBias(a.AlibiSlope(h), j))
	}
	if a.SoftCap > 0 {
		s = float64(a.SoftCap) * math.Tanh(s/float64(a.SoftCap))
	}
	return s
}

// keyRows finds the key and value rows of one sequence: consecutive from
// base, or by blocks through a table.
type keyRows struct {
	k, v  *Tensor // [rows, Hkv*D]
	base  int
	table []int32
	block int
	row   []float32 // for one decoded row, where k and v are encoded
}

// of is row j of k or v.
func (r *keyRows) of(t *Tensor, j int) []float32 {
	if t.DType == tensor.F32 {
		return t.Row(r.at(j))
	}
	t.ReadRow(r.row, r.at(j))
	return r.row
}

func (r *keyRows) at(j int) int {
	if r.table == nil {
		return r.base + j
	}
	return int(r.table[j/r.block])*r.block + j%r.block
}

// attendSequence runs queries [q0,q1) of one sequence, the last of keys
// positions. lse may be absent; p is scratch of at least keys elements.
func (a *AttentionAttr) attendSequence(q, out, lse *Tensor, q0, q1 int, rows *keyRows, keys int, p []float32, drop WeightDropout) {
	group, d := a.Heads/a.KVHeads, a.HeadDim
	for t := q0; t < q1; t++ {
		lo, hi := a.Visible(keys-(q1-t), keys)
		for h := range a.Heads {
			qh, oh := q.Row(t)[h*d:(h+1)*d], out.Row(t)[h*d:(h+1)*d]
			sum := a.attend(qh, oh, rows, h, h/group*d, lo, hi, p, func(p []float32) { drop.Apply(p, t, h, lo) })
			if lse.Present() {
				lse.F32[t*lse.Cols+h] = float32(sum)
			}
		}
	}
}

// attend is query head h against keys [lo,hi), whose head starts at column
// off. It returns the log-sum-exp of the scores. drop changes weights before
// they multiply values.
func (a *AttentionAttr) attend(q, out []float32, rows *keyRows, h, off, lo, hi int, p []float32, drop func(p []float32)) float64 {
	top := math.Inf(-1)
	for j := lo; j < hi; j++ {
		s := a.score(q, rows.of(rows.k, j)[off:off+len(q)], h, j)
		p[j-lo] = float32(s)
		top = max(top, s)
	}
	if lo == hi {
		clear(out)
		return top
	}
	var sum float64
	for j := range hi - lo {
		e := math.Exp(float64(p[j]) - top)
		p[j] = float32(e)
		sum += e
	}
	drop(p[:hi-lo])
	for done := 0; done < len(out); {
		var acc [64]float64 // of so many columns: rows may have to be decoded
		some := out[done:min(done+len(acc), len(out))]
		for j := lo; j < hi; j++ {
			for i, v := range rows.of(rows.v, j)[off+done:][:len(some)] {
				acc[i] += float64(p[j-lo]) * float64(v)
			}
		}
		for i := range some {
			some[i] = float32(acc[i] / sum)
		}
		done += len(some)
	}
	return top + math.Log(sum)
}

// OpAttention: q[T,Hq*D], k[T,Hkv*D], v[T,Hkv*D], q_start[S+1],
// key[DropoutLen] or none -> out[T,Hq*D], lse[T,Hq].
var OpAttention = register(&OpDef{
	Name: "attention",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fffiI"); err != nil {
			return nil, err
		}
		a, q, k := n.Attr.(AttentionAttr), n.In[0], n.In[1]
		_, err := sequences(n.In[3])
		if err := first(err, a.check(q, k, n.In[2]), wantKey(n.In[4])); err != nil {
			return nil, err
		}
		if q.Shape.Outer != k.Shape.Outer {
			return nil, fmt.Errorf("q is %s but k is %s: the numbers of tokens differ", q.Shape, k.Shape)
		}
		return []Type{like(q), {tensor.Rows(q.Shape.Outer, a.Heads), tensor.F32}}, nil
	},
	CostReads: []int{3},
	Cost: func(c *Call) Cost {
		a := c.Node.Attr.(AttentionAttr)
		return Cost{4 * int64(a.HeadDim) * int64(a.Heads) * a.batchPairs(c.In[3].I32), c.IOBytes()}
	},
	Scratch: func(n *Node, most tensor.Bind) int { return n.In[1].Shape.NumRows(most) },
	Ref: func(c *Call) {
		a, qStart := c.Node.Attr.(AttentionAttr), c.In[3].I32
		for s := 0; s+1 < len(qStart); s++ {
			q0, q1 := int(qStart[s]), int(qStart[s+1])
			rows := keyRows{k: &c.In[1], v: &c.In[2], base: q0}
			a.attendSequence(&c.In[0], &c.Out[0], &c.Out[1], q0, q1, &rows, q1-q0, c.Scratch, a.Dropout(c.In[4].I32))
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		if dOut[1] != nil {
			b.Fail("no gradient flows through the log-sum-exp of attention")
			return make([]*Value, 5)
		}
		g := b.Apply(OpAttentionGrad, "dqkv", n.Attr, n.In[0], n.In[1], n.In[2], n.Out[0], n.Out[1], dOut[0], n.In[3], n.In[4])
		return []*Value{g.Out[0], g.Out[1], g.Out[2], nil, nil}
	},
})
