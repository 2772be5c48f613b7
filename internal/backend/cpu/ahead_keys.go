package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
)

// readKeys is where a worker read the first keys and values of its share of attention in a
// run. In most later layers with such a window it reads the same rows, each time in another
// cache. So it knows them without the block table, which a worker that waits must not read:
// the run may be over.
type readKeys struct {
	run      uint64 // of the exec; 0: none
	window   int    // of the layers that read these rows
	cached   int    // rows of their caches
	col, end int    // columns
	first    [keyRuns]int32
	rows     [keyRuns]int32 // from each first on
	runs     int
}

// readBy is what the worker read in layers with the kernel's window. A model has at most
// two kinds of layers.
func (k *attention) readBy(w *worker) *readKeys { return &w.scratch.read[min(k.Window, 1)] }

// keyRuns is how many runs of consecutive rows a tile has, at most. If blocks are smaller
// than graph.KVBlock, the first ones are kept.
const keyRuns = oneTile/graph.KVBlock + 1

// remember notes rows that the worker reads, if they are the first of its share in a run.
// The newest of all keys is not among them: it is written just before attention.
func (k *attention) remember(w *worker, s, a, z, keys, kv0, kv1 int) {
	r := k.readBy(w)
	if r.run == w.run() && r.window == k.Window {
		return
	}
	*r = readKeys{run: w.run(), window: k.Window, cached: k.cached(), col: kv0 * k.HeadDim, end: kv1 * k.HeadDim}
	for j, z := a, min(z, keys-1); j < z && r.runs < keyRuns; r.runs++ {
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

// comingKeys is the keys and values that a worker will read, if it knows them: row after
// row, the keys of each and then the values.
type comingKeys struct {
	of      *attention // nil: none
	read    *readKeys
	run, at int // the row at hand
	asked   int // bytes of it
	left    int // bytes of all that may be asked for
}

// keysAhead is what the worker reads first in a step of attention.
func (f *flight) keysAhead(lane, step int) (c comingKeys) {
	k, ok := f.exec.bound[step].(*attention)
	if !ok || !k.direct {
		return c
	}
	w := &f.exec.workers[lane]
	if r := k.readBy(w); r.run != 0 && r.run == w.run() && r.window == k.Window && r.cached == k.cached() && r.end <= k.k.cols {
		c = comingKeys{of: k, read: r, left: f.mostAhead()}
	}
	return c
}

func (c *comingKeys) some() bool { return c.left > 0 && c.run < c.read.runs }

// fetch prefetches the next aheadEach bytes, if there are so many.
func (c *comingKeys) fetch() {
	k, r := c.of, c.read
	for left := aheadEach; left > 0 && c.some(); {
		row := int(r.first[c.run]) + c.at
		keys, values := k.k.bytes(r.end-r.col), k.v.bytes(r.end-r.col)
		var part []byte
		if c.asked < keys {
			part = k.k.from(row, r.col)[c.asked:keys]
		} else {
			part = k.v.from(row, r.col)[c.asked-keys : values]
		}
		n := min(left, len(part))
		vec.Fetch(part[:n])
		left, c.left, c.asked = left-n, c.left-n, c.asked+n
		if c.asked < keys+values {
			continue
		}
		if c.asked, c.at = 0, c.at+1; c.at == int(r.rows[c.run]) {
			c.run, c.at = c.run+1, 0
		}
	}
}
