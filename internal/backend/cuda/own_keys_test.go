package cuda

import (
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Keys of earlier runs may be loaded before the products of this run have ended. Which
// these are is known only if each query has a key of this run, of its own row.
func TestOwnKeys(t *testing.T) {
	const heads, kv, head = 4, 2, 64
	tokens, seqs := tensor.Of(tensor.T, 1), tensor.Of(tensor.S, 1)
	for _, c := range []struct {
		name          string
		queries, keys tensor.Dim
		written       bool
		want          bool
	}{
		{"a query per key", tokens, tokens, true, true},
		{"a query per sequence, as many at most", seqs, tokens, true, false},
		{"a cache that nobody writes", tokens, tokens, false, false},
	} {
		b := graph.NewBuilder(tensor.Bind{T: 8, S: 8, R: 1})
		ints := func(name string, s tensor.Shape) *graph.Value { return b.Input(name, tensor.I32, s) }
		starts, lens, table := ints("starts", tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1})), ints("lens", tensor.Rows(seqs)), ints("table", tensor.Rows(seqs, 4))
		shape := tensor.Static(64*graph.KVBlock, kv*head)
		ks, vs := b.State("ks", graph.RoleKV, tensor.F16, shape), b.State("vs", graph.RoleKV, tensor.F16, shape)
		k, v := b.Input("k", tensor.F32, tensor.Rows(c.keys, kv*head)), b.Input("v", tensor.F32, tensor.Rows(c.keys, kv*head))
		if c.written {
			ks, vs = b.KVWrite("write", ks, vs, k, v, ints("slots", tensor.Rows(c.keys)))
		}
		q := b.Input("q", tensor.F32, tensor.Rows(c.queries, heads*head))
		y := b.AttentionKV("attention", q, ks, vs, starts, lens, table, graph.AttentionKVAttr{AttentionAttr: graph.AttentionAttr{Heads: heads, KVHeads: kv, HeadDim: head, Causal: true}})
		if got := ownKeys(y.Node); got != c.want {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}
