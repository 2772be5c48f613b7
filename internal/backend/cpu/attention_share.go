package cpu

import (
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// spanAlign is the alignment of the first packed key. Because of it, the grouping
// of sums does not depend on how queries are divided into shares.
const spanAlign = 32

// minScores is the minimum share of attention per worker, in multiply-adds. It is
// far less than in products, because multiplying is a small part of attention.
const minScores = 1 << 14

// largeScores is the least work of a share of single queries, in multiply-adds, if a worker
// has several.
const largeScores = 1 << 19

// width is by the number of score elements.
func (k *attention) width(b tensor.Bind, n int) int {
	qs := k.qStart.all(b)
	work := 0
	for s := 0; s+1 < len(qs); s++ {
		q := int(qs[s+1] - qs[s])
		keys := k.keys(s, q)
		if k.single(q) {
			lo, hi := k.Visible(keys-1, keys)
			keys = hi - lo
		}
		if k.class == BF16 && q > 1 {
			q, keys = (q+15)/16*16, (keys+15)/16*16
		}
		work += q * keys * k.HeadDim * k.Heads
	}
	long := work / maxMACs
	shares := max(1, min(max(n, long), work/minScores))
	switch tiles := k.tiles(b); {
	case tiles == 0 || n == 1:
	case k.whole(tiles):
		shares = max(min(shares, tiles), long, 1)
	case b.T == b.S: // one large share each, so that few keys are read twice
		each := min(sharesEach, work/(k.workers*largeScores))
		shares = max(min(shares, k.workers*max(1, each)), long, 1)
	}
	return shares
}

// blockRows is how many queries are computed together, at most, that see up to
// keys keys.
func (k *attention) blockRows(keys int) int {
	if k.class == BF16 {
		return bf16.MR
	}
	return gemm.BlockRows(keys)
}

// cost estimates the time of a block of queries of one key head; the first query
// is at pos. It is rows times keys, plus a small term per row and per key.
func (k *attention) cost(pos, rows, keys int) int {
	a, _ := k.Visible(pos, keys)
	_, z := k.Visible(pos+rows-1, keys)
	return (rows + 4) * (z - a + 16)
}

// runShare computes share i of n: the heads of a short sequence together.
func (k *attention) runShare(w *worker, b tensor.Bind, i, n int) {
	var short heads
	k.eachSpan(b, i, n, func(s, kv, t0, t1, q0, q1, keys int) {
		switch {
		case !k.together(q1 - q0):
			k.span(w, b, s, kv, t0, t1, q0, q1, keys)
		case short.follows(q0, kv):
			short.h1++
		default:
			k.heads(w, b, short)
			short = heads{q0, q1, kv, kv + 1}
		}
	}, func(s, t, tile, h0, h1, keys int) { k.tile(w, b, s, t, tile, h0, h1, keys) })
	k.heads(w, b, short)
}

// eachSpan visits share i of n: queries [t0,t1) out of [q0,q1) of a key head of
// a sequence. A block belongs to the share that contains the midpoint of its cost.
// Consecutive blocks mostly find their keys packed already. For single queries it visits tiles.
func (k *attention) eachSpan(b tensor.Bind, i, n int, f func(s, kv, t0, t1, q0, q1, keys int), tiles func(s, t, tile, h0, h1, keys int)) {
	qs := k.qStart.all(b)
	total, unit := 0, k.unit(b, k.tiles(b))
	for s := 0; s+1 < len(qs); s++ {
		total += k.KVHeads * k.headCost(s, int(qs[s+1]-qs[s]))
	}
	at := 0
	for s := 0; s+1 < len(qs); s++ {
		q0, q1 := int(qs[s]), int(qs[s+1])
		keys, each := k.keys(s, q1-q0), k.headCost(s, q1-q0)
		if k.single(q1 - q0) {
			lo, hi := k.Visible(keys-1, keys)
			k.eachTile(lo, hi, at, total, i, n, unit, func(tile, h0, h1 int) { tiles(s, q0, tile, h0, h1, keys) })
			at += k.KVHeads * each
			continue
		}
		step := k.blockRows(keys)
		for kv := range k.KVHeads {
			if (at+each)*n < i*total || at*n > (i+1)*total {
				at += each
				continue
			}
			t0, t1 := q1, q0
			for t := q0; t < q1; t += step {
				rows := min(step, q1-t)
				c := k.cost(keys-(q1-t), rows, keys)
				if (2*at+c)*n/(2*total) == i {
					t0, t1 = min(t0, t), t+rows
				}
				at += c
			}
			if t0 < t1 {
				f(s, kv, t0, t1, q0, q1, keys)
			}
		}
	}
}

// headCost is the cost of one key head of sequence s.
func (k *attention) headCost(s, queries int) int {
	keys := k.keys(s, queries)
	if k.single(queries) {
		lo, hi := k.Visible(keys-1, keys)
		return (hi-lo)/oneTile*tileCost(0, oneTile) + min(1, (hi-lo)%oneTile)*tileCost(0, (hi-lo)%oneTile)
	}
	step, sum := k.blockRows(keys), 0
	for t := 0; t < queries; t += step {
		sum += k.cost(keys-queries+t, min(step, queries-t), keys)
	}
	return sum
}

// span computes queries [t0,t1) out of [q0,q1) of key head kv of sequence s, all
// heads that share it.
func (k *attention) span(w *worker, b tensor.Bind, s, kv, t0, t1, q0, q1, keys int) {
	group := k.Heads / k.KVHeads
	alone := q1-q0 == 1
	if alone && k.class != BF16 && !k.even && k.drop == nil {
		for h := kv * group; h < (kv+1)*group; h++ {
			k.query(w, s, h, t0, q0, keys)
		}
		return
	}
	pos := keys - (q1 - t0)
	lo, _ := k.Visible(pos, keys)
	_, hi := k.Visible(pos+t1-t0-1, keys)
	lo = lo / spanAlign * spanAlign
	if k.paged {
		lo = lo / k.block * k.block
	}
	k.pack(w, s, kv, q0, lo, hi)
	switch {
	case k.class != BF16:
		k.queries(w, kv, t0, t1, pos, keys, lo)
	case alone && group <= bf16.MR && k.drop == nil:
		k.groupTile(w, b, kv, t0, pos, keys, lo)
	default:
		for e := range group {
			k.headTiles(w, b, kv*group+e, t0, t1, pos, keys, lo)
		}
	}
}

// packer is the packed keys and values of a head: gemm.Head or bf16.Head.
type packer interface {
	Reset(dim, n int, scale float32)
	Add(at, n int, k []float32, ldk int, v []float32, ldv int)
}

// pack packs keys [lo,hi) of key head kv; they become keys 0.. of the worker's
// head.
func (k *attention) pack(w *worker, s, kv, first, lo, hi int) {
	d := k.HeadDim
	var h packer
	if k.class == BF16 {
		h = k.head.of[w.lane]
	} else {
		h = k.headF32.of[w.lane]
	}
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
