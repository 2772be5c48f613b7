package bf16

import (
	"fmt"
	"math"
)

// gradQueries is how many queries the gradient of a head takes at a time: their
// probabilities stay in L2.
const gradQueries = 256

// HeadGrad is the gradient of attention of one key head and the query heads that
// share it. Probabilities are computed again from the log-sum-exp of each query.
// Only machines with tiles run it.
type HeadGrad struct {
	dim, n int // of the head, and keys
	scale  float32
	keys   []uint16 // [key panels][dim/32][...]: K as the B operand of q k^T
	vals   []uint16 // the same of V, for dout v^T
	across []uint16 // [dim/32 panels][keys/32][...]: K as the B operand of ds k
	q, do  []uint16 // [dim/32 panels][queries/32][...]: B operands of ds^T q and p^T dout

	rows   []uint16  // one block of queries as A operand
	scores []float32 // [MR][keys and a cache line]: scores, then probabilities
	ds     []float32 // the same of their gradients
	dsRows []uint16  // [keys/32][MR][32]: ds as A operand
	// Blocks of keys as A operand: [keys/32][gradQueries/32][MR][32].
	pt, dst []uint16
	seen    []span    // [keys/32] blocks of queries that see a block of keys
	dk, dv  []float32 // [keys][dim]
	out     []float32 // [MR][dim]
	args    tileArgs
}

type span struct{ lo, hi int }

// NewHeadGrad makes room for heads of up to dim and up to keys keys.
func NewHeadGrad(dim, keys int) *HeadGrad {
	kp, dp, qp := padK(keys), padK(dim), min(gradQueries, padK(keys))
	half := func(n int) []uint16 { return make([]uint16, n) }
	return &HeadGrad{
		keys: half(kp * dp), vals: half(kp * dp), across: half(kp * dp), q: half(qp * dp), do: half(qp * dp),
		rows: half(MR * max(dp, kp)), scores: make([]float32, MR*(kp+lineF32)), ds: make([]float32, MR*(kp+lineF32)), dsRows: half(MR * kp),
		pt: half(kp * qp), dst: half(kp * qp), seen: make([]span, kp/NR),
		dk: make([]float32, kp*dp), dv: make([]float32, kp*dp), out: make([]float32, MR*dp),
	}
}

// Reset begins a key head of n keys, rows of k and v that are ldk and ldv apart.
func (h *HeadGrad) Reset(dim, n int, scale float32, k []float32, ldk int, v []float32, ldv int) {
	np, dp := padK(n), padK(dim)
	if np*dp > len(h.keys) || np > len(h.seen)*NR {
		panic(fmt.Sprintf("bf16: gradient of a head of %d with %d keys, beyond the size it was made for", dim, n))
	}
	h.dim, h.n, h.scale = dim, n, scale
	for r := 0; r < n; r += NR {
		rows := min(NR, n-r)
		packRows(h.keys[r*dp:][:NR*dp], k[r*ldk:], ldk, rows, dim)
		packRows(h.vals[r*dp:][:NR*dp], v[r*ldv:], ldv, rows, dim)
	}
	for d := 0; d < dp; d += NR {
		packCols(h.across[d*np:][:NR*np], k[d:], ldk, min(NR, dim-d), n)
	}
	clear(h.dk[:np*dp])
	clear(h.dv[:np*dp])
}

// Queries are some queries of one head, in order, and what is known of them.
type Queries struct {
	N            int       // up to MaxQueries
	Q, Out, DOut []float32 // rows LD apart
	DQ           []float32 // the same: the result
	LD           int
	LSE          []float32 // LDL apart
	LDL          int
	Visible      func(i int) (lo, hi int) // keys that query i sees
	// Drop, where not nil, does to the weights of those keys what dropout did.
	Drop func(i int, weights []float32)
}

// MaxQueries is how many queries one call takes, at most.
const MaxQueries = gradQueries

// Add computes dq of queries and adds what they are to keys and values.
func (h *HeadGrad) Add(t *Queries) {
	np, dp, qp := padK(h.n), padK(h.dim), padK(t.N)
	for d := 0; d < dp; d += NR {
		packCols(h.q[d*qp:][:NR*qp], t.Q[d:], t.LD, min(NR, h.dim-d), t.N)
		packCols(h.do[d*qp:][:NR*qp], t.DOut[d:], t.LD, min(NR, h.dim-d), t.N)
	}
	seen := h.seen[:np/NR]
	clear(seen)
	for i := 0; i < t.N; i += MR {
		lo, hi := h.block(t, i, qp)
		for j := lo / NR; j < hi/NR; j++ {
			if seen[j].hi == 0 {
				seen[j].lo = i / MR
			}
			seen[j].hi = i/MR + 1
		}
	}
	for j, s := range seen {
		if s.hi == 0 {
			continue
		}
		at, c := j*NR*qp+s.lo*1024, j*NR*dp
		addOuter(h.dv[c:], dp, h.pt[at:], 1024, h.do[s.lo*1024:], NR*qp, dp/NR, s.hi-s.lo, &h.args)
		addOuter(h.dk[c:], dp, h.dst[at:], 1024, h.q[s.lo*1024:], NR*qp, dp/NR, s.hi-s.lo, &h.args)
	}
}

// block computes probabilities and gradients of scores of the queries from i on,
// leaves both for the keys, and writes dq. It returns the keys that it covers, in
// whole panels.
func (h *HeadGrad) block(t *Queries, i, qp int) (lo, hi int) {
	np, dp, rows := padK(h.n), padK(h.dim), min(MR, t.N-i)
	lo, _ = t.Visible(i)
	_, hi = t.Visible(i + rows - 1)
	lo, hi = lo/NR*NR, padK(hi)
	cols, inf := hi-lo, float32(math.Inf(-1))
	ld := cols + lineF32
	product := func(c, a []float32, lda int, panels []uint16) {
		Round(h.rows, a[i*lda:], lda, rows, h.dim)
		multiply(c, ld, h.rows, kStep, rows*kStep, rows, panels[lo*dp:], NR*dp, cols/NR, dp/kStep, &h.args)
	}
	product(h.scores, t.Q, t.LD, h.keys)
	product(h.ds, t.DOut, t.LD, h.vals)
	var lse [MR]float32
	for r := range rows {
		lse[r] = t.LSE[(i+r)*t.LDL]
		a, z := t.Visible(i + r)
		row := h.scores[r*ld:][:cols]
		fill(row[:a-lo], inf)
		fill(row[z-lo:], inf)
		if t.Drop != nil {
			t.Drop(i+r, h.ds[r*ld:][a-lo:z-lo])
		}
	}
	scoreGrad(h.scores, h.ds, ld, cols, rows, h.scale, lse[:])
	for r := 0; t.Drop != nil && r < rows; r++ {
		a, z := t.Visible(i + r)
		t.Drop(i+r, h.scores[r*ld:][a-lo:z-lo])
	}
	for r := rows; r < MR; r++ { // nothing comes of queries that are not there
		clear(h.scores[r*ld:][:cols])
		clear(h.ds[r*ld:][:cols])
	}
	at := lo*qp + i/MR*1024
	turnTiles(h.pt[at:], h.scores, ld, cols/NR, NR*qp)
	turnTiles(h.dst[at:], h.ds, ld, cols/NR, NR*qp)
	roundFast(h.dsRows, h.ds, ld, rows, cols)
	multiply(h.out, dp, h.dsRows, kStep, rows*kStep, rows, h.across[lo*NR:], NR*np, dp/NR, cols/kStep, &h.args)
	for r := range rows {
		copy(t.DQ[(i+r)*t.LD:][:h.dim], h.out[r*dp:])
	}
	return lo, hi
}

// Keys writes the gradients of keys and values, rows ldk and ldv apart.
func (h *HeadGrad) Keys(dk []float32, ldk int, dv []float32, ldv int) {
	dp := padK(h.dim)
	for r := range h.n {
		copy(dk[r*ldk:][:h.dim], h.dk[r*dp:])
		copy(dv[r*ldv:][:h.dim], h.dv[r*dp:])
	}
}
