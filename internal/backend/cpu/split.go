package cpu

import (
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
	// maxWeights is about the maximum number of weights per such share, if
	// workers share the product: some 50 us. At the end of a product, idle
	// workers wait for the shares of others.
	maxWeights = 1 << 20
)

const (
	// pairColumns is the number of shares per worker of products with ownRows:
	// more than sharesEach, because a barrier waits for the last share, and a
	// small one costs no more than a large one.
	pairColumns = 2 * sharesEach
	// pairMACs is the least work of such a share: some ten microseconds.
	pairMACs = 1 << 20
)

// split describes how the products of one implementation are cut into shares.
type split struct {
	mr, nr int  // shares begin at multiples of it, rows and columns
	cheap  bool // panels cost nothing to fetch: rows may be cut anywhere
	tiles  bool // products outrun memory
	// ownRows, if not 0, is the minimum number of rows per worker. A worker's
	// shares are then columns of its own rows, which it encodes once. The cost:
	// each worker builds every panel.
	ownRows int
}

// with is the split of two products that are cut together.
func (s split) with(o split) split {
	return split{max(s.mr, o.mr), max(s.nr, o.nr), s.cheap && o.cheap, s.tiles, max(s.ownRows, o.ownRows)}
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
	if weights := n * products * k; s.tiles && m <= bf16.MR {
		if s.cheap {
			shares = min(shares, max(shares/sharesEach, weights/minWeights))
		}
		if shares > 1 {
			shares = max(shares, weights/maxWeights)
		}
	}
	most := maxMACs
	if s.tiles {
		most = tilesMACs
	}
	shares = boundedWidth(m*products, n, k, s.nr, shares, most)
	if s.ownRows == 0 {
		return shares
	}
	finer := shares / sharesEach * pairColumns
	if shares > 1 && shares%sharesEach == 0 && m*products*n*k/finer >= pairMACs && n >= pairColumns*s.nr {
		return finer
	}
	return shares
}

// part is share i of a product of rows x n, in whole tiles: a range of rows if
// panels cost nothing and there are enough rows, otherwise a range of columns.
// Tiles multiply faster than memory delivers weights, so on tiles a worker's
// shares are columns of the same rows. Cutting by rows alone would fetch all
// weights once per share instead of once per worker. If a worker has too few rows
// to hide one fetch, all workers compute all rows with different parts of the
// weights.
func (s split) part(rows, n, i, shares int) (m0, m1, c0, c1 int) {
	if s.ownRows > 0 {
		return s.ownPart(rows, n, i, shares)
	}
	m1, c1 = rows, n
	blocks := shares / sharesEach
	switch {
	case s.cheap && s.tiles && blocks > 1 && blocks*sharesEach == shares && rows >= 2*blocks*s.mr:
		m0, m1 = share(rows, s.mr, i/sharesEach, blocks)
		c0, c1 = share(n, s.nr, i%sharesEach, sharesEach)
	case s.cheap && rows >= shares*s.mr:
		m0, m1 = share(rows, s.mr, i, shares)
	default:
		c0, c1 = share(n, s.nr, i, shares)
	}
	return m0, m1, c0, c1
}

// ownPart is part if workers have rows of their own. A block has at least ownRows
// rows, but at most the number of rows for which codes are kept.
func (s split) ownPart(rows, n, i, shares int) (m0, m1, c0, c1 int) {
	blocks := max(1, shares/pairColumns)
	for blocks > 1 && (shares%blocks != 0 || rows < blocks*s.ownRows) {
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
