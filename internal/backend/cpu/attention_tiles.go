package cpu

import (
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/tensor"
)

// heads is heads [h0,h1) of the sequence of tokens [q0,q1).
type heads struct{ q0, q1, h0, h1 int }

func (s *heads) follows(q0, h int) bool { return s.h1 > s.h0 && s.q0 == q0 && s.h1 == h }

// together reports whether heads of a sequence are computed together.
func (k *attention) together(queries int) bool {
	return k.class == BF16 && !k.paged && !k.lse.present() && k.drop == nil && k.Heads == k.KVHeads && bf16.CanHeads(queries, k.HeadDim)
}

// heads computes heads of a short sequence, if there are any.
func (k *attention) heads(w *worker, b tensor.Bind, s heads) {
	if s.h0 == s.h1 {
		return
	}
	d, n, at := k.HeadDim, s.q1-s.q0, s.h0*k.HeadDim
	t := bf16.HeadsTask{
		Heads: s.h1 - s.h0, Dim: d, N: n, Scale: k.Scale,
		Q: k.q.full[s.q0*k.q.cols+at:], LDQ: k.q.cols,
		K: k.k.full[s.q0*k.k.cols+at:], LDK: k.k.cols,
		V: k.v.full[s.q0*k.v.cols+at:], LDV: k.v.cols,
		Out:     k.rows(b, s.q0, at, k.out.cols),
		Visible: func(i int) (int, int) { return k.Visible(i, n) },
	}
	k.short.of[w.lane].Run(&t)
}

// groupTile computes one query of all heads that share key head kv: they are
// the rows of one tile.
func (k *attention) groupTile(w *worker, b tensor.Bind, kv, t, pos, keys, lo int) {
	group, d := k.Heads/k.KVHeads, k.HeadDim
	a, z := k.Visible(pos, keys)
	at := kv * group * d
	out := k.rows(b, t, at, d)
	if k.lse.present() {
		out.LSE, out.LDL = k.lse.row(t)[kv*group:], 1
	}
	k.head.of[w.lane].Queries(out, k.q.full[t*k.q.cols+at:], d, group, a-lo, z-lo,
		func(int) (int, int) { return a - lo, z - lo })
}

// rows is the destination of outputs from token t and column at: rows that are ld
// apart, or adjacent heads of one row.
func (k *attention) rows(b tensor.Bind, t, at, ld int) bf16.HeadOut {
	if k.outBF16 != nil {
		return bf16.HeadOut{Rounded: k.outBF16, Row: t, Col: at, Rows: k.out.rows(b), Cols: k.out.cols, OneRow: ld < k.out.cols}
	}
	return bf16.HeadOut{F32: k.out.full[t*k.out.cols+at:], LD: ld}
}

// headTiles computes queries [t0,t1) of head h; pos is the position of t0, and
// the packed keys begin at position lo.
func (k *attention) headTiles(w *worker, b tensor.Bind, h, t0, t1, pos, keys, lo int) {
	d, dropout := k.HeadDim, k.Dropout(k.drop)
	for t := t0; t < t1; t += bf16.MR {
		rows := min(bf16.MR, t1-t)
		p := pos + t - t0
		a, _ := k.Visible(p, keys)
		_, z := k.Visible(p+rows-1, keys)
		out := k.rows(b, t, h*d, k.out.cols)
		if k.lse.present() {
			out.LSE, out.LDL = k.lse.full[t*k.lse.cols+h:], k.lse.cols
		}
		if dropout.Any() {
			out.Kept, out.Drop = dropout.Kept(), func(i int, weights []float32) {
				from, _ := k.Visible(p+i, keys)
				dropout.Apply(weights, t+i, h, from)
			}
		}
		k.head.of[w.lane].Queries(out, k.q.full[t*k.q.cols+h*d:], k.q.cols, rows, a-lo, z-lo,
			func(i int) (int, int) {
				from, to := k.Visible(p+i, keys)
				return from - lo, to - lo
			})
	}
}
