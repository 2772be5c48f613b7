package cuda

import (
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Queries and keys on their way to attention: the norm and the rotation of their
// heads are a part of attention's step. Few rows do it in attention's kernel, more
// rows in one kernel before it.

// headNorm is the norm of each head, as HeadNorm in heads.cu and Before in rows.cu.
// The zero value norms nothing.
type headNorm struct {
	weight, bias address
	graph.NormAttr
}

// normOf is the norm of a node; nil norms nothing.
func (b *binder) normOf(n *graph.Node) headNorm {
	if n == nil {
		return headNorm{}
	}
	return headNorm{b.Value(n.In[1]), b.Value(n.In[2]), n.Attr.(graph.NormAttr)}
}

// headsAttention is the kind of the steps.
const headsAttention = "heads+attention"

// headPatterns are attention with rotated heads, which may have norms.
var headPatterns = func() []plan.Pattern {
	normed, plain := &plan.Pattern{Root: graph.OpRope, Inputs: []*plan.Pattern{{Root: graph.OpNorm}}}, &plan.Pattern{Root: graph.OpRope}
	return []plan.Pattern{
		{Kind: headsAttention, Root: graph.OpAttention, Inputs: []*plan.Pattern{normed, normed}, Match: rotatedHeads},
		{Kind: headsAttention, Root: graph.OpAttention, Inputs: []*plan.Pattern{plain, plain}, Match: rotatedHeads},
	}
}()

// headSizes are the heads that k_heads has kernels for.
var headSizes = []int{64, 128, 256}

// rotatedHeads reports whether queries and keys rotate alike, as a whole and in
// halves, by positions that are there before the run and frequencies that do not
// depend on the text's length. A norm is of each head, by one weight for all, which no
// step writes.
func rotatedHeads(nodes []*graph.Node) bool {
	n := nodes[len(nodes)-1]
	q, k := n.In[0].Node, n.In[1].Node
	head, a := n.Attr.(graph.AttentionAttr).HeadDim, q.Attr.(graph.RopeAttr)
	if k.Attr.(graph.RopeAttr) != a || !slices.Equal(q.In[1:], k.In[1:]) || !slices.Contains(headSizes, head) || a.HeadDim != head || a.RotDim != head || a.Interleaved || a.Inverse || a.Context > 0 || n.DropsWeights() {
		return false
	}
	if q.In[1].Node.Leaf == nil {
		return false
	}
	for _, m := range nodes {
		if m.Op != graph.OpNorm {
			continue
		}
		attr, width := m.Attr.(graph.NormAttr), m.In[1].Shape.Len(tensor.Bind{})
		if width != head || attr.Size(width) != head || !normGiven(m) { // the kernel reads gains before it waits
			return false
		}
	}
	return true
}

func bindHeadsAttention(b *binder, n *graph.Node) {
	ropes, norms := [2]*graph.Node{n.In[0].Node, n.In[1].Node}, [2]*graph.Node{}
	qkv := [3]in{2: b.reads(n.In[2])}
	for i, rope := range ropes {
		v := rope.In[0]
		if slices.Contains(b.Step.Nodes, v.Node) {
			norms[i] = v.Node
			v = v.Node.In[0]
		}
		qkv[i] = b.reads(v)
	}
	b.attention(n, qkv, b.normOf(norms[0]), b.normOf(norms[1]), b.turnOf(ropes[0]))
}

// heads norms and rotates queries and keys into the step's memory: in bf16 where
// attention runs on tensor cores.
func (b *binder) heads(n *graph.Node, a graph.AttentionAttr, qkv *[3]in, qNorm, kNorm headNorm, rope turn, rounded bool) {
	rows := b.Most(n.In[0])
	var to [2]out
	var made [2]in
	for i, heads := range []int{a.Heads, a.KVHeads} {
		values := int64(rows) * int64(heads*a.HeadDim)
		if rounded {
			at := b.Workspace(2 * values)
			to[i], made[i] = out{half: at}, in{at, true}
		} else {
			at := b.Workspace(4 * values)
			to[i], made[i] = out{plain: at}, in{at: at}
		}
	}
	grid := [3]int{(rows + headWarps - 1) / headWarps, 1, 1}
	// Warps share the heads of a row until the card is full.
	grid[1] = min(a.Heads+a.KVHeads, max(1, 16*b.be.drv.describe().Units/max(1, rows/2)))
	b.launch(fmt.Sprintf("k_heads_%d", a.HeadDim), grid, 32*headWarps, b.sizes, n.In[0].Shape.Outer, a.Heads, a.KVHeads, to[0], to[1], qkv[0], qkv[1], qNorm, kNorm, rope)
	qkv[0], qkv[1] = made[0], made[1]
}

// headWarps is the rows per block.
const headWarps = 4
