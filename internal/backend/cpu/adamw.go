package cpu

import (
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// adamw updates a weight and its moments, element by element, and the packed
// forms of the weight that products of the next run read.
type adamw struct {
	w, m, v, g, norm, h []float32
	decay               bool
	rows, cols          int
	forward, backward   *bf16.Packed // nil where no product reads it
}

func bindAdamW(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.In[2], n.In[3], n.In[4], n.In[5])
	k := &adamw{w: ms[0].full, m: ms[1].full, v: ms[2].full, g: ms[3].full, norm: ms[4].full, h: ms[5].full,
		decay: n.Attr.(graph.AdamWAttr).Decay, rows: ms[0].rows(tensor.Bind{}), cols: ms[0].cols}
	if at, ok := b.plan.Form(n.In[0], bf16Panels); ok {
		k.forward = &bf16.Packed{Data: halves(b.memory(at)), N: k.rows, K: k.cols}
	}
	if at, ok := b.plan.Form(n.In[0], bf16PanelsT); ok {
		k.backward = &bf16.Packed{Data: halves(b.memory(at)), N: k.cols, K: k.rows}
	}
	return k, nil
}

func (k *adamw) packs() bool { return k.forward != nil || k.backward != nil }

func (k *adamw) name() string {
	if k.packs() {
		return "adamw+bf16 panels"
	}
	return "adamw"
}

func (k *adamw) width(_ tensor.Bind, n int) int {
	n = widthFor(len(k.w), n)
	if k.packs() {
		return min(n, max(1, k.rows/bf16.NR))
	}
	return n
}

func (k *adamw) run(_ *worker, _ tensor.Bind, i, n int) {
	if !k.packs() {
		lo, hi := share(len(k.w), 16, i, n)
		k.update(lo, hi)
		return
	}
	r0, r1 := share(k.rows, bf16.NR, i, n) // whole panels of one form, whole steps of the other
	for r := r0; r < r1; r += bf16.NR {    // packed while they are in L1 or L2
		end := min(r+bf16.NR, r1)
		k.update(r*k.cols, end*k.cols)
		if k.forward != nil {
			k.forward.PutRows(k.w, k.cols, r, end)
		}
		if k.backward != nil {
			k.backward.PutDepth(k.w, k.cols, r, end)
		}
	}
}

// update makes one step of elements [lo,hi).
func (k *adamw) update(lo, hi int) {
	h := k.h
	step := vec.AdamWStep{
		Clip:  float32(graph.ClipFactor(h[graph.HyperClip], k.norm[0])),
		Beta1: h[graph.HyperBeta1], Rest1: 1 - h[graph.HyperBeta1],
		Beta2: h[graph.HyperBeta2], Rest2: 1 - h[graph.HyperBeta2],
		Keep: 1,
		Step: h[graph.HyperLR] / h[graph.HyperCorr1],
		Root: float32(1 / math.Sqrt(float64(h[graph.HyperCorr2]))),
		Eps:  h[graph.HyperEps],
	}
	if k.decay {
		step.Keep = 1 - float32(h[graph.HyperLR]*h[graph.HyperDecay])
	}
	vec.AdamW(k.w[lo:hi], k.m[lo:hi], k.v[lo:hi], k.g[lo:hi], &step)
}
