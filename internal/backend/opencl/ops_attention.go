package opencl

import (
	"fmt"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

const (
	// maxHead is the largest head that the kernels of attention hold.
	maxHead = 256
	// attendLanes are the work items of a group of attention and of its gradients.
	attendLanes = 64
	// manyQueries is the number of queries of a group where there are many, and the
	// head is too large for tiles.
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
	return b.Constant(device.Bytes(table))
}

// flash is how attention of many queries is cut: queries and keys per group, for heads
// of up to so many values.
type flash struct{ head, queries, keys int }

var flashes = []flash{{32, 64, 64}, {64, 32, 64}, {128, 32, 32}}

func (f flash) items() int { return f.queries / 4 * (f.keys / 4) }

// local is how many bytes of local memory a group needs.
func (f flash) local() int64 {
	kv := max(f.head*(f.keys+4), f.keys*(f.head+4))
	return 4 * int64(f.head*(f.queries+4)+kv+f.keys*(f.queries+4)+f.queries*f.keys/4)
}

func (f flash) code(t tensor.DType) code {
	c := typed(t, "common", "mask", "flash")
	c.options += fmt.Sprintf(" -DHEAD=%d -DBQ=%d -DBK=%d", f.head, f.queries, f.keys)
	return c
}

// flashFor finds the way for a head, if the device has room for one.
func flashFor(d description, head int) (flash, bool) {
	for _, f := range flashes {
		if head <= f.head {
			return f, head%8 == 0 && f.items() <= d.Items && f.local() <= d.Local
		}
	}
	return flash{}, false
}

// attend launches attention by its number of queries: of a text each, or of many.
func (b *binder) attend(q *graph.Value, t tensor.DType, a graph.AttentionAttr, arguments ...any) {
	few := b.Most(q) <= fewRows && !b.Plan.Invariant
	per := func(queries int) [2]extent { return [2]extent{{q.Shape.Outer, 1, queries, 0}, groups(a.Heads)} }
	f, ok := flashFor(b.be.about, a.HeadDim)
	switch {
	case few && a.HeadDim%8 == 0:
		b.launchOf(typed(t, "common", "mask", "attend_one"), "k_attend_one", per(1), itemsOf, arguments...)
	case ok && !few:
		b.launchOf(f.code(t), "k_flash", per(f.queries), f.items(), arguments...)
	default:
		queries := manyQueries
		if few {
			queries = 1
		}
		c := typed(t, "common", "mask", "attend")
		c.options += fmt.Sprintf(" -DQUERIES=%d", queries)
		b.launchOf(c, "k_attend", per(queries), attendLanes, arguments...)
	}
}

func bindAttention(b *binder, n *graph.Node) {
	a, q := n.Attr.(graph.AttentionAttr), n.In[0]
	var lse, rel address
	relCols := 1
	if len(n.Out) > 1 {
		lse = b.Value(n.Out[1])
	}
	if n.Op == graph.OpAttentionRel {
		rel, relCols = b.Value(n.In[4]), n.In[4].Shape.RowLen()
	}
	b.attend(q, tensor.F32, a, b.sizes, q.Shape.Outer, device.Sequences(n.In[3]), a, b.slopes(a), b.Value(n.Out[0]), lse, b.Value(q), b.Value(n.In[1]), b.Value(n.In[2]), b.Value(n.In[3]), address(0), address(0), 0, 1, rel, relCols)
}

func bindAttentionKV(b *binder, n *graph.Node) {
	a, q, table := n.Attr.(graph.AttentionKVAttr), n.In[0], n.In[5]
	b.attend(q, n.In[1].DType, a.AttentionAttr, b.sizes, q.Shape.Outer, device.Sequences(n.In[3]), a.AttentionAttr, b.slopes(a.AttentionAttr), b.Value(n.Out[0]), address(0), b.Value(q), b.Value(n.In[1]), b.Value(n.In[2]),
		b.Value(n.In[3]), b.Value(n.In[4]), b.Value(table), table.Shape.RowLen(), a.BlockSize, address(0), 1)
}

// bindAttentionGrad has a kernel per gradient that somebody wants; the last operand
// is the bias by distance, where the model has one.
func bindAttentionGrad(b *binder, n *graph.Node) {
	a, q := n.Attr.(graph.AttentionAttr), n.In[0]
	var rel address
	relCols := 1
	if n.Op == graph.OpAttentionRelGrad {
		rel, relCols = b.Value(n.In[7]), n.In[7].Shape.RowLen()
	}
	per := func(heads int) [2]extent { return [2]extent{{q.Shape.Outer, 1, 1, 0}, groups(heads)} }
	launch := func(name string, size [2]extent, out ...any) {
		arguments := append([]any{b.sizes, q.Shape.Outer, device.Sequences(n.In[6]), a, b.slopes(a)}, out...)
		b.launch(name, size, attendLanes, append(append(arguments, b.values(n.In[:7])...), rel, relCols)...)
	}
	if dq := b.Value(n.Out[0]); dq != 0 {
		launch("k_attention_dq", per(a.Heads), dq)
	}
	if dk, dv := b.Value(n.Out[1]), b.Value(n.Out[2]); dk != 0 || dv != 0 {
		launch("k_attention_dkv", per(a.KVHeads), dk, dv)
	}
	if len(n.Out) > 3 && b.Value(n.Out[3]) != 0 {
		launch("k_attention_drel", [2]extent{groups(relCols), groups(a.Heads)}, b.Value(n.Out[3]))
	}
}
