package cpu

import (
	"math"
	"sync"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// ropePositions is how far the shared tables reach; beyond it sines are
// computed where they are needed.
const ropePositions = 8192

// ropeTables share the sines of one kind of RoPE among all its steps.
type ropeTables struct {
	mu sync.Mutex
	m  map[graph.RopeAttr]*ropeTable
}

// ropeTable holds cos and sin as [position][RotDim/2].
type ropeTable struct{ cos, sin []float32 }

func (ts *ropeTables) get(a graph.RopeAttr) *ropeTable {
	a.Inverse, a.Interleaved, a.HeadDim = false, false, 0 // the angles are the same
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.m[a]; t != nil {
		return t
	}
	half := a.RotDim / 2
	t := &ropeTable{make([]float32, ropePositions*half), make([]float32, ropePositions*half)}
	freqs := make([]float64, half)
	graph.RopeFrequencies(freqs, a, nil)
	for p := range ropePositions {
		sincos(t.cos[p*half:][:half], t.sin[p*half:][:half], freqs, p)
	}
	if ts.m == nil {
		ts.m = map[graph.RopeAttr]*ropeTable{}
	}
	ts.m[a] = t
	return t
}

func sincos(cos, sin []float32, freqs []float64, pos int) {
	for i, f := range freqs {
		s, c := math.Sincos(float64(pos) * f)
		cos[i], sin[i] = float32(c), float32(s)
	}
}

func bindRope(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms, err := b.mats(n.In[0], n.In[2], n.Out[0])
	if err != nil {
		return nil, err
	}
	x, y, pos, a := ms[0], ms[2], b.i32(n.In[1]), n.Attr.(graph.RopeAttr)
	half := a.RotDim / 2
	var table *ropeTable
	if !ms[1].present() {
		table = b.be.ropes.get(a)
	}
	freqs := make([]float64, half)
	graph.RopeFrequencies(freqs, a, ms[1].full)
	b.want(2 * half)
	heads := x.cols / a.HeadDim
	return &rowwise{"rope", x, func(w *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			p := int(pos.full[i])
			cos, sin := w.scratch.f[:half], w.scratch.f[half:2*half]
			if table != nil && p < ropePositions {
				cos, sin = table.cos[p*half:(p+1)*half], table.sin[p*half:(p+1)*half]
			} else {
				sincos(cos, sin, freqs, p)
			}
			yr := y.row(i)
			if &yr[0] != &x.full[i*x.cols] { // unless the planner put it in place
				copy(yr, x.row(i))
			}
			vec.RoPE(yr, heads, a.HeadDim, cos, sin, a.Interleaved, a.Inverse)
		}
	}}, nil
}
