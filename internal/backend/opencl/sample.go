package opencl

import (
	"hotpath/internal/graph"
)

const (
	// sampleParts is the number of groups that look for a row's largest logit.
	sampleParts = 16
	// sampleLanes are the work items of a group.
	sampleLanes = 256
)

var sampleCode = code{units: parts("common", "sample")}

// bindSample draws a token per row: the largest logit by all groups, then what the
// parameters of the row ask for by one group per row and stage. Stages that a row
// does not need end at once.
func bindSample(b *binder, n *graph.Node) {
	logits := n.In[0]
	rows, cols, most := logits.Shape.Outer, logits.Shape.RowLen(), int64(b.Most(logits))
	best, state := b.Workspace(16*sampleParts*most), b.Workspace(8*most)
	b.launchOf(sampleCode, "k_sample_best", [2]extent{groups(sampleParts), {rows, 1, 1, 0}}, sampleLanes, b.sizes, rows, cols, best, b.Value(logits))
	for _, stage := range []string{"k_sample_top_k", "k_sample_top_p", "k_sample_sorted", "k_sample_by_id"} {
		b.launchOf(sampleCode, stage, [2]extent{{rows, 1, 1, 0}, groups(1)}, sampleLanes,
			b.sizes, rows, cols, b.Value(n.Out[0]), best, sampleParts, state, b.Value(logits), b.Value(n.In[1]), b.Value(n.In[2]))
	}
}
