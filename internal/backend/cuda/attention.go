package cuda

import (
	"fmt"
	"strings"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// maxHead is the largest head that the kernels of attention hold in registers.
const maxHead = 256

func (b *binder) checkHead(n *graph.Node, head int) bool {
	if head > maxHead {
		b.Fail(fmt.Errorf("%w: %s has heads of %d values, expected at most %d", ErrDevice, n.Name, head, maxHead))
	}
	return head <= maxHead
}

// fewHead is the largest head of which a block holds 16 queries, keys and values.
const fewHead = 128

// flashHead is the size of head that tensor cores compute a head with; 0: none.
func flashHead(head int) int {
	for _, d := range []int{32, 64, 128, maxHead} {
		if head <= d {
			return d
		}
	}
	return 0
}

// wideHead is the largest head of flash.cu. Blocks of flash_wide.cu take larger ones:
// 64 queries of the heads that share keys, with queries, keys and values in shared
// memory in rows of 264 values of 16 bits.
const (
	wideHead   = 128
	wideRows   = 64
	flashBytes = 3 * wideRows * (maxHead + 8) * 2
)

// flash launches attention on tensor cores. operands are those of the kernels of
// flash.cu up to the bias by distance; lse is where the log-sum-exp goes, or 0.
func (b *binder) flash(n *graph.Node, a graph.AttentionAttr, kind string, lse address, operands []any) {
	rows, d := b.Most(n.In[0]), flashHead(a.HeadDim)
	kernel := fmt.Sprintf("k_flash_%d_%s", d, kind)
	if d > wideHead {
		b.launch(kernel, [3]int{(rows*(a.Heads/a.KVHeads) + wideRows - 1) / wideRows, a.KVHeads, 1}, 128, operands...)
		b.launches[len(b.launches)-1].shared = flashBytes
		return
	}
	operands = append(operands, lse)
	if n.Op != graph.OpAttentionKV && n.DropsWeights() {
		kernel, operands = fmt.Sprintf("k_flash_drop_%d", d), append(operands, b.dropOf(n))
	}
	b.launch(kernel, [3]int{(rows + 127) / 128, a.Heads, 1}, 256, operands...)
}

// drop is the dropout of attention's weights, as Drop in attention.cu.
type drop struct {
	key  address // 0: none
	salt uint32
}

// dropOf is the dropout of a node, whose key is its last operand.
func (b *binder) dropOf(n *graph.Node) drop {
	return drop{b.Value(n.In[len(n.In)-1]), n.Attr.(graph.AttentionAttr).Salt}
}

func bindAttention(b *binder, n *graph.Node) {
	b.attention(n, [3]in{b.reads(n.In[0]), b.reads(n.In[1]), b.reads(n.In[2])}, headNorm{}, headNorm{}, turn{})
}

// attention is that of queries, keys and values. Norms and rotation, if there are
// any, are of the heads of queries and keys before.
func (b *binder) attention(n *graph.Node, qkv [3]in, qNorm, kNorm headNorm, rope turn) {
	a, q := n.Attr.(graph.AttentionAttr), n.In[0]
	if !b.checkHead(n, a.HeadDim) {
		return
	}
	var lse, rel address
	relCols := 1
	if len(n.Out) > 1 {
		lse = b.Value(n.Out[1])
	}
	if n.Op == graph.OpAttentionRel {
		rel, relCols = b.Value(n.In[4]), n.In[4].Shape.RowLen()
	}
	seqs, starts := device.Sequences(n.In[3]), b.Value(n.In[3])
	few, rotated := b.fewQueries(q), rope.HeadDim > 0
	if few && a.HeadDim <= fewHead && !rotated {
		b.launch("k_attention_few", [3]int{a.Heads, 1, 1}, 256, b.sizes, q.Shape.Outer, seqs, a, b.Value(n.Out[0]), lse, qkv[0].at, qkv[1].at, qkv[2].at, starts, rel, relCols, b.dropOf(n))
		return
	}
	if few && a.HeadDim%8 == 0 && rel == 0 && !n.DropsWeights() {
		b.launch("k_attention_heads", [3]int{a.Heads, b.Most(q), 1}, 256, b.sizes, q.Shape.Outer, seqs, a, b.Value(n.Out[0]), lse, qkv[0], qkv[1], qkv[2], starts, qNorm, kNorm, rope)
		return
	}
	flashes := !few && b.be.flashes(n, lse != 0)
	if rotated {
		b.heads(n, a, &qkv, qNorm, kNorm, rope, flashes)
	}
	if flashes {
		if lse != 0 && half.Holds(a.HeadDim) {
			for i := range qkv {
				qkv[i] = b.rounded(n.In[i], qkv[i])
			}
		}
		b.flash(n, a, "f32", lse, []any{b.sizes, q.Shape.Outer, seqs, a, b.writes(n.Out[0]), qkv[0], qkv[1], qkv[2], starts, address(0), address(0), 0, 1, rel, relCols})
		return
	}
	b.warps("k_attention", b.Most(q)*a.Heads, q.Shape.Outer, seqs, a, b.writes(n.Out[0]), lse, qkv[0].at, qkv[1].at, qkv[2].at, starts, rel, relCols, b.dropOf(n))
}

// fewQueries reports whether attention and its gradients are computed in f32 because
// queries are few: the log-sum-exp of one must be that of the other's scores.
func (b *binder) fewQueries(q *graph.Value) bool { return b.Most(q) <= fewRows && !b.Plan.Invariant }

// singleQueries is up to how many rows each query reads the cache by itself: such
// batches are mostly sequences that decode.
const singleQueries = 64

func bindAttentionKV(b *binder, n *graph.Node) {
	a, q, table := n.Attr.(graph.AttentionKVAttr), n.In[0], n.In[5]
	if !b.checkHead(n, a.HeadDim) {
		return
	}
	seqs, kvType := device.Sequences(n.In[3]), strings.ToLower(n.In[1].DType.String())
	cache := []any{b.Value(n.In[3]), b.Value(n.In[4]), b.Value(table), table.Shape.RowLen(), a.BlockSize}
	k, v := b.Value(n.In[1]), b.Value(n.In[2])
	plain := append([]any{b.sizes, q.Shape.Outer, seqs, a.AttentionAttr, b.writes(n.Out[0]), b.Value(q), k, v}, cache...)
	switch {
	case b.Most(q) <= singleQueries && !b.Plan.Invariant && n.In[1].DType == tensor.F16 && (a.HeadDim == 64 || a.HeadDim == 128):
		starts, threads := b.Value(n.In[3]), 256
		if b.Most(q) == device.OneRow {
			starts, threads = 0, 512
		}
		b.launch(attendRow(a.HeadDim), [3]int{b.Most(q), a.Heads, 1}, threads, b.sizes, q.Shape.Outer, seqs, a.AttentionAttr, b.writes(n.Out[0]), b.Value(q), k, v,
			starts, b.Value(n.In[4]), b.Value(table), table.Shape.RowLen(), a.BlockSize, ownKeys(n))
	case b.Most(q) <= singleQueries && !b.Plan.Invariant:
		b.launch("k_attend_one_"+kvType, [3]int{b.Most(q), a.Heads, 1}, 256, plain...)
	case !b.be.inF32(q.Shape.RowLen()) && n.In[1].DType != tensor.Q8_0:
		operands := append([]any{b.sizes, q.Shape.Outer, seqs, a.AttentionAttr, b.writes(n.Out[0]), in{at: b.Value(q)}, in{at: k}, in{at: v}}, cache...)
		b.flash(n, a.AttentionAttr, kvType, 0, append(operands, address(0), 1))
	default:
		b.warps("k_attention_kv_"+kvType, b.Most(q)*a.Heads, plain[1:]...)
	}
}

// attendRow is the kernel for queries that read a cache of f16 by themselves, which has
// heads of 64 and of 128 values.
func attendRow(head int) string { return fmt.Sprintf("k_attend_row_%d", head) }

// ownKeys reports whether a run writes the keys and values of its own queries into the
// cache, and nothing else: those before them are there since the last run. What says where
// they are comes with the inputs.
func ownKeys(n *graph.Node) bool {
	w := n.In[1].Node
	return w.Op == graph.OpKVWrite && w == n.In[2].Node && w.In[0].Node.Leaf != nil && w.In[1].Node.Leaf != nil &&
		w.In[2].Shape.Outer == n.In[0].Shape.Outer && given(n.In[3]) && given(n.In[4]) && given(n.In[5])
}

func bindAttentionGrad(b *binder, n *graph.Node) {
	a, q := n.Attr.(graph.AttentionAttr), n.In[0]
	if !b.checkHead(n, a.HeadDim) {
		return
	}
	seqs := device.Sequences(n.In[6])
	var rel, drel address
	relCols := 1
	if n.Op == graph.OpAttentionRelGrad {
		rel, relCols, drel = b.Value(n.In[7]), n.In[7].Shape.RowLen(), b.Value(n.Out[3])
	}
	if !b.fewQueries(q) && b.be.flashesBack(n) {
		b.flashGrad(n, a, seqs)
		return
	}
	operands := []any{b.Value(q), b.Value(n.In[1]), b.Value(n.In[2]), b.Value(n.In[3]), b.Value(n.In[4]), b.Value(n.In[5]), b.Value(n.In[6]), rel, relCols, b.dropOf(n)}
	if dq := b.Value(n.Out[0]); dq != 0 {
		b.warps("k_attention_dq", b.Most(q)*a.Heads, append([]any{q.Shape.Outer, seqs, a, dq}, operands...)...)
	}
	if dk, dv := b.Value(n.Out[1]), b.Value(n.Out[2]); dk != 0 || dv != 0 {
		b.warps("k_attention_dkv", b.Most(q)*a.KVHeads, append([]any{q.Shape.Outer, seqs, a, dk, dv}, operands...)...)
	}
	if drel != 0 {
		b.launch("k_attention_drel", [3]int{relCols, a.Heads, 1}, 256, append([]any{b.sizes, seqs, a, drel}, operands...)...)
	}
}

// flashesBack reports whether tensor cores compute the gradients of n.
func (b *Backend) flashesBack(n *graph.Node) bool {
	return n.Op == graph.OpAttentionGrad && !b.inF32(n.In[0].Shape.RowLen()) && flashesBack(n.Attr.(graph.AttentionAttr))
}

// flashesBack reports whether tensor cores compute the gradients of attention.
func flashesBack(a graph.AttentionAttr) bool {
	return a.HeadDim <= 64 && a.HeadDim%8 == 0 && a.SoftCap == 0 && !a.Alibi
}

// flashGrad rounds the operands to bf16 and takes the gradients of queries, then
// those of keys and values.
func (b *binder) flashGrad(n *graph.Node, a graph.AttentionAttr, seqs tensor.Dim) {
	q := n.In[0]
	delta := b.Workspace(4 * int64(b.Most(q)) * int64(a.Heads))
	b.launch("k_attention_delta", b.spread(b.Most(q)*a.Heads*a.HeadDim/8), 256, b.sizes, q.Shape.Outer, a, delta, b.reads(n.In[3]), b.reads(n.In[5]))
	var operands []any
	for _, v := range []*graph.Value{q, n.In[1], n.In[2], n.In[5]} {
		operands = append(operands, b.rounded(v, b.reads(v)).at)
	}
	operands = append(operands, b.Value(n.In[4]), delta, b.Value(n.In[6]))
	kernel := "k_flash_"
	if n.DropsWeights() {
		kernel, operands = "k_flash_drop_", append(operands, b.dropOf(n))
	}
	blocks, d := (b.Most(q)+127)/128, flashHead(a.HeadDim)
	if dq := b.writes(n.Out[0]); dq != (out{}) {
		b.launch(fmt.Sprintf("%sdq_%d", kernel, d), [3]int{blocks, a.Heads, 1}, 256, append([]any{b.sizes, q.Shape.Outer, seqs, a, dq}, operands...)...)
	}
	if dk, dv := b.writes(n.Out[1]), b.writes(n.Out[2]); dk != (out{}) || dv != (out{}) {
		b.launch(fmt.Sprintf("%sdkv_%d", kernel, d), [3]int{blocks, a.KVHeads, 1}, 256, append([]any{b.sizes, q.Shape.Outer, seqs, a, dk, dv}, operands...)...)
	}
}
