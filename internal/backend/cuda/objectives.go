package cuda

import (
	"encoding/binary"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// The ops of objectives besides the next token, and what their models need.

func bindColumns(b *binder, n *graph.Node) {
	b.each("k_columns", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), n.In[0].Shape.RowLen())
}

func bindRowDot(b *binder, n *graph.Node) {
	x := n.In[0]
	b.warps("k_row_dot", b.Most(x), x.Shape.Outer, x.Shape.RowLen(), b.Value(n.Out[0]), b.Value(x), b.Value(n.In[1]))
}

// integers puts a list on the card.
func (b *binder) integers(values []int) address {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return b.Constant(data)
}

func bindBuckets(b *binder, n *graph.Node) {
	table := n.In[0]
	b.each("k_buckets", n.Out[0], b.Value(n.Out[0]), b.Value(table), b.integers(n.Attr.(*graph.BucketsAttr).Of), table.Shape.RowLen())
}

func bindBucketsGrad(b *binder, n *graph.Node) {
	of := n.Attr.(*graph.BucketsAttr).Of
	b.each("k_buckets_grad", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.integers(of), len(of))
}

func bindSequenceSum(b *binder, n *graph.Node) {
	y := n.Out[0]
	b.warps("k_sequence_sum", b.Most(y), y.Shape.Outer, b.Value(y), b.Value(n.In[0]), b.Value(n.In[1]))
}

func bindSequenceSumGrad(b *binder, n *graph.Node) {
	b.each("k_sequence_sum_grad", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), device.Sequences(n.In[1]))
}

func bindPreference(b *binder, n *graph.Node) {
	b.each("k_preference", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), n.Attr.(graph.PreferenceAttr).Beta)
}

func bindPreferenceGrad(b *binder, n *graph.Node) {
	b.each("k_preference_grad", n.Out[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), b.Value(n.In[2]), n.Attr.(graph.PreferenceAttr).Beta)
}

// perRow launches a kernel with a block per row of v.
func (b *binder) perRow(kernel string, v *graph.Value, more ...any) {
	b.launch(kernel, [3]int{b.Most(v), 1, 1}, 256, append([]any{b.sizes, v.Shape.Outer, v.Shape.RowLen()}, more...)...)
}

func bindDistill(b *binder, n *graph.Node) {
	b.perRow("k_distill", n.In[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), n.Attr.(graph.DistillAttr).Temperature)
}

func bindDistillGrad(b *binder, n *graph.Node) {
	b.perRow("k_distill_grad", n.In[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), b.Value(n.In[2]), n.Attr.(graph.DistillAttr).Temperature)
}

func bindInfoNCE(b *binder, n *graph.Node) {
	b.perRow("k_infonce", n.In[0], b.Value(n.Out[0]), b.Value(n.Out[1]), b.Value(n.In[0]), b.Value(n.In[1]), b.Value(n.In[2]), n.Attr.(graph.InfoNCEAttr).Scale)
}

func bindInfoNCEGrad(b *binder, n *graph.Node) {
	b.perRow("k_infonce_grad", n.In[0], b.Value(n.Out[0]), b.Value(n.In[0]), b.Value(n.In[1]), b.Value(n.In[2]), b.Value(n.In[3]), b.Value(n.In[4]), n.Attr.(graph.InfoNCEAttr).Scale)
}

// embedGrad adds the rows of dy that name each of some rows, in order. With starts,
// a row of dy is that of a sequence, divided by its tokens.
func (b *binder) embedGrad(n *graph.Node, rows int, tokens tensor.Dim, starts *graph.Value, scale float32) {
	dy, seqs := n.In[0], tensor.Fixed(0)
	if starts != nil {
		seqs = device.Sequences(starts)
	}
	b.launch("k_embed_grad", [3]int{rows, 1, 1}, 256, b.sizes, tokens, dy.Shape.RowLen(), b.Value(n.Out[0]), b.Value(dy), b.Value(n.In[1]), scale, b.Value(starts), seqs)
}

func bindEmbedGrad(b *binder, n *graph.Node) {
	a := n.Attr.(graph.EmbedGradAttr)
	b.embedGrad(n, a.Rows, n.In[0].Shape.Outer, nil, a.Scale)
}

func bindEmbedBagGrad(b *binder, n *graph.Node) {
	b.embedGrad(n, n.Attr.(graph.EmbedGradAttr).Rows, n.In[1].Shape.Outer, n.In[2], 1)
}

func bindScatterRows(b *binder, n *graph.Node) {
	b.embedGrad(n, b.Most(n.Out[0]), n.In[0].Shape.Outer, nil, 1)
}

func bindPoolGrad(b *binder, n *graph.Node) {
	dx, kind := n.Out[0], n.Attr.(graph.PoolAttr).Kind
	for i := range kind.Len() {
		b.perRow("k_pool_grad", dx, b.Value(dx), b.Value(n.In[0]), b.Value(n.In[1]), device.Sequences(n.In[1]), b.Value(n.In[2]), int(kind.At(i)), n.In[0].Shape.RowLen(), i*dx.Shape.RowLen(), i > 0)
	}
}
