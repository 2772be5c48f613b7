package cpu

import (
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// optimizer updates a weight and its moments, element by element, and the
// packed forms of the weight that products of the next run read.
type optimizer struct {
	op                string
	w, norm, h        []float32
	rows, cols        int
	forward, backward *bf16.Packed // nil where no product reads it
	// update makes one step of elements [lo,hi).
	update func(lo, hi int)
}

// bindOptimizer binds a node whose first operand is the weight and whose last two
// are norm and hyper-parameters.
func bindOptimizer(b *binder, n *graph.Node) *optimizer {
	w, last := b.mats(n.In[0])[0], len(n.In)-1
	ms := b.mats(n.In[last-1], n.In[last])
	k := &optimizer{op: n.Op.Name, w: w.full, norm: ms[0].full, h: ms[1].full, rows: w.rows(tensor.Bind{}), cols: w.cols}
	if at, ok := b.plan.Form(n.In[0], bf16Panels); ok {
		k.forward = &bf16.Packed{Data: halves(b.memory(at)), N: k.rows, K: k.cols}
	}
	if at, ok := b.plan.Form(n.In[0], bf16PanelsT); ok {
		k.backward = &bf16.Packed{Data: halves(b.memory(at)), N: k.cols, K: k.rows}
	}
	return k
}

func bindAdamW(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[1], n.In[2], n.In[3])
	k := bindOptimizer(b, n)
	k.adamw(ms[0].full, ms[1].full, ms[2].full, n.Attr.(graph.AdamWAttr).Decay)
	return k, nil
}

// adamw makes the update AdamW's, by moments m and v and gradients g.
func (k *optimizer) adamw(m, v, g []float32, decay bool) {
	k.update = func(lo, hi int) {
		step := k.adamwStep(decay)
		vec.AdamW(k.w[lo:hi], m[lo:hi], v[lo:hi], g[lo:hi], &step)
	}
}

func (k *optimizer) packs() bool { return k.forward != nil || k.backward != nil }

func (k *optimizer) name() string {
	if k.packs() {
		return k.op + "+bf16 panels"
	}
	return k.op
}

func (k *optimizer) width(_ tensor.Bind, n int) int {
	n = widthFor(len(k.w), n)
	if k.packs() {
		return min(n, max(1, k.rows/bf16.NR))
	}
	return n
}

func (k *optimizer) runShare(_ *worker, _ tensor.Bind, i, n int) {
	if !graph.WithinLimit(k.h[graph.HyperLimit], k.norm[0]) {
		return
	}
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

// adamwStep returns the values of a step that are the same for all elements.
func (k *optimizer) adamwStep(decay bool) vec.AdamWStep {
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
	if decay {
		step.Keep = 1 - float32(h[graph.HyperLR]*h[graph.HyperDecay])
	}
	return step
}

// sgdBlock is how many elements of SGD stay in L1 between its passes.
const sgdBlock = 2048

func bindSGD(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[1], n.In[2])
	k, m, g, a := bindOptimizer(b, n), ms[0].full, ms[1].full, n.Attr.(graph.SGDAttr)
	k.update = func(lo, hi int) {
		h := k.h
		clip, lr, momentum, decay := float32(graph.ClipFactor(h[graph.HyperClip], k.norm[0])), h[graph.HyperLR], h[graph.HyperBeta1], float32(0)
		if a.Decay {
			decay = h[graph.HyperDecay]
		}
		for ; lo < hi; lo += sgdBlock {
			end := min(lo+sgdBlock, hi)
			w, m, g := k.w[lo:end], m[lo:end], g[lo:end]
			vec.Scale(m, m, momentum)
			vec.Axpy(m, g, clip)
			if decay != 0 {
				vec.Axpy(m, w, decay)
			}
			if !a.Nesterov {
				vec.Axpy(w, m, -lr)
				continue
			}
			vec.Scale(w, w, 1-lr*decay)
			vec.Axpy(w, g, -lr*clip)
			vec.Axpy(w, m, -lr*momentum)
		}
	}
	return k, nil
}
