package cpu

import (
	"hotpath/internal/kernel/amx"
	"hotpath/internal/tensor"
)

// tileQueries is how many queries of a sequence share one packing of its keys
// and values, all heads of a group together.
const tileQueries = 512

// tiles computes the queries [q0,q1) of sequence s in bf16. Items are (key
// head, queries); it returns the number of the last one.
func (k *attention) tiles(w *worker, b tensor.Bind, s, q0, q1, keys, item, i, n int) int {
	group := k.Heads / k.KVHeads
	chunk := max(amx.MR, tileQueries/group)
	for kv := range k.KVHeads {
		for t := q0; t < q1; t += chunk {
			if item++; item%n != i {
				continue
			}
			end := min(t+chunk, q1)
			pos := keys - (q1 - t)
			lo, _ := k.Visible(pos, keys)
			_, hi := k.Visible(pos+end-t-1, keys)
			lo = lo / amx.NR * amx.NR
			if k.paged {
				lo = lo / k.block * k.block
			}
			k.packHead(w, s, kv, q0, lo, hi)
			if end-t == 1 && group <= amx.MR {
				k.groupTile(w, b, kv, t, pos, keys, lo)
				continue
			}
			for e := range group {
				k.headTiles(w, b, kv*group+e, t, end, pos, keys, lo)
			}
		}
	}
	return item
}

// packHead packs keys [lo,hi) of key head kv; they become keys 0.. of the
// worker's head.
func (k *attention) packHead(w *worker, s, kv, first, lo, hi int) {
	h, d := w.scratch.head, k.HeadDim
	h.Reset(d, hi-lo, k.Scale)
	if !k.paged {
		row := first + lo
		h.Add(0, hi-lo, k.k.full[row*k.k.cols+kv*d:], k.k.cols, k.v.full[row*k.v.cols+kv*d:], k.v.cols)
		return
	}
	table := k.table.full[s*k.maxBlocks:]
	for j := lo; j < hi; j += k.block {
		row, n := int(table[j/k.block])*k.block, min(k.block, hi-j)
		keys, ldk := k.k.head(w.scratch.keys, row, n, kv, d)
		values, ldv := k.v.head(w.scratch.values, row, n, kv, d)
		h.Add(j-lo, n, keys, ldk, values, ldv)
	}
}

// groupTile computes one query of all heads that share key head kv: they are
// the rows of one tile.
func (k *attention) groupTile(w *worker, b tensor.Bind, kv, t, pos, keys, lo int) {
	group, d := k.Heads/k.KVHeads, k.HeadDim
	a, z := k.Visible(pos, keys)
	at := kv * group * d
	w.scratch.head.Queries(k.rows(b, t, at, d), k.q.full[t*k.q.cols+at:], d, group, a-lo, z-lo,
		func(int) (int, int) { return a - lo, z - lo })
}

// rows is where outputs from token t, column at go: those of rows ld apart, or,
// beside each other, of the heads of one.
func (k *attention) rows(b tensor.Bind, t, at, ld int) amx.HeadOut {
	if rows := k.out.rows(b); k.outHalf.in(rows) {
		return amx.HeadOut{Rounded: k.outHalf.bits, Row: t, Col: at, Rows: rows, Cols: k.out.cols, OneRow: ld < k.out.cols}
	}
	return amx.HeadOut{F32: k.out.full[t*k.out.cols+at:], LD: ld}
}

// headTiles computes queries [t0,t1) of head h; pos is the position of t0, and
// the packed keys begin at position lo.
func (k *attention) headTiles(w *worker, b tensor.Bind, h, t0, t1, pos, keys, lo int) {
	d := k.HeadDim
	for t := t0; t < t1; t += amx.MR {
		rows := min(amx.MR, t1-t)
		p := pos + t - t0
		a, _ := k.Visible(p, keys)
		_, z := k.Visible(p+rows-1, keys)
		w.scratch.head.Queries(k.rows(b, t, h*d, k.out.cols), k.q.full[t*k.q.cols+h*d:], k.q.cols, rows, a-lo, z-lo,
			func(i int) (int, int) {
				from, to := k.Visible(p+i, keys)
				return from - lo, to - lo
			})
	}
}
