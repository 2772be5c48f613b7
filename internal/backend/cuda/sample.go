package cuda

import "hotpath/internal/graph"

const (
	sampleThreads = 256
	sampleTurn    = 8 // logits that a thread of k_sample_best has under way: AHEAD in sample.cu
	// sampleWaves is the number of blocks per unit that look for the rows' largest
	// logits: all run at once with the 40 to 44 registers of k_sample_best.
	sampleWaves = 5
)

// sampleParts is the number of blocks that look for a row's largest logit: as many as
// need one turn, or fewer where all rows together fill the card.
func sampleParts(rows, cols, units int) int {
	turn := sampleThreads * sampleTurn
	return max(1, min((cols+turn-1)/turn, sampleWaves*units/rows))
}

// bindSample draws a token per row: the largest logit by all blocks, then what the
// parameters of the row ask for by one block.
func bindSample(b *binder, n *graph.Node) {
	logits := n.In[0]
	rows, cols := b.Most(logits), logits.Shape.RowLen()
	parts := sampleParts(rows, cols, b.be.drv.describe().Units)
	best := b.Workspace(16 * int64(parts) * int64(rows))
	b.launch("k_sample_best", [3]int{parts, rows, 1}, sampleThreads, b.sizes, logits.Shape.Outer, cols, best, b.Value(logits))
	b.launch("k_sample", [3]int{rows, 1, 1}, 1024, b.sizes, logits.Shape.Outer, cols, b.Value(n.Out[0]), best, parts, b.Value(logits), b.Value(n.In[1]), b.Value(n.In[2]))
}
