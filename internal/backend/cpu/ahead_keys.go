package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
)

// readKeys is where a worker read the first keys and values of its share of attention. In
// the same run it reads the same rows in all layers, each in a cache of its own. So it knows
// them without the block table, which a worker that waits must not read: the run may be over.
type readKeys struct {
	run      uint64 // of the exec; 0: none
	window   int    // of the layers that read these rows
	cached   int    // rows of their caches
	col, end int    // columns
	first    [keyRuns]int32
	rows     [keyRuns]int32 // from each first on
	runs     int
}

// keyRuns is how many runs of consecutive rows a tile has, at most. If blocks are smaller
// than graph.KVBlock, the first ones are kept.
const keyRuns = oneTile/graph.KVBlock + 1

// remember notes rows that the worker reads, if they are the first of its share in a run.
func (k *attention) remember(w *worker, s, a, z, kv0, kv1 int) {
	r := &w.scratch.read
	if r.run == w.run() && r.window == k.Window {
		return
	}
	*r = readKeys{run: w.run(), window: k.Window, cached: k.cached(), col: kv0 * k.HeadDim, end: kv1 * k.HeadDim}
	for j := a; j < z && r.runs < keyRuns; r.runs++ {
		n := min(k.block-j%k.block, z-j)
		r.first[r.runs], r.rows[r.runs] = int32(k.rowAt(s, j)), int32(n)
		j += n
	}
}

// cached is how many rows the cache has.
func (k *attention) cached() int {
	if s := k.k.stored; s != nil {
		return len(s.Data) / s.RowBytes
	}
	return len(k.k.full) / k.k.cols
}

// comingKeys is the keys and values that a worker will read, if it knows them.
type comingKeys struct {
	of      *attention // nil: none
	read    *readKeys
	run, at int // the next row
}

// keysAhead is what the worker reads first in a step of attention.
func (f *flight) keysAhead(lane, step int) (c comingKeys) {
	k, ok := f.exec.bound[step].(*attention)
	if !ok || !k.direct {
		return c
	}
	if r := &f.exec.workers[lane].scratch.read; r.run != 0 && r.run == f.exec.workers[lane].run() && r.window == k.Window && r.cached == k.cached() && r.end <= k.k.cols {
		c = comingKeys{of: k, read: r}
	}
	return c
}

func (c *comingKeys) some() bool { return c.of != nil && c.run < c.read.runs }

// fetch prefetches the next rows: about aheadEach bytes of keys and values.
func (c *comingKeys) fetch() {
	k, r := c.of, c.read
	keys, values := k.k.bytes(r.end-r.col), k.v.bytes(r.end-r.col)
	for bytes := 0; bytes < aheadEach && c.some(); bytes += keys + values {
		row := int(r.first[c.run]) + c.at
		vec.Fetch(k.k.from(row, r.col)[:keys])
		vec.Fetch(k.v.from(row, r.col)[:values])
		if c.at++; c.at == int(r.rows[c.run]) {
			c.run, c.at = c.run+1, 0
		}
	}
}
