package cpu

import (
	"fmt"
	"sync/atomic"

	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// oneTile is the number of positions that a single query attends to at a time.
// Workers share a long context by tiles. They are fixed, and their results are
// added in order, so the bits do not depend on the number of workers.
const oneTile = 256

// scoreGrain is what a row of scores is padded to: the largest vector of any tier.
// Softmax then has no remainders, which cost it as much as all whole vectors of a
// short context.
const scoreGrain = 16

// padded is the length of a row of n scores.
func padded(n int) int { return (n + scoreGrain - 1) &^ (scoreGrain - 1) }

// single reports whether a sequence has one query, which reads the cache in place:
// for one row packing the keys would cost more than it saves.
func (k *attention) single(queries int) bool {
	return queries == 1 && k.direct && k.outBF16 == nil
}

// tiles is how many tiles all single queries have.
func (k *attention) tiles(b tensor.Bind) int {
	qs, sum := k.qStart.all(b), 0
	for s := 0; s+1 < len(qs); s++ {
		if q := int(qs[s+1] - qs[s]); k.single(q) {
			lo, hi := k.Visible(k.keys(s, q)-1, k.keys(s, q))
			sum += (hi - lo + oneTile - 1) / oneTile
		}
	}
	return sum
}

// tileCost is the cost of one key head of the tile of keys [a,z).
func tileCost(a, z int) int { return 5 * (z - a + 16) }

// whole reports whether there are so many tiles of single queries that shares take them
// whole. Fewer are divided by heads.
func (k *attention) whole(tiles int) bool { return tiles >= sharesEach*k.workers }

// unit is how many heads of so many tiles stay together in shares: all of a tile, if tiles
// stay whole, those of a key head for a few workers and beside several queries of a
// sequence, and one for many workers. Two workers that divided the nine heads of three key
// heads took longer than with one key head more for one of them: the keys of the second were
// read twice.
func (k *attention) unit(b tensor.Bind, tiles int) int {
	switch {
	case k.whole(tiles):
		return k.Heads
	case k.workers <= fewWorkers || b.T != b.S:
		return k.Heads / k.KVHeads
	}
	return 1
}

// eachTile visits what belongs to share i of n of the tiles of a single query with visible
// keys [lo,hi), cut into units of heads: a unit does so if the middle of its cost does. at
// is the cost before the sequence. Heads [h0,h1) are whole groups, or a part of one: a share
// whose heads begin or end within a group reads its keys as another does.
func (k *attention) eachTile(lo, hi, at, total, i, n, unit int, f func(tile, h0, h1 int)) {
	group := k.Heads / k.KVHeads
	at, total = at*group, total*group // per head
	for tile, a := 0, lo; a < hi; tile, a = tile+1, a+oneTile {
		c := unit * tileCost(a, min(a+oneTile, hi))
		h0, h1 := k.Heads, 0
		for h := 0; h < k.Heads; h += unit {
			if (2*at+c)*n/(2*total) == i {
				h0, h1 = min(h0, h), h+unit
			}
			at += c
		}
		for h0 < h1 {
			z := min(h1, h0-h0%group+group)
			if h0%group == 0 && z-h0 == group {
				z = h1 - h1%group
			}
			f(tile, h0, z)
			h0 = z
		}
	}
}

// tile computes the only query of sequence s, token t, over one tile of keys, for
// heads [h0,h1), in f32. Each key and value is read once for all of these that share
// it, and a block of the cache is read in order of addresses. While a block is read,
// lines of the next one are prefetched: values after keys, and the next tile or
// sequence after values.
func (k *attention) tile(w *worker, b tensor.Bind, s, t, tile, h0, h1, keys int) {
	group, d := k.Heads/k.KVHeads, k.HeadDim
	kv0, kv1, heads := h0/group, (h1-1)/group+1, h1-h0
	each := heads / (kv1 - kv0) // that share a key head
	lo, hi := k.Visible(keys-1, keys)
	a := lo + tile*oneTile
	z, last := min(a+oneTile, hi), (hi-lo-1)/oneTile
	k.remember(w, s, a, z, keys, kv0, kv1)
	cols, ld := z-a, padded(z-a)
	scores, sums := w.scratch.f[:heads*ld], w.scratch.f[heads*ld:][:heads] // [heads][ld], [heads]
	q := k.q.full[t*k.q.cols+h0*d:]                                        // [heads][d]
	cached, values := &w.scratch.cached, k.v.from(k.rowAt(s, a), kv0*d)
	for j, n := a, 0; j < z; j += n {
		n = min(k.block-j%k.block, z-j)
		k.k.viewRows(cached, k.rowAt(s, j), n, kv0, kv1, d)
		if cached.Next = values; j+n < z {
			cached.Next = k.k.from(k.rowAt(s, j+n), kv0*d)
		}
		cached.Scores(scores[j-a:], ld, q, each)
	}
	vec.Scale(scores, scores, k.Scale)
	out, stride := k.out.full[t*k.out.cols+h0*d:], d // [heads][stride]
	if last > 0 {
		out, stride = k.parts.it.sums(s, tile, h0), k.parts.it.stride
	}
	for i := range heads {
		row := scores[i*ld : (i+1)*ld]
		k.bias.addBias(row[:cols], h0+i, keys-1, a)
		var top float32
		if sums[i], top = k.softmax(row, cols); last > 0 {
			out[i*stride+d], out[i*stride+d+1] = top, sums[i]
		}
	}
	for j, n := a, 0; j < z; j += n {
		n = min(k.block-j%k.block, z-j)
		k.v.viewRows(cached, k.rowAt(s, j), n, kv0, kv1, d)
		if cached.Next = k.after(b, s, z, keys, kv0*d); j+n < z {
			cached.Next = k.v.from(k.rowAt(s, j+n), kv0*d)
		}
		cached.Mix(out, stride, scores[j-a:], ld, each, j > a)
	}
	if last == 0 {
		for i := range heads {
			row := out[i*d : (i+1)*d]
			vec.Scale(row, row, 1/sums[i])
		}
		return
	}
	for kv := kv0; kv < kv1; kv++ {
		if k.parts.it.finished(s*k.KVHeads+kv, w.epoch, each, (last+1)*group) {
			k.combine(w, s, t, kv, last+1)
		}
	}
}

// after returns the keys that are read after those before position z of sequence
// s, which has the given number of keys: the next tile's or the next sequence's;
// nil after the last sequence.
func (k *attention) after(b tensor.Bind, s, z, keys, col int) []byte {
	if z == keys {
		if s, z = s+1, 0; s == k.kvLen.outer.Size(b) {
			return nil
		}
		if keys = int(k.kvLen.full[s]); keys > 0 {
			z, _ = k.Visible(keys-1, keys)
		}
	}
	return k.k.from(k.rowAt(s, z), col)
}

// combine adds the tiles of the heads of key head kv, in order.
func (k *attention) combine(w *worker, s, t, kv, tiles int) {
	group, d, p := k.Heads/k.KVHeads, k.HeadDim, k.parts.it
	factors := w.scratch.f[:tiles]
	for h := kv * group; h < (kv+1)*group; h++ {
		for i := range factors {
			factors[i] = p.sums(s, i, h)[d]
		}
		vec.Exp(factors, factors, vec.Max(factors))
		out := k.out.full[t*k.out.cols+h*d:][:d]
		clear(out)
		var sum float32
		for i, f := range factors {
			part := p.sums(s, i, h)
			vec.Axpy(out, part[:d], f)
			sum += float32(f * part[d+1])
		}
		vec.Scale(out, out, 1/sum)
	}
}

// rowAt is the row of the cache that position j of sequence s has.
func (k *attention) rowAt(s, j int) int {
	return int(k.table.full[s*k.maxBlocks+j/k.block])*k.block + j%k.block
}

// partials are the results of the tiles of single queries, until the last tile is
// done. Workers share it.
type partials struct {
	of     []float32       // [sequences][tiles][Heads][stride]: weighted sum of values, largest score, sum of exponentials
	counts []atomic.Uint64 // [sequences][KVHeads]: run, heads of tiles made
	tiles  int
	heads  int
	stride int
}

// sums is the result of a tile for head h and the heads after it.
func (p *partials) sums(s, tile, h int) []float32 {
	return p.of[((s*p.tiles+tile)*p.heads+h)*p.stride:]
}

// finished counts n heads of a tile of key head i and reports whether all of its tiles
// are made. A cancelled run leaves wrong counts, so counts belong to an epoch.
func (p *partials) finished(i int, epoch uint64, n, all int) bool {
	const count = 1<<32 - 1
	for {
		old := p.counts[i].Load()
		now := epoch&^count | uint64(n)
		if old&^count == epoch&^count {
			now = old + uint64(n)
		}
		if last := now&count == uint64(all); last && p.counts[i].CompareAndSwap(old, 0) {
			return true
		} else if !last && p.counts[i].CompareAndSwap(old, now) {
			return false
		}
	}
}

// shared is memory that all workers share, of steps that barriers keep apart.
type shared[T any] struct {
	it   T
	make func() T
}

func (s *shared[T]) open(int)     { s.it = s.make() }
func (s *shared[T]) scratch() any { return s.it }

// wantTiles reserves room for single queries of up to keys keys.
func (k *attention) wantTiles(b *binder, keys int) {
	tiles := (keys + oneTile - 1) / oneTile
	b.want(max(k.Heads*(padded(min(keys, oneTile))+1), tiles))
	// Heads of another size, and a concurrent step of the same kind, have memory
	// of their own.
	slot := b.slot(func(s *plan.Step) bool { return s.Kind == b.step.Kind })
	name := fmt.Sprintf("partials %d of %dx%d, %d heads in %d", slot, tiles, k.HeadDim, k.Heads, k.KVHeads)
	room, ok := b.rooms[name].(*shared[*partials])
	if !ok {
		seqs, stride := b.plan.Max.S, k.HeadDim+16
		room = &shared[*partials]{make: func() *partials {
			if tiles == 1 {
				return nil
			}
			return &partials{make([]float32, seqs*tiles*k.Heads*stride), make([]atomic.Uint64, seqs*k.KVHeads), tiles, k.Heads, stride}
		}}
		b.rooms[name] = room
	}
	k.parts = room
}

// slot is how many steps before the one at hand, without a barrier in between,
// are like it.
func (b *binder) slot(like func(s *plan.Step) bool) (n int) {
	for i := b.step.Index; i > 0 && !b.plan.Steps[i].Barrier; i-- {
		if like(&b.plan.Steps[i-1]) {
			n++
		}
	}
	return n
}
