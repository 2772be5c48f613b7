package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/i16"
	"hotpath/internal/tensor"
)

// Products in i16g32 are cut both ways. A worker's shares are columns of rows of
// its own, which it makes codes of once, and which are in its cache if it made
// them: with columns alone each worker fetches all rows and makes codes of them
// again. What that costs is that each builds every panel.

// pairColumns is into how many parts the columns of a worker's rows are cut:
// more than sharesEach, because a barrier waits for the last share, and a small
// one costs no more than a large one.
const pairColumns = 2 * sharesEach

const (
	// pairMACs is the least work of such a share: some ten microseconds.
	pairMACs = 1 << 20
	// pairRows is the least number of rows of its own that a worker has: for
	// fewer it is not worth building panels that another builds too.
	pairRows = 48
	// pairRowsDecoded is the same where a panel is not built from codes as they
	// are, which takes several times as long.
	pairRowsDecoded = 512
)

// ownRows is pairRows of a weight's storage type.
func ownRows(d tensor.DType) int {
	if d == tensor.Q8_0 {
		return pairRows
	}
	return pairRowsDecoded
}

// pairActs are the activations that products in i16g32 end with by themselves.
var pairActs = map[graph.ActKind]i16.Act{graph.GELU: i16.Gelu, graph.GELUTanh: i16.GeluTanh}

// pairWidth is how many shares there are instead of those that productWidth
// gives.
func pairWidth(m, n, k, nr, shares int) int {
	finer := shares / sharesEach * pairColumns
	if shares > 1 && shares%sharesEach == 0 && m*n*k/finer >= pairMACs && n >= pairColumns*nr {
		return finer
	}
	return shares
}

// pairPart is share i of a product of rows x n, in whole tiles. A block of rows
// is at least own, where that is not more than codes are kept of.
func pairPart(rows, n, own, mr, nr, i, shares int) (m0, m1, c0, c1 int) {
	blocks := max(1, shares/pairColumns)
	for blocks > 1 && (shares%blocks != 0 || rows < blocks*own) {
		blocks--
	}
	for blocks < shares && (shares%blocks != 0 || rows > blocks*i16.MaxRows) {
		blocks++
	}
	columns := shares / blocks
	m0, m1 = share(rows, mr, i/columns, blocks)
	c0, c1 = share(n, nr, i%columns, columns)
	return m0, m1, c0, c1
}
