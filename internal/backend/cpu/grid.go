package cpu

import "hotpath/internal/kernel/gemm"

// gridWidth is the number of shares of a product of m rows, n columns and depth
// k whose operands are both packed while it runs. Each share packs its rows and
// its panels by itself, so shares are the cells of a grid (gridCut), and they are
// longer than other shares.
func gridWidth(m, n, k, workers int) int {
	shares := workers
	if long := m * n * k / (2 * maxMACs); long > workers {
		shares = (long + sharesEach - 1) / sharesEach * sharesEach // prime numbers make poor grids
	}
	return gridCells(m, n, k, max(1, min(shares, m*n*k/minMACs)))
}

// gridCells is the largest number of shares, up to a limit, that make a grid.
func gridCells(m, n, k, limit int) int {
	for ; limit > 1; limit-- {
		if rows, _ := gridCut(m, n, k, limit); rows > 0 {
			break
		}
	}
	return limit
}

// gridCut cuts a product into rows x cols shares. It minimizes the sum of all
// packing work and the largest share, for which the other workers may wait. The
// unit is multiplications: packing a value of A costs 32, of B 24. A worker that
// continues with other columns of the same rows finds them packed, if its scratch
// holds them. rows is 0 if there are too few strips or panels for the number of
// shares.
func gridCut(m, n, k, shares int) (rows, cols int) {
	mr, nr := gemm.MR(), gemm.NR()
	strips, panels := max(1, (m+mr-1)/mr), max(1, gemm.NumPanels(n))
	least := 0
	for r := 1; r <= min(shares, strips); r++ {
		c := shares / r
		if r*c != shares || c > panels {
			continue
		}
		high := (strips + r - 1) / r * mr
		packs := c // of the rows
		if gemm.Holds(high, k) {
			packs = (c + sharesEach - 1) / sharesEach
		}
		largest := high * ((panels + c - 1) / c) * nr
		if cost := 32*m*packs + 24*n*r + largest; rows == 0 || cost < least {
			rows, cols, least = r, c, cost
		}
	}
	return rows, cols
}

// gridShare is share i: rows [m0,m1) of panels [p0,p1). Shares of the same rows
// follow each other. If the shares do not form a grid, the last ones are empty.
func gridShare(m, n, k, i, shares int) (m0, m1, p0, p1 int) {
	cells := gridCells(m, n, k, shares)
	if i >= cells {
		return 0, 0, 0, 0
	}
	rows, cols := gridCut(m, n, k, cells)
	m0, m1 = share(m, gemm.MR(), i/cols, rows)
	p0, p1 = share(gemm.NumPanels(n), 1, i%cols, cols)
	return m0, m1, p0, p1
}
