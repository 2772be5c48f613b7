package cpu

import (
	"math"

	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/i16"
)

// minMACs is the minimum work per share, in multiply-adds. A smaller share is not
// worth a worker.
const minMACs = 1 << 17

// maxMACs is the maximum work per share, for a single worker too. A cancellation
// waits for the current share, some ten milliseconds on a slow core.
const maxMACs = 1 << 28

const (
	// minWeights is the least number of weights of a share of few rows on tiles: each
	// share first waits for weights from beyond L2.
	minWeights = 1 << 17
	// minUnpacked is the same where kernels unpack weights on their way into tiles: a
	// share also fills and empties the stages of its kernel.
	minUnpacked = 1 << 19
	// maxWeights is about the maximum number of weights per such share, and per
	// share that multiplies codes, if workers share the product: some 50 us. At
	// the end of a product, idle workers wait for the shares of others.
	maxWeights = 1 << 20
	// mostWeights is the same for a single worker too, in all products of few rows:
	// memory delivers them in some milliseconds, and a cancellation waits for that.
	mostWeights = 1 << 25
)

const (
	// pairColumns is the number of shares per worker of products with ownRows:
	// more than sharesEach, because a barrier waits for the last share, and a
	// small one costs no more than a large one.
	pairColumns = 2 * sharesEach
	// pairMACs is the least work of such a share: some ten microseconds.
	pairMACs = 1 << 20
	// codeWeights is the least number of weights of such a share that multiplies few rows
	// with codes, if there are more than fewWorkers: a barrier waits for the slowest, and
	// the slowest of many is slower than that of a few.
	codeWeights = 1 << 18
	fewWorkers  = 4
)

// split describes how the products of one implementation are cut into shares.
type split struct {
	mr, nr int  // shares begin at multiples of it, rows and columns
	cheap  bool // panels cost nothing to fetch: rows may be cut anywhere
	tiles  bool // products outrun memory
	ready  bool // the left operand needs no encoding
	deep   bool // rows are so long that those of a cell would not stay in L2
	// ownRows, if not 0, is the minimum number of rows per worker. A worker's
	// shares are then columns of its own rows, which it encodes once. The cost:
	// each worker builds every panel.
	ownRows int
	// codes reports that few rows are multiplied with codes: memory sets the time.
	codes bool
	// unpacks reports that few rows are multiplied on tiles which the kernel unpacks.
	unpacks bool
}

// with is the split of two products that are cut together.
func (s split) with(o split) split {
	return split{max(s.mr, o.mr), max(s.nr, o.nr), s.cheap && o.cheap, s.tiles, s.ready && o.ready, s.deep || o.deep, max(s.ownRows, o.ownRows), s.codes && o.codes, s.unpacks && o.unpacks}
}

// tilesMACs is maxMACs for products on tiles, which are faster by this factor.
const tilesMACs = 8 * maxMACs

// productWidth bounds the workers of an m x n x k product by its work and by
// its panels.
func productWidth(m, n, k, nr, workers int) int {
	return boundedWidth(m, n, k, nr, workers, maxMACs)
}

// boundedWidth is productWidth with at most most multiplications per share.
func boundedWidth(m, n, k, nr, workers, most int) int {
	return max(1, min(max(workers, m*n*k/most), m*n*k/minMACs, (n+nr-1)/nr))
}

// width is the number of shares of some products of m rows, n columns and depth
// k, which are cut together.
func (s split) width(m, n, k, products, shares int) int {
	shares = s.byWork(m, n, k, products, shares)
	if m > bf16.MR {
		return shares
	}
	return max(shares, min(n*products*k/mostWeights, (n+s.nr-1)/s.nr))
}

// byWork is width without regard to mostWeights.
func (s split) byWork(m, n, k, products, shares int) int {
	if weights := n * products * k; s.tiles && m <= bf16.MR {
		switch {
		case s.cheap:
			shares = min(shares, max(shares/sharesEach, weights/minWeights))
		case s.unpacks:
			shares = min(shares, max(shares/sharesEach, weights/minUnpacked))
		}
		if shares > 1 {
			shares = max(shares, weights/maxWeights)
		}
	}
	most := maxMACs
	if s.tiles {
		most = tilesMACs
	}
	if shares = boundedWidth(m*products, n, k, 1, shares, most); !s.cutsRows(m, n, shares) {
		shares = min(shares, (n+s.nr-1)/s.nr)
	}
	if s.ownRows == 0 {
		return shares
	}
	least := pairMACs
	if s.codes && shares > fewWorkers*sharesEach {
		least = min(least, m*codeWeights)
	}
	finer := shares / sharesEach * pairColumns
	if shares > 1 && shares%sharesEach == 0 && m*products*n*k/finer >= least && n >= pairColumns*s.nr {
		shares = finer
	}
	if s.codes && shares > 1 {
		shares = max(shares, min(n*products*k/maxWeights, (n+s.nr-1)/s.nr))
	}
	return shares
}

// cutsRows reports whether shares of a product have rows of their own, so that there
// may be more shares than panels.
func (s split) cutsRows(rows, n, shares int) bool {
	if !s.cheap || s.deep || s.ownRows > 0 {
		return false
	}
	r, _ := s.cells(rows, n, shares)
	return r > 1 || rows >= shares*s.mr
}

// part is share i of a product of rows x n, in whole tiles: on tiles the columns of a
// cell (cells), otherwise a range of rows if panels cost nothing and there are enough
// rows, or else a range of columns.
func (s split) part(rows, n, i, shares int) (m0, m1, c0, c1 int) {
	if s.ownRows > 0 {
		return s.ownPart(rows, n, i, shares)
	}
	m1, c1 = rows, n
	r, c := s.cells(rows, n, shares)
	switch {
	case r > 0:
		cell := i / sharesEach
		m0, m1 = share(rows, s.mr, cell/c, r)
		p0, p1 := share((n+s.nr-1)/s.nr, 1, cell%c, c)
		q0, q1 := share(p1-p0, 1, i%sharesEach, sharesEach)
		c0, c1 = (p0+q0)*s.nr, min(n, (p0+q1)*s.nr)
	case s.cheap && rows >= shares*s.mr:
		m0, m1 = share(rows, s.mr, i, shares)
	default:
		c0, c1 = share(n, s.nr, i, shares)
	}
	return m0, m1, c0, c1
}

// cells cuts a product on tiles into r blocks of rows times c blocks of columns, one
// cell per worker; 0 if all workers compute all rows with different weights. Tiles
// multiply faster than memory delivers weights, so the cut is that with the fewest
// bytes per worker:
//   - rows of its own (c is 1): a worker fetches all weights. Its rows are in its own
//     cache, because it had the same rows of the step before.
//   - a grid: a worker fetches a part of the weights, and rows that others made. With
//     many workers, rows of their own would be too few for the weights.
//   - columns (r is 0): a worker fetches all rows.
//
// A grid has to save more than a quarter of the bytes. A worker's shares are columns of its cell.
func (s split) cells(rows, n, shares int) (r, c int) {
	blocks, panels := shares/sharesEach, (n+s.nr-1)/s.nr
	if !s.cheap || !s.tiles || blocks < 2 || blocks*sharesEach != shares || panels < sharesEach {
		return 0, 0
	}
	each := 1 // bytes of a value of the left operand, in those of a weight
	if !s.ready {
		each = encodedBytes
	}
	least := math.MaxInt
	switch {
	case rows >= 2*blocks*s.mr:
		r, c, least = blocks, 1, n*3/4-1
	case panels >= shares:
		least = (n/blocks+each*rows)*3/4 - 1
	}
	for cols := 2; cols < blocks && !s.deep; cols++ {
		high := blocks / cols
		if high*cols != blocks || panels < cols*sharesEach || rows < 2*high*s.mr {
			continue
		}
		if cost := n/cols + each*rows/high; cost <= least { // rather fewer weights, which all workers fetch from memory
			r, c, least = high, cols, cost
		}
	}
	return r, c
}

// deepRows is the length of rows from which they are deep.
const deepRows = 8192

// encodedBytes is the cost of a value that each worker has to round first, in values
// that are fetched as they are.
const encodedBytes = 3

// ownPart is part if workers have rows of their own. A block has at least ownRows
// rows, but at most the number of rows for which codes are kept.
func (s split) ownPart(rows, n, i, shares int) (m0, m1, c0, c1 int) {
	blocks := max(1, min(shares/pairColumns, rows/s.ownRows))
	for blocks > 1 && shares%blocks != 0 {
		blocks--
	}
	for blocks < shares && (shares%blocks != 0 || rows > blocks*i16.MaxRows) {
		blocks++
	}
	columns := shares / blocks
	m0, m1 = share(rows, s.mr, i/columns, blocks)
	c0, c1 = share(n, s.nr, i%columns, columns)
	return m0, m1, c0, c1
}
