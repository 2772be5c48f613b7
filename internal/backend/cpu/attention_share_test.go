package cpu

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// TestSharesOfAttention: every query of every head is in one share, and workers
// that begin with equal numbers of shares begin with equal work: 12 heads in 8
// shares are 6 for each of two workers, and so is what a causal mask leaves.
func TestSharesOfAttention(t *testing.T) {
	for _, c := range []struct {
		attr graph.AttentionAttr
		lens []int
	}{
		{graph.AttentionAttr{Heads: 12, KVHeads: 12, HeadDim: 32}, []int{128}},
		{graph.AttentionAttr{Heads: 12, KVHeads: 12, HeadDim: 32}, []int{256, 0, 1, 40, 3, 250}},
		{graph.AttentionAttr{Heads: 9, KVHeads: 3, HeadDim: 64, Causal: true}, []int{512}},
		{graph.AttentionAttr{Heads: 3, KVHeads: 1, HeadDim: 256, Window: 257}, []int{700}},
	} {
		for _, class := range []Precision{F32, BF16} {
			starts := []int32{0}
			for _, n := range c.lens {
				starts = append(starts, starts[len(starts)-1]+int32(n))
			}
			tokens := int(starts[len(c.lens)])
			k := &attention{AttentionAttr: c.attr, class: class, qStart: ints{full: starts, cols: 1, outer: tensor.Fixed(len(starts))}}
			for _, n := range []int{1, 2, 7, 8, 64} {
				t.Run(fmt.Sprint(c.attr.Heads, c.lens, class, n), func(t *testing.T) {
					seen := make([]int, tokens*c.attr.KVHeads)
					var half [2]int
					for i := range n {
						k.eachSpan(tensor.Bind{}, i, n, func(s, kv, t0, t1, q0, q1, keys int) {
							if q0 != int(starts[s]) || q1 != int(starts[s+1]) || keys != q1-q0 || t0 < q0 || t1 > q1 || t0 >= t1 {
								t.Fatalf("share %d has queries %d..%d of %d..%d with %d keys", i, t0, t1, q0, q1, keys)
							}
							for q := t0; q < t1; q++ {
								seen[q*c.attr.KVHeads+kv]++
								lo, hi := k.Visible(q-q0, keys)
								half[2*i/n] += hi - lo
							}
						}, nil)
					}
					for i, times := range seen {
						if times != 1 {
							t.Fatalf("token %d of key head %d is in %d shares", i/c.attr.KVHeads, i%c.attr.KVHeads, times)
						}
					}
					if n%2 == 0 && max(half[0], half[1])*100 > (half[0]+half[1])*54 {
						t.Errorf("the two halves of the shares have %d and %d scores", half[0], half[1])
					}
				})
			}
		}
	}
}

// TestSharesOfTiles: every tile of every head of single queries is in one share, tiles
// stay whole where there are enough of them, and shares are alike. A share has parts of at
// most two key heads: all others that share a key head are together.
func TestSharesOfTiles(t *testing.T) {
	for _, attr := range []graph.AttentionAttr{
		{Heads: 9, KVHeads: 3, HeadDim: 64, Causal: true},
		{Heads: 32, KVHeads: 8, HeadDim: 64, Causal: true},
		{Heads: 28, KVHeads: 4, HeadDim: 128, Causal: true},
		{Heads: 6, KVHeads: 6, HeadDim: 64, Causal: true},
	} {
		for _, lens := range [][]int32{{4096}, {150}, {256}, {257}, {4096, 1, 300, 2048}, {900, 900, 900}} {
			for _, workers := range []int{1, 2, 3, fewWorkers, 5, 8, 16, 64} {
				k := &attention{AttentionAttr: attr, workers: workers, class: F32, paged: true, direct: true, kvLen: ints{full: lens, cols: 1, outer: tensor.Fixed(len(lens))}}
				k.qStart = ints{cols: 1, outer: tensor.Fixed(len(lens) + 1)}
				for i := range len(lens) + 1 {
					k.qStart.full = append(k.qStart.full, int32(i))
				}
				for _, n := range []int{1, workers, workers * sharesEach} {
					checkTiles(t, k, lens, n)
				}
			}
		}
	}
}

// TestWidthOfSingleQueries: one share per worker of a short context, several of a longer
// one, and whole tiles where there are enough; what a window hides counts for nothing.
func TestWidthOfSingleQueries(t *testing.T) {
	llama := graph.AttentionAttr{Heads: 32, KVHeads: 8, HeadDim: 64, Causal: true}
	for _, c := range []struct {
		attr    graph.AttentionAttr
		lens    []int32
		workers int
		want    int
	}{
		{llama, []int32{150}, 2, 2},
		{llama, []int32{300}, 2, 2},
		{llama, []int32{300}, 16, 16},
		{llama, []int32{4}, 16, 1},
		{llama, []int32{150}, 1, 1},
		{llama, []int32{1024}, 2, 4},
		{llama, []int32{4096}, 2, 8},
		{llama, []int32{4096}, 16, 16},
		{llama, []int32{150, 150, 150, 150}, 2, 2},
		{llama, []int32{150, 150, 150, 150, 150, 150, 150, 150}, 2, 8},
		{graph.AttentionAttr{Heads: 8, KVHeads: 4, HeadDim: 256, Window: 512, Causal: true}, []int32{32768}, 8, 8},
	} {
		k := &attention{AttentionAttr: c.attr, workers: c.workers, class: F32, paged: true, direct: true, kvLen: ints{full: c.lens, cols: 1, outer: tensor.Fixed(len(c.lens))}}
		k.qStart = ints{cols: 1, outer: tensor.Fixed(len(c.lens) + 1)}
		for i := range len(c.lens) + 1 {
			k.qStart.full = append(k.qStart.full, int32(i))
		}
		if got, _ := cutStep(k, tensor.Bind{T: len(c.lens), S: len(c.lens)}, c.workers); got != c.want {
			t.Errorf("%d heads, %v, %d workers: %d shares, expected %d", c.attr.Heads, c.lens, c.workers, got, c.want)
		}
	}
}

// checkTiles checks n shares of single queries over lens keys.
func checkTiles(t *testing.T, k *attention, lens []int32, n int) {
	group, all := k.Heads/k.KVHeads, k.tiles(tensor.Bind{})
	what := fmt.Sprintf("%d:%d heads, %v, %d workers, %d shares", k.Heads, k.KVHeads, lens, k.workers, n)
	unitHeads := k.unit(tensor.Bind{}, all)
	seen, scores := map[[3]int]int{}, make([]int, n)
	for i := range n {
		parts := 0
		k.eachSpan(tensor.Bind{}, i, n, func(s, kv, t0, t1, q0, q1, keys int) {
			t.Fatalf("%s: sequence %d is no single query", what, s)
		}, func(s, q, tile, h0, h1, keys int) {
			if q != s || keys != int(lens[s]) || k.whole(all) && h1-h0 != k.Heads || h0%group+h1-h0 > group && (h0%group > 0 || h1%group > 0) {
				t.Fatalf("%s: sequence %d has query %d, %d keys, heads %d..%d", what, s, q, keys, h0, h1)
			}
			if h1-h0 < group && k.workers <= fewWorkers {
				t.Fatalf("%s: heads %d..%d are a part of a key head's", what, h0, h1)
			}
			if h1-h0 < group {
				parts++
			}
			for h := h0; h < h1; h++ {
				seen[[3]int{s, tile, h}]++
				scores[i] += min(oneTile, keys-tile*oneTile) + 16 // as tileCost has it
			}
		})
		if parts > 2 {
			t.Errorf("%s: share %d has parts of %d key heads", what, i, parts)
		}
	}
	if !k.whole(all) && slices.Max(scores)-slices.Min(scores) > 2*unitHeads*(oneTile+16) {
		t.Errorf("%s: shares cost %v", what, scores)
	}
	if len(seen) != all*k.Heads {
		t.Errorf("%s: %d tiles of heads, expected %d", what, len(seen), all*k.Heads)
	}
	for at, times := range seen {
		if times != 1 {
			t.Errorf("%s: tile %v is in %d shares", what, at, times)
		}
	}
	if most := slices.Max(scores); all >= 2*n && most > 2*slices.Min(scores) {
		t.Errorf("%s: shares have %v scores", what, scores)
	}
}

// TestAfterTile: behind a tile of a single query follow the keys of the next tile,
// then those of the next sequence that it can see, and nothing behind the last one.
func TestAfterTile(t *testing.T) {
	const block, cols, blocks = 64, 96, 16
	lens := []int32{300, 40, 500}
	k := &attention{AttentionAttr: graph.AttentionAttr{Heads: 3, KVHeads: 3, HeadDim: 32, Causal: true}, block: block, maxBlocks: 8,
		k:     keys{mat: mat{full: make([]float32, blocks*block*cols), cols: cols}},
		kvLen: ints{full: lens, cols: 1, outer: tensor.Fixed(len(lens))}, table: ints{full: make([]int32, 3*8)}}
	k.Window = 128
	copy(k.table.full, []int32{3, 0, 5, 6, 7, 9, 9, 9, 2, 9, 9, 9, 9, 9, 9, 9, 10, 11, 12, 13, 14, 15, 1, 4})
	for _, c := range []struct {
		s, z int
		row  int // -1: nothing
	}{
		{0, 256, 7 * block},               // the next tile of sequence 0
		{0, 300, 2 * block},               // sequence 1
		{1, 40, 15*block + 372 - 5*block}, // the first key that sequence 2 sees
		{2, 500, -1},
	} {
		got := k.after(tensor.Bind{}, c.s, c.z, int(lens[c.s]), 32)
		if c.row < 0 {
			if got != nil {
				t.Errorf("sequence %d: %d bytes follow its last key, expected none", c.s, len(got))
			}
			continue
		}
		if want := k.k.from(c.row, 32); len(got) == 0 || &got[0] != &want[0] {
			t.Errorf("sequence %d, position %d: row %d does not follow", c.s, c.z, c.row)
		}
	}
}

// TestCountOfTiles: the last part of the tiles of a key head is known, also after a run
// that was cancelled before its last.
func TestCountOfTiles(t *testing.T) {
	p := &partials{counts: make([]atomic.Uint64, 2)}
	for run := range uint64(3) {
		epoch := run<<32 | 17
		for tile := range 5 {
			if last := p.finished(1, epoch, 2, 10); last != (tile == 4) {
				t.Errorf("run %d: tile %d is the last: %v", run, tile, last)
			}
		}
		for range run { // a step that is cancelled
			p.finished(1, epoch+1, 2, 10)
		}
	}
}
