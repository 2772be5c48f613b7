package cpu

import (
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
)

// oneHeads is how many heads of a query are computed together, at most.
const oneHeads = 4

// one computes the only query of sequence s, token t, for the heads that share
// key head kv, in f32: so few rows of a product that it pays to read the cache
// as it lies, each key and value once for several heads.
func (k *attention) one(w *worker, s, t, kv, keys int) {
	group, d := k.Heads/k.KVHeads, k.HeadDim
	lo, hi := k.Visible(keys-1, keys)
	cols := hi - lo
	for h := 0; h < group; h += oneHeads {
		heads, at := min(oneHeads, group-h), (kv*group+h)*d
		q := k.q.full[t*k.q.cols+at:]       // [heads][d]
		out := k.out.full[t*k.out.cols+at:] // [heads][d]
		scores := w.scratch.f[:heads*cols]  // [heads][cols]
		for j, n := lo, 0; j < hi; j += n {
			n = k.runAt(w, &k.k, s, kv, j, hi)
			gemm.MulRows(scores[j-lo:], cols, &w.scratch.cached, q, d, heads, 0, n)
		}
		var sums [oneHeads]float32
		for i := range heads {
			row := scores[i*cols : (i+1)*cols]
			vec.Scale(row, row, k.Scale)
			k.bias.add(row, kv*group+h+i, keys-1, lo)
			sums[i], _ = k.softmax(row)
		}
		for j, n := lo, 0; j < hi; j += n {
			n = k.runAt(w, &k.v, s, kv, j, hi)
			gemm.MixRows(out, d, scores[j-lo:], cols, heads, &w.scratch.cached, n, j > lo)
		}
		for i := range heads {
			row := out[i*d : (i+1)*d]
			vec.Scale(row, row, 1/sums[i])
		}
	}
}

// runAt views the keys or values from position j on that lie together, at most
// up to hi, and says how many they are.
func (k *attention) runAt(w *worker, from *keys, s, kv, j, hi int) int {
	n := min(k.block-j%k.block, hi-j)
	from.run(&w.scratch.cached, int(k.table.full[s*k.maxBlocks+j/k.block])*k.block+j%k.block, n, kv, k.HeadDim)
	return n
}
