package bf16

import "math"

// headsMost is how many heads of a short sequence are computed together.
const headsMost = 8

// Heads is attention of some heads of a sequence whose keys are one panel: all
// of them are packed, then multiplied, and so on. One by one each step would wait
// for the one before it.
type Heads struct {
	head Head // of the heads in turn: its size, sums and results
	// Of all heads, one behind the other.
	keys   []uint16  // panels
	vals   []uint16  // [Dim/32 panels][...]
	q      []uint16  // blocks of rows of padK(Dim)
	scores []float32 // [query][NR]
	probs  []uint16  // [query][NR]
	sums   []float32 // [query]
	out    []float32 // [query][padK(Dim)]
	args   tileArgs
}

// NewHeads is for heads of up to dim.
func NewHeads(dim int) *Heads {
	dp := padK(dim)
	values, rows := headsMost*NR*dp, headsMost*NR
	return &Heads{
		keys: make([]uint16, values), vals: make([]uint16, values), q: make([]uint16, values), out: make([]float32, values),
		scores: make([]float32, rows*NR), probs: make([]uint16, rows*NR), sums: make([]float32, rows),
	}
}

// HeadsTask is Heads heads beside each other of one sequence.
type HeadsTask struct {
	Heads, Dim    int
	N             int // queries and keys
	Scale         float32
	Q, K, V       []float32 // from the first head on
	LDQ, LDK, LDV int       // from one token to the next
	Out           HeadOut   // of the first head
	// Visible says which keys query i sees.
	Visible func(i int) (int, int)
}

// CanHeads reports whether Heads computes sequences of n tokens with heads of
// size dim.
func CanHeads(n, dim int) bool { return n > 1 && n <= NR && dim%16 == 0 && Tiles() }

// Run computes all heads of a task.
func (h *Heads) Run(t *HeadsTask) {
	if !CanHeads(t.N, t.Dim) || headsMost*NR*padK(t.Dim) > len(h.q) {
		panic("bf16: heads that are computed one by one, or beyond the size these were made for")
	}
	h.head.Dim, h.head.Scale = t.Dim, t.Scale
	for e := 0; e < t.Heads; e += headsMost {
		h.runHeads(t, e, min(headsMost, t.Heads-e))
	}
}

// runHeads computes heads [e, e+heads).
func (h *Heads) runHeads(t *HeadsTask, e, heads int) {
	n, dp := t.N, padK(t.Dim)
	for i := range heads {
		at := (e + i) * t.Dim
		packRows(h.keys[i*NR*dp:][:NR*dp], t.K[at:], t.LDK, n, t.Dim)
		for d := 0; d < dp; d += NR {
			packCols(h.vals[(i*dp+d)*NR:][:NR*NR], t.V[at+d:], t.LDV, min(NR, t.Dim-d), n)
		}
		Round(h.q[i*n*dp:], t.Q[at:], t.LDQ, n, t.Dim)
	}
	h.score(heads, n)
	inf := float32(math.Inf(-1))
	for r := range n {
		a, z := t.Visible(r)
		if a == 0 && z >= n {
			continue
		}
		for i := range heads {
			row := h.scores[(i*n+r)*NR:][:n]
			fill(row[:a], inf)
			fill(row[z:], inf)
		}
	}
	softmaxFast(h.probs, NR, h.scores, NR, NR, heads*n, n, t.Scale, h.sums)
	h.weigh(heads, n)
	for i := range heads {
		x, sums := h.out[i*n*dp:], h.sums[i*n:]
		o, at := t.Out, (e+i)*t.Dim
		if o.Rounded == nil {
			divideFast(o.F32[at:], o.LD, x, dp, t.Dim, n, sums)
			continue
		}
		o.Col += at
		h.head.out, h.head.sums = x, sums
		o.round(&h.head, n, dp)
	}
}
