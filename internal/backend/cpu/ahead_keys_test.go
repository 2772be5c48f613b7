package cpu

import (
	"testing"

	"hotpath/internal/graph"
)

// TestWaitingWorkersPrefetchKeys: a worker that has read some rows of keys in one layer
// prefetches the same rows of a later layer's cache, all of them and in order, aheadEach
// bytes at a time, and none in another run, with another window or of a smaller cache.
func TestWaitingWorkersPrefetchKeys(t *testing.T) {
	const blocks, keyHeads, dim = 4, 4, 64
	layer := func(blocks, window int) *attention {
		cache := func() keys {
			return keys{mat: mat{full: make([]float32, blocks*graph.KVBlock*keyHeads*dim), cols: keyHeads * dim}}
		}
		return &attention{AttentionAttr: graph.AttentionAttr{Heads: 8, KVHeads: keyHeads, HeadDim: dim, Window: window}, k: cache(), v: cache(),
			table: ints{full: []int32{3, 0, 2}}, block: graph.KVBlock, maxBlocks: 3, direct: true}
	}
	first, second, small, local := layer(blocks, 0), layer(blocks, 0), layer(blocks-1, 0), layer(blocks, 32)
	e := &exec{workers: make([]worker, 2), bound: []kernel{first, second, small, local, &rowwise{}}}
	for i := range e.workers {
		e.workers[i] = worker{lane: i, scratch: &scratch{}, epoch: 7 << 32}
	}
	f := &flight{exec: e, n: 16}
	prefetches := func(lane, step int) bool {
		c := f.keysAhead(lane, step)
		return c.some()
	}
	w := &e.workers[1]
	if prefetches(1, 1) {
		t.Error("a worker that has read nothing prefetches keys")
	}
	const a, newest = 10, 150
	first.remember(w, 0, a, newest+1, newest+1, 1, 4)
	first.remember(w, 0, newest+1, newest+5, newest+5, 0, 1) // the next tile is read later
	c := f.keysAhead(1, 1)
	if c.of != second || c.read.col != dim || c.read.end != 4*dim {
		t.Fatalf("columns %d to %d of layer %p are prefetched", c.read.col, c.read.end, c.of)
	}
	const each = 2 * 3 * dim * 4 // bytes of a row
	for asked := 0; asked < each*(newest-a); asked += aheadEach {
		if row, want := int(c.read.first[c.run])+c.at, second.rowAt(0, a+asked/each); row != want || c.asked != asked%each {
			t.Fatalf("after %d bytes: byte %d of row %d is prefetched, expected %d of %d", asked, c.asked, row, asked%each, want)
		}
		c.fetch()
	}
	if c.some() {
		t.Errorf("more than rows %d to %d are prefetched", a, newest)
	}
	for step, what := range []string{2: "of a smaller cache", 3: "with another window", 4: "before a step that is no attention"} {
		if what != "" && prefetches(1, step) {
			t.Errorf("rows are prefetched %s", what)
		}
	}
	if prefetches(0, 1) {
		t.Error("a worker prefetches what another has read")
	}
	local.remember(w, 0, a, newest+1, newest+1, 0, 1)
	if !prefetches(1, 3) || !prefetches(1, 1) {
		t.Error("layers with a window and without do not remember side by side")
	}
	f.n = 2
	steps := 0
	for c = f.keysAhead(1, 1); c.some(); steps++ {
		c.fetch()
	}
	if steps != aheadBytes/aheadEach {
		t.Errorf("two workers prefetch %d times %d bytes", steps, aheadEach)
	}
	if w.epoch = 8 << 32; prefetches(1, 1) {
		t.Error("rows of another run are prefetched")
	}
}
