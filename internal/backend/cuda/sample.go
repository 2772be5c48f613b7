package cuda

import "hotpath/internal/graph"

// sampleParts is the number of blocks that look for a row's largest logit.
const sampleParts = 16

// bindSample draws a token per row: the largest logit by all blocks, then what the
// parameters of the row ask for by one block.
func bindSample(b *binder, n *graph.Node) {
	logits := n.In[0]
	rows, cols := b.Most(logits), logits.Shape.RowLen()
	best := b.Workspace(16 * sampleParts * int64(rows))
	b.launch("k_sample_best", [3]int{sampleParts, rows, 1}, 256, b.sizes, logits.Shape.Outer, cols, best, b.Value(logits))
	b.launch("k_sample", [3]int{rows, 1, 1}, 1024, b.sizes, logits.Shape.Outer, cols, b.Value(n.Out[0]), best, sampleParts, b.Value(logits), b.Value(n.In[1]), b.Value(n.In[2]))
}
