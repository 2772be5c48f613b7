package cpu

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// ropePositions is how far the shared tables reach; beyond it sines are
// computed where they are needed. A table is filled block by block, when the first
// position of a block is wanted: most texts are short, and a model should answer
// soon after it is opened.
const (
	ropePositions = 8192
	ropeBlock     = 64
)

// ropeTables share the sines of one kind of RoPE among all its steps.
type ropeTables struct {
	mu sync.Mutex
	m  map[ropeKind]*ropeTable
}

// ropeKind are the parameters that sines depend on.
type ropeKind struct {
	graph.RopeAttr
	factors string // the bits of what divides the frequencies
}

// ropeTable holds cos and sin as [position][RotDim/2], of short texts.
type ropeTable struct {
	cos, sin  []float32
	freqs     []float64 // [RotDim/2] radians per position
	magnitude float32
	blocks    [ropePositions / ropeBlock]atomic.Uint32 // what became of each block: ropeEmpty and on
}

const (
	ropeEmpty = iota
	ropeBusy  // a worker fills it
	ropeFull
)

// at is a row of the table. It is not ok while another worker fills its block.
func (t *ropeTable) at(pos int) (cos, sin []float32, ok bool) {
	half, block := len(t.freqs), &t.blocks[pos/ropeBlock]
	if block.Load() != ropeFull {
		if !block.CompareAndSwap(ropeEmpty, ropeBusy) {
			return nil, nil, false
		}
		for p := pos - pos%ropeBlock; p < pos-pos%ropeBlock+ropeBlock; p++ {
			sincos(t.cos[p*half:][:half], t.sin[p*half:][:half], t.freqs, p, t.magnitude)
		}
		block.Store(ropeFull)
	}
	return t.cos[pos*half:][:half], t.sin[pos*half:][:half], true
}

func (ts *ropeTables) get(a graph.RopeAttr, factors []float32) *ropeTable {
	bits := make([]byte, 0, 4*len(factors))
	for _, f := range factors {
		bits = binary.LittleEndian.AppendUint32(bits, math.Float32bits(f))
	}
	key := ropeKind{a, string(bits)}
	key.Inverse, key.Interleaved, key.HeadDim = false, false, 0 // the angles are the same
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.m[key]; t != nil {
		return t
	}
	half := a.RotDim / 2
	t := &ropeTable{
		cos: make([]float32, ropePositions*half), sin: make([]float32, ropePositions*half),
		freqs: make([]float64, half), magnitude: a.Magnitude,
	}
	graph.RopeFrequencies(t.freqs, a, factors, 0)
	if ts.m == nil {
		ts.m = map[ropeKind]*ropeTable{}
	}
	ts.m[key] = t
	return t
}

func sincos(cos, sin []float32, freqs []float64, pos int, magnitude float32) {
	for i, f := range freqs {
		s, c := math.Sincos(float64(pos) * f)
		cos[i], sin[i] = float32(c)*magnitude, float32(s)*magnitude
	}
}

// angles gives the sines of one kind of RoPE, whatever a text's length.
type angles struct {
	graph.RopeAttr
	factors []float32
	table   *ropeTable
	long    []float64 // [half] radians per position of texts beyond Context; nil where each length has its own
}

func newAngles(b *binder, a graph.RopeAttr, factors []float32) *angles {
	g := &angles{RopeAttr: a, factors: factors, table: b.be.ropes.get(a, factors)}
	if a.Stretch == 0 {
		g.long = make([]float64, a.RotDim/2)
		graph.RopeFrequencies(g.long, a, factors, a.Context+1)
	}
	b.want(a.RotDim)
	return g
}

// at returns cos and sin of a position in a text of length tokens. They may be in
// the worker's scratch.
func (g *angles) at(w *worker, pos, length int) (cos, sin []float32) {
	half := g.RotDim / 2
	long := g.Context > 0 && length > g.Context
	if !long && pos < ropePositions {
		if cos, sin, ok := g.table.at(pos); ok {
			return cos, sin
		}
	}
	cos, sin = w.scratch.f[:half], w.scratch.f[half:2*half]
	switch {
	case !long:
		sincos(cos, sin, g.table.freqs, pos, g.Magnitude)
	case g.long != nil:
		sincos(cos, sin, g.long, pos, g.Magnitude)
	default:
		for i := range cos {
			s, c := math.Sincos(float64(pos) * g.Frequency(i, g.factors, length))
			cos[i], sin[i] = float32(c)*g.Magnitude, float32(s)*g.Magnitude
		}
	}
	return cos, sin
}

// rotation turns the heads of rows of x.
type rotation struct {
	*angles
	x      mat
	pos    ints
	length ints // nothing where the angles do not depend on it
}

func newRotation(b *binder, n *graph.Node) *rotation {
	ms := b.mats(n.In[0], n.In[2])
	r := &rotation{angles: newAngles(b, n.Attr.(graph.RopeAttr), ms[1].full), x: ms[0], pos: b.i32(n.In[1])}
	if n.In[3] != nil {
		r.length = b.i32(n.In[3])
	}
	return r
}

// row rotates row i of x into dst. dst may be the row itself.
func (r *rotation) row(w *worker, dst []float32, i int) {
	if x := r.x.row(i); &dst[0] != &x[0] {
		copy(dst, x)
	}
	r.turn(w, dst, i)
}

// turn turns whole heads of token i in place.
func (r *rotation) turn(w *worker, heads []float32, i int) {
	tokens := 0
	if r.length.full != nil {
		tokens = int(r.length.full[i])
	}
	cos, sin := r.at(w, int(r.pos.full[i]), tokens)
	vec.RoPE(heads, len(heads)/r.HeadDim, r.HeadDim, cos, sin, r.Interleaved, r.Inverse)
}

func bindRope(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	r, y := newRotation(b, n), b.f32(n.Out[0])
	return &rowwise{"rope", y, func(w *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			r.row(w, y.row(i), i)
		}
	}}, nil
}
