package opencl

import (
	"encoding/binary"
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

const (
	// sampleParts is the number of groups that look for a row's largest logit.
	sampleParts = 16
	// sampleLanes are the work items of a group.
	sampleLanes = 256
)

var sampleCode = code{files: []string{"common", "sample"}}

// Stages of a draw behind the search for the largest logit. A stage without needs is
// always launched; the others where a row asks for them.
var sampleStages = []struct {
	kernel string
	needs  func(topK int, byP bool) bool
}{
	{"k_sample_top_k", nil}, // also gives their ids to greedy rows
	{"k_sample_top_p", func(_ int, byP bool) bool { return byP }},
	{"k_sample_sorted", func(topK int, byP bool) bool { return topK > 0 || byP }},
	{"k_sample_by_id", func(topK int, byP bool) bool { return topK <= 0 && !byP }},
}

// bindSample draws a token per row: the largest logit by all groups, then what the
// parameters of the row ask for by one group per row and stage.
func bindSample(b *binder, n *graph.Node) {
	logits := n.In[0]
	rows, cols, most := logits.Shape.Outer, logits.Shape.RowLen(), int64(b.Most(logits))
	best, state := b.Workspace(16*sampleParts*most), b.Workspace(8*most)
	b.launchOf(sampleCode, "k_sample_best", [2]extent{groups(sampleParts), {rows, 1, 1, 0}}, sampleLanes, b.sizes, rows, cols, best, b.Value(logits))
	for _, stage := range sampleStages {
		before := len(b.exec.launches)
		b.launchOf(sampleCode, stage.kernel, [2]extent{{rows, 1, 1, 0}, groups(1)}, sampleLanes,
			b.sizes, rows, cols, b.Value(n.Out[0]), best, sampleParts, state, b.Value(logits), b.Value(n.In[1]), b.Value(n.In[2]))
		if stage.needs != nil && len(b.exec.launches) > before {
			b.exec.launches[before].idle = b.unasked(n.In[1], stage.needs)
		}
	}
}

// unasked reports whether no row of a run needs a stage. It knows where the parameters
// come from the host.
func (b *binder) unasked(how *graph.Value, needs func(topK int, byP bool) bool) func(tensor.Bind) bool {
	place := b.Plan.Place(how)
	if how.Node.Leaf == nil || how.Node.Leaf.Kind != graph.InputLeaf || place.Class != plan.IO {
		return nil
	}
	host := b.IO.Host()[place.Offset:]
	return func(sizes tensor.Bind) bool {
		for r := range how.Shape.NumRows(sizes) {
			at := func(i int) float32 {
				return math.Float32frombits(binary.LittleEndian.Uint32(host[4*(r*graph.SampleLen+i):]))
			}
			topK, topP := int(at(graph.SampleTopK)), at(graph.SampleTopP)
			if greedy := at(graph.SampleTemperature) == 0 || topK == 1; !greedy && needs(topK, topP > 0 && topP < 1) {
				return false
			}
		}
		return true
	}
}
