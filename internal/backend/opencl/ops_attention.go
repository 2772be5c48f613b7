package opencl

import (
	"fmt"

	"hotpath/internal/graph"
)

const (
	// maxHead is the largest head that the kernels of attention hold.
	maxHead = 256
	// attendLanes are the work items of a group of attention.
	attendLanes = 64
	// manyQueries is the number of queries of a group where there are many.
	manyQueries = 8
)

// slopes are what ALiBi multiplies distances with, per head; none where the model
// has no ALiBi.
func (b *binder) slopes(a graph.AttentionAttr) address {
	if !a.Alibi {
		return 0
	}
	table := make([]float32, a.Heads)
	for h := range table {
		table[h] = a.AlibiSlope(h)
	}
	return b.keep(bytesOf(table))
}

// attend launches attention of few queries per group, or of many.
func (b *binder) attend(name string, q *graph.Value, heads int, arguments ...any) {
	queries := 1
	if b.most(q) > fewRows || b.plan.Invariant {
		queries = manyQueries
	}
	b.launch(fmt.Sprintf("%s_%d", name, queries), [2]extent{{q.Shape.Outer, 1, queries, 0}, groups(heads)}, attendLanes, arguments...)
}

func bindAttention(b *binder, n *graph.Node) {
	a, q := n.Attr.(graph.AttentionAttr), n.In[0]
	var lse, rel address
	relCols := 1
	if len(n.Out) > 1 {
		lse = b.value(n.Out[1])
	}
	if len(n.In) > 4 {
		rel, relCols = b.value(n.In[4]), n.In[4].Shape.RowLen()
	}
	b.attend("k_attention", q, a.Heads, b.sizes, q.Shape.Outer, sequences(n.In[3]), a, b.slopes(a), b.value(n.Out[0]), lse, b.value(q), b.value(n.In[1]), b.value(n.In[2]), b.value(n.In[3]), rel, relCols)
}

func bindAttentionKV(b *binder, n *graph.Node) {
	a, q, table := n.Attr.(graph.AttentionKVAttr), n.In[0], n.In[5]
	b.attend("k_attention_kv_"+lower(n.In[1].DType), q, a.Heads, b.sizes, q.Shape.Outer, sequences(n.In[3]), a.AttentionAttr, b.slopes(a.AttentionAttr), b.value(n.Out[0]), b.value(q), b.value(n.In[1]), b.value(n.In[2]),
		b.value(n.In[3]), b.value(n.In[4]), b.value(table), table.Shape.RowLen(), a.BlockSize)
}

// bindAttentionGrad has a kernel per gradient that somebody wants; the last operand
// is the bias by distance, where the model has one.
func bindAttentionGrad(b *binder, n *graph.Node) {
	a, q := n.Attr.(graph.AttentionAttr), n.In[0]
	var rel address
	relCols := 1
	if len(n.In) > 7 {
		rel, relCols = b.value(n.In[7]), n.In[7].Shape.RowLen()
	}
	per := func(heads int) [2]extent { return [2]extent{{q.Shape.Outer, 1, 1, 0}, groups(heads)} }
	launch := func(name string, size [2]extent, out ...any) {
		arguments := append([]any{b.sizes, q.Shape.Outer, sequences(n.In[6]), a, b.slopes(a)}, out...)
		b.launch(name, size, attendLanes, append(append(arguments, b.values(n.In[:7])...), rel, relCols)...)
	}
	if dq := b.value(n.Out[0]); dq != 0 {
		launch("k_attention_dq", per(a.Heads), dq)
	}
	if dk, dv := b.value(n.Out[1]), b.value(n.Out[2]); dk != 0 || dv != 0 {
		launch("k_attention_dkv", per(a.KVHeads), dk, dv)
	}
	if len(n.Out) > 3 && b.value(n.Out[3]) != 0 {
		launch("k_attention_drel", [2]extent{groups(relCols), groups(a.Heads)}, b.value(n.Out[3]))
	}
}
