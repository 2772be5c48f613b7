package bf16

import (
	"math"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/tensor"
)

// Head is attention of one head over packed keys and values: scores, softmax
// and weighted sum of MR queries at a time, with everything between them in
// the nearest caches.
type Head struct {
	Dim   int // of the head
	Scale float32
	keys  []uint16 // [key panels][Dim/32][...]: K as the B operand of q k^T
	vals  []uint16 // [Dim/32 panels][keys/32][...]: V as the B operand of p v
	n     int      // keys packed, rounded up to 32
	real  int      // keys packed
	max   int      // keys that fit

	q []uint16 // one block of rows of padK(Dim)
	// Rows of these lie a cache line more apart than they are long: where that is
	// a power of two, they would push each other out of L1.
	scores []float32 // [MR][max]
	probs  []uint16  // [MR][max]
	sums   []float32 // [MR]
	out    []float32 // [MR][NR*panels of Dim]
	args   tileArgs
}

// Values of a cache line, in f32 and in bf16.
const lineF32, lineBF16 = 16, 32

// NewHead makes room for heads of up to dim and up to keys keys.
func NewHead(dim, keys int) *Head {
	kp, dp := padK(keys), padK(dim)
	return &Head{
		max: kp, keys: make([]uint16, kp*dp), vals: make([]uint16, kp*dp),
		q: make([]uint16, MR*dp), scores: make([]float32, MR*(kp+lineF32)), probs: make([]uint16, MR*(kp+lineBF16)),
		sums: make([]float32, MR), out: make([]float32, MR*(dp+lineF32)),
	}
}

// Reset begins a head whose keys will be n in number.
func (h *Head) Reset(dim, n int, scale float32) {
	h.Dim, h.Scale, h.n, h.real = dim, scale, padK(n), n
	if h.n > h.max || padK(dim)*h.max > len(h.keys) {
		panic("bf16: a head beyond the size it was made for")
	}
}

// Add packs keys [at, at+n) of the head, rows of k and v that are ldk and ldv
// apart. at is a multiple of 32, and so is n but for the last call.
func (h *Head) Add(at, n int, k []float32, ldk int, v []float32, ldv int) {
	dp := padK(h.Dim)
	for r := 0; r < n; r += NR {
		rows := min(NR, n-r)
		// What lies behind the last row is as good as zeros: no query sees it.
		if tiles := (rows + 15) &^ 15; (r+tiles-1)*ldk+h.Dim <= len(k) {
			rows = tiles
		}
		packRows(h.keys[(at+r)*dp:][:NR*dp], k[r*ldk:], ldk, rows, h.Dim)
	}
	for d := 0; d < dp; d += NR {
		panel := h.vals[d*h.n:][:NR*h.n]
		packCols(panel[at*NR:][:padK(n)*NR], v[d:], ldv, min(NR, h.Dim-d), n)
	}
}

// HeadOut is where the outputs of queries go.
type HeadOut struct {
	F32 []float32 // rows LD apart
	LD  int

	Rounded    []uint16 // instead, where not nil: Rows of Cols values in bf16, in blocks, heads as CanRound says
	Row, Col   int      // of the first query
	Rows, Cols int
	OneRow     bool // queries are heads of one row, beside each other

	LSE []float32 // where not nil: log-sum-exp of the scores of each query, LDL apart
	LDL int

	// Drop, where not nil, multiplies weights of the keys that query i sees by 0 or
	// by 1/Kept: dropout.
	Drop func(i int, weights []float32)
	Kept float32
}

// round writes rows of h.out, divided by their sums.
func (o *HeadOut) round(h *Head, rows, ld int) {
	for r := 0; r < rows; {
		row := o.Row + r
		block := min(MR, o.Rows-row/MR*MR) // rows of the block
		n, next := min(rows-r, MR-row%MR), kStep
		if o.OneRow {
			row, n, next = o.Row, rows, h.Dim*block
		}
		divideRounded(o.Rounded[blockAt(row, o.Col, o.Rows, o.Cols):], next, block*kStep, h.out[r*ld:], ld, h.Dim, n, h.sums[r:])
		r += n
	}
}

// Queries computes out rows of up to MR queries q. visible says which of the
// keys query i sees; lo to hi is the span that any of them sees.
func (h *Head) Queries(out HeadOut, q []float32, ldq, rows, lo, hi int, visible func(i int) (int, int)) {
	dp := padK(h.Dim)
	lo = lo / NR * NR
	cols := padK(hi - lo)
	lds, ldp, ldo := cols+lineF32, cols+lineBF16, dp+lineF32
	Round(h.q, q, ldq, rows, h.Dim)
	h.multiply(h.scores, lds, h.q, kStep, rows*kStep, rows, h.keys[lo*dp:], NR*dp, cols/NR, dp/kStep)
	end := min(cols, h.real-lo) // behind it is what no query sees
	inf := float32(math.Inf(-1))
	for i := range rows {
		a, z := visible(i)
		row := h.scores[i*lds:][:end]
		fill(row[:max(0, a-lo)], inf)
		fill(row[min(end, max(0, z-lo)):], inf)
	}
	var most [MR]float32
	for i := 0; out.LSE != nil && i < rows; i++ {
		most[i] = vec.Max(h.scores[i*lds:][:end])
	}
	h.softmax(ldp, lds, cols, rows, end)
	for i := 0; out.LSE != nil && i < rows; i++ {
		out.LSE[i*out.LDL] = most[i]*h.Scale + float32(math.Log(float64(h.sums[i])))
	}
	for i := 0; out.Drop != nil && i < rows; i++ {
		a, z := visible(i)
		h.drop(&out, i, h.probs[i*ldp:][max(0, a-lo):max(0, z-lo)])
	}
	h.multiply(h.out, ldo, h.probs, ldp, kStep, rows, h.vals[lo*NR:], NR*h.n, dp/NR, cols/kStep)
	if out.Rounded != nil {
		out.round(h, rows, ldo)
		return
	}
	if h.Dim%16 == 0 && isa.Active() >= isa.AMX {
		divideFast(out.F32, out.LD, h.out, ldo, h.Dim, rows, h.sums)
		return
	}
	for i := range rows {
		s := h.sums[i]
		if s > 0 {
			s = 1 / s
		}
		vec.Scale(out.F32[i*out.LD:][:h.Dim], h.out[i*ldo:][:h.Dim], s)
	}
}

// drop removes weights of query i. Those that stay grow by way of their sum, so
// that none is rounded twice.
func (h *Head) drop(out *HeadOut, i int, probs []uint16) {
	keep := h.scores[:len(probs)] // scores are done with
	fill(keep, 1)
	out.Drop(i, keep)
	for j, k := range keep {
		if k == 0 {
			probs[j] = 0
		}
	}
	h.sums[i] *= out.Kept
}

func fill(f []float32, v float32) {
	for i := range f {
		f[i] = v
	}
}

// multiply is c = a b over a row of panels, on the tiles or in plain Go.
func (h *Head) multiply(c []float32, ldc int, a []uint16, lda, stepA, rows int, b []uint16, nextB, panels, steps int) {
	if isa.Active() >= isa.AMX {
		multiply(c, ldc, a, lda, stepA, rows, b, nextB, panels, steps, &h.args)
		return
	}
	for r := range rows {
		for n := range panels * NR {
			var sum float32
			for k := range steps * kStep {
				sum += float32(tensor.BF16ToF32(a[r*lda+k/kStep*stepA+k%kStep]) * at(b[n/NR*nextB:], k, n%NR))
			}
			c[r*ldc+n] = sum
		}
	}
}

// softmax turns scores, of which end of cols count, into unnormalised
// probabilities and their sums.
func (h *Head) softmax(ldp, lds, cols, rows, end int) {
	if isa.Active() >= isa.AMX {
		softmaxFast(h.probs, ldp, h.scores, lds, cols, rows, end-cols+NR, h.Scale, h.sums)
		return
	}
	for i := range rows {
		row := h.scores[i*lds:][:end]
		most := float32(-math.MaxFloat32)
		for _, s := range row {
			most = max(most, s)
		}
		probs := h.probs[i*ldp:][:cols]
		clear(probs[end:])
		var sum float32
		for j, s := range row {
			e := float32(math.Exp(float64((s - most) * h.Scale)))
			sum += e
			probs[j] = tensor.F32ToBF16(e)
		}
		h.sums[i] = sum
	}
}
