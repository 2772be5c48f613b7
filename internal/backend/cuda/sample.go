package cuda

import "hotpath/internal/graph"

// sampleBlocks is the number of blocks that look for the rows' largest logits.
const sampleBlocks = 128

// bindSample draws a token per row: the largest logit by all blocks, then what the
// parameters of the row ask for by one block.
func bindSample(b *binder, n *graph.Node) {
	logits := n.In[0]
	rows, cols := b.Most(logits), logits.Shape.RowLen()
	parts := max(16, sampleBlocks/rows)
	best := b.Workspace(16 * int64(parts) * int64(rows))
	b.launch("k_sample_best", [3]int{parts, rows, 1}, 256, b.sizes, logits.Shape.Outer, cols, best, b.Value(logits))
	b.launch("k_sample", [3]int{rows, 1, 1}, 1024, b.sizes, logits.Shape.Outer, cols, b.Value(n.Out[0]), best, parts, b.Value(logits), b.Value(n.In[1]), b.Value(n.In[2]))
}
