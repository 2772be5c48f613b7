package cpu

import (
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// gradTile is how many queries the backward pass computes together.
const gradTile = 64

// attentionGrad recomputes probabilities from the saved log-sum-exp. An item
// is (sequence, key head): one worker sums dk and dv over the queries and the
// heads of the group in their order.
type attentionGrad struct {
	graph.AttentionAttr
	q, k, v, out, lse, dout mat
	dq, dk, dv              mat
	qStart                  ints
	slopes                  []float32 // of ALiBi, [Heads]; nil where there is none
	drop                    []int32   // key of dropout, [DropoutLen]; nil: none
	scratch                 *perWorker[*gemm.Scratch]
	tiles                   *perWorker[*bf16.HeadGrad] // instead, in the class bf16
}

func bindAttentionGrad(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.In[2], n.In[3], n.In[4], n.In[5], n.Out[0], n.Out[1], n.Out[2])
	a := n.Attr.(graph.AttentionAttr)
	if !ms[6].present() || !ms[7].present() || !ms[8].present() {
		return bindReference(b, s) // rare: a gradient that no step reads
	}
	k := &attentionGrad{AttentionAttr: a, q: ms[0], k: ms[1], v: ms[2], out: ms[3], lse: ms[4], dout: ms[5],
		dq: ms[6], dk: ms[7], dv: ms[8], qStart: b.i32(n.In[6]), drop: b.optionalI32(n.In[7])}
	if classOf(s) == BF16 {
		k.tiles = scratchFor(b, "bf16 head backward", [2]int{a.HeadDim, b.plan.Max.T}, func(size [2]int) *bf16.HeadGrad {
			return bf16.NewHeadGrad(size[0], size[1])
		})
		return k, nil
	}
	b.want(2 * gradTile * b.plan.Max.T)
	k.scratch = b.gemmScratch()
	for h := 0; a.Alibi && h < a.Heads; h++ {
		k.slopes = append(k.slopes, a.AlibiSlope(h))
	}
	return k, nil
}

func (k *attentionGrad) name() string {
	if k.tiles != nil {
		return "attention bf16 backward"
	}
	return "attention f32 backward"
}

func (k *attentionGrad) width(b tensor.Bind, n int) int {
	qs := k.qStart.all(b)
	return max(1, min(max(n, gradMACs(&k.AttentionAttr, qs)/maxMACs), (len(qs)-1)*k.KVHeads))
}

// gradMACs is the work of the backward pass of attention, in multiply-adds.
func gradMACs(a *graph.AttentionAttr, qStart []int32) (work int) {
	for s := 0; s+1 < len(qStart); s++ {
		q := int(qStart[s+1] - qStart[s])
		work += 5 * q * q * a.HeadDim * a.Heads // products of a head
	}
	return work
}

func (k *attentionGrad) runShare(w *worker, b tensor.Bind, i, n int) {
	qs := k.qStart.all(b)
	item := 0
	for s := 0; s+1 < len(qs); s++ {
		for kv := range k.KVHeads {
			if item++; item%n != i {
				continue
			}
			if k.tiles != nil {
				k.headTiles(k.tiles.of[w.lane], int(qs[s]), int(qs[s+1]), kv)
				continue
			}
			group := k.Heads / k.KVHeads
			for e := range group {
				k.head(w, int(qs[s]), int(qs[s+1]), kv*group+e, kv, e == 0)
			}
		}
	}
}

// headTiles computes the gradients of key head kv of the sequence of rows [q0,q1),
// and of the query heads that share it, on tiles.
func (k *attentionGrad) headTiles(t *bf16.HeadGrad, q0, q1, kv int) {
	group, d, dropout := k.Heads/k.KVHeads, k.HeadDim, k.Dropout(k.drop)
	at := q0*k.k.cols + kv*d
	t.Reset(d, q1-q0, k.Scale, k.k.full[at:], k.k.cols, k.v.full[at:], k.v.cols)
	for h := kv * group; h < (kv+1)*group; h++ {
		for r := q0; r < q1; r += bf16.MaxQueries {
			from := r*k.q.cols + h*d
			var drop func(i int, weights []float32)
			if dropout.Any() {
				drop = func(i int, weights []float32) {
					lo, _ := k.Visible(r-q0+i, q1-q0)
					dropout.Apply(weights, r+i, h, lo)
				}
			}
			t.Add(&bf16.Queries{
				N: min(bf16.MaxQueries, q1-r), Q: k.q.full[from:], DOut: k.dout.full[from:], DQ: k.dq.full[from:], LD: k.q.cols,
				LSE: k.lse.full[r*k.lse.cols+h:], LDL: k.lse.cols,
				Visible: func(i int) (int, int) { return k.Visible(r-q0+i, q1-q0) }, Drop: drop,
			})
		}
	}
	t.Keys(k.dk.full[at:], k.dk.cols, k.dv.full[at:], k.dv.cols)
}

// head adds the gradients of one query head.
func (k *attentionGrad) head(w *worker, q0, q1, h, kv int, first bool) {
	d, dropout := k.HeadDim, k.Dropout(k.drop)
	keys := q1 - q0
	kOff, qOff := q0*k.k.cols+kv*d, h*d
	for t := q0; t < q1; t += gradTile {
		rows := min(gradTile, q1-t)
		lo, _ := k.Visible(t-q0, keys)
		_, hi := k.Visible(t-q0+rows-1, keys)
		cols := hi - lo
		p := w.scratch.f[:rows*cols]                  // [rows][cols]
		ds := w.scratch.f[gradTile*keys:][:rows*cols] // [rows][cols]
		kr, vr := k.k.full[kOff+lo*k.k.cols:], k.v.full[kOff+lo*k.v.cols:]
		q, do := k.q.full[t*k.q.cols+qOff:], k.dout.full[t*k.dout.cols+qOff:]

		k.rows(w, p, q, k.q.cols, kr, k.k.cols, rows, cols)
		k.rows(w, ds, do, k.dout.cols, vr, k.v.cols, rows, cols)
		for r := range rows {
			a, z := k.Visible(t-q0+r, keys)
			a, z = a-lo, z-lo
			pr, sr := p[r*cols:(r+1)*cols], ds[r*cols:(r+1)*cols]
			clear(pr[:a])
			clear(pr[z:])
			clear(sr[:a])
			clear(sr[z:])
			dropout.Apply(sr[a:z], t+r, h, lo+a)
			vec.Scale(pr[a:z], pr[a:z], k.Scale)
			for j := a; k.slopes != nil && j < z; j++ {
				pr[j] += k.AlibiBias(k.slopes[h], lo+j)
			}
			if k.SoftCap > 0 {
				vec.SoftCap(pr[a:z], pr[a:z], k.SoftCap)
			}
			delta := vec.Dot(do[r*k.dout.cols:][:d], k.out.full[(t+r)*k.out.cols+qOff:][:d])
			if k.SoftCap > 0 { // the cap's derivative, from the scores that it made
				for j := a; j < z; j++ {
					c := pr[j] / k.SoftCap
					sr[j] = (sr[j] - delta) * (1 - c*c)
				}
				delta = 0
			}
			vec.Exp(pr[a:z], pr[a:z], k.lse.row(t + r)[h])
			for j := a; j < z; j++ {
				sr[j] = pr[j] * (sr[j] - delta) * k.Scale
			}
			dropout.Apply(pr[a:z], t+r, h, lo+a)
		}
		// dq = ds k; dk += ds^T q; dv += p^T dout.
		k.product(w, k.dq.full[t*k.dq.cols+qOff:], k.dq.cols, ds, cols, false, kr, k.k.cols, rows, cols, false)
		fresh := first && t == q0
		if fresh {
			zeroColumns(&k.dk, q0, q1, kv*d, d)
			zeroColumns(&k.dv, q0, q1, kv*d, d)
		}
		k.product(w, k.dk.full[kOff+lo*k.dk.cols:], k.dk.cols, ds, cols, true, q, k.q.cols, cols, rows, true)
		k.product(w, k.dv.full[kOff+lo*k.dv.cols:], k.dv.cols, p, cols, true, do, k.dout.cols, cols, rows, true)
	}
}

func zeroColumns(m *mat, r0, r1, c, n int) {
	for r := r0; r < r1; r++ {
		clear(m.full[r*m.cols+c:][:n])
	}
}

// rows is s[rows][cols] = a b^T over a head.
func (k *attentionGrad) rows(w *worker, s, a []float32, lda int, b []float32, ldb, rows, cols int) {
	w.scratch.rows = gemm.Rows{W: b, N: cols, K: k.HeadDim, LD: ldb}
	t := gemm.Task{M: rows, N: cols, K: k.HeadDim, A: a, LDA: lda, B: &w.scratch.rows, C: s, LDC: cols}
	gemm.Run(&t, 0, rows, 0, gemm.NumPanels(cols), k.scratch.of[w.lane])
}

// product is c[m][HeadDim] (+)= a[m][kk] b[kk][HeadDim], a transposed or not.
func (k *attentionGrad) product(w *worker, c []float32, ldc int, a []float32, lda int, trans bool, b []float32, ldb, m, kk int, add bool) {
	w.scratch.natural = gemm.Natural{W: b, N: k.HeadDim, K: kk, LD: ldb}
	t := gemm.Task{M: m, N: k.HeadDim, K: kk, A: a, LDA: lda, ATrans: trans, B: &w.scratch.natural, C: c, LDC: ldc, Accumulate: add}
	gemm.Run(&t, 0, m, 0, gemm.NumPanels(k.HeadDim), k.scratch.of[w.lane])
}

func log32(x float32) float32 { return float32(math.Log(float64(x))) }
