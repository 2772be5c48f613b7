package cpu

import (
	"testing"

	"hotpath/internal/graph"
)

// TestWaitingWorkersPrefetchKeys: a worker that has read some rows of keys in one layer
// prefetches the same rows of the next layer's cache, all of them and in order, and none in
// another run, with another window or of a smaller cache.
func TestWaitingWorkersPrefetchKeys(t *testing.T) {
	const blocks, keyHeads, dim = 4, 2, 64
	layer := func(blocks int) *attention {
		cache := func() keys {
			return keys{mat: mat{full: make([]float32, blocks*graph.KVBlock*keyHeads*dim), cols: keyHeads * dim}}
		}
		return &attention{AttentionAttr: graph.AttentionAttr{Heads: 4, KVHeads: keyHeads, HeadDim: dim}, k: cache(), v: cache(),
			table: ints{full: []int32{3, 0, 2}}, block: graph.KVBlock, maxBlocks: 3, direct: true}
	}
	first, second, small, local := layer(blocks), layer(blocks), layer(blocks-1), layer(blocks)
	local.Window = 32
	e := &exec{workers: make([]worker, 2), bound: []kernel{first, second, small, local, &rowwise{}}}
	for i := range e.workers {
		e.workers[i] = worker{lane: i, scratch: &scratch{}, epoch: 7 << 32}
	}
	f := &flight{exec: e}
	prefetches := func(lane, step int) bool {
		c := f.keysAhead(lane, step)
		return c.some()
	}
	w := &e.workers[1]
	if prefetches(1, 1) {
		t.Error("a worker that has read nothing prefetches keys")
	}
	const a, z = 10, 150
	first.remember(w, 0, a, z, 1, 2)
	first.remember(w, 0, z, z+5, 0, 1) // the next tile is read later
	c := f.keysAhead(1, 1)
	if c.of != second || c.read.col != dim || c.read.end != 2*dim {
		t.Fatalf("columns %d to %d of layer %p are prefetched", c.read.col, c.read.end, c.of)
	}
	for j := a; j < z; j += aheadEach / (2 * 4 * dim) {
		if row := int(c.read.first[c.run]) + c.at; row != second.rowAt(0, j) {
			t.Fatalf("position %d: row %d is prefetched, expected %d", j, row, second.rowAt(0, j))
		}
		c.fetch()
	}
	if c.some() {
		t.Errorf("more than rows %d to %d are prefetched", a, z)
	}
	for step, what := range []string{2: "of a smaller cache", 3: "with another window", 4: "before a step that is no attention"} {
		if what != "" && prefetches(1, step) {
			t.Errorf("rows are prefetched %s", what)
		}
	}
	if prefetches(0, 1) {
		t.Error("a worker prefetches what another has read")
	}
	if w.epoch = 8 << 32; prefetches(1, 1) {
		t.Error("rows of another run are prefetched")
	}
}
