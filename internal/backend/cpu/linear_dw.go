package cpu

import (
	"math"

	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// linearDW is dw[N,K] = dy^T x, summed over tokens in their order by the one
// worker that owns the tile: the same bits at any number of workers.
type linearDW struct {
	dy, x, dw mat
	add       bool // to the sum of the chunks before
	scratch   *perWorker[*gemm.Scratch]
}

func bindLinearDW(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.Out[0])
	if classOf(s) == BF16 {
		k := newTilesDW(b, ms[0], ms[1], ms[2])
		k.dyHalf, k.xHalf, k.add = b.rounded(n.In[0]), b.rounded(n.In[1]), s.Sums(n.Out[0])
		return k, nil
	}
	return &linearDW{ms[0], ms[1], ms[2], s.Sums(n.Out[0]), b.gemmScratch()}, nil
}

func (k *linearDW) name() string { return "gemm f32 dw" }
func (k *linearDW) width(b tensor.Bind, n int) int {
	return gridWidth(k.dy.cols, k.x.cols, k.dy.rows(b), n)
}
func (k *linearDW) runShare(w *worker, b tensor.Bind, i, n int) {
	rows := k.dy.rows(b)
	natural := &w.scratch.natural
	*natural = gemm.Natural{W: k.x.full, N: k.x.cols, K: rows, LD: k.x.cols}
	t := gemm.Task{M: k.dy.cols, N: k.x.cols, K: rows, A: k.dy.full, LDA: k.dy.cols, ATrans: true, B: natural, C: k.dw.full, LDC: k.x.cols, Accumulate: k.add, Epoch: w.epoch}
	m0, m1, p0, p1 := gridShare(k.dy.cols, k.x.cols, rows, i, n)
	gemm.Run(&t, m0, m1, p0, p1, k.scratch.of[w.lane])
}

// tilesDW is linearDW on tiles, with operands rounded to bf16. The result is cut into
// a grid of one cell per worker. A worker's shares are parts of the longer side of its
// cell: it packs the operand of the other side once for all of them.
type tilesDW struct {
	dy, x, dw     mat
	dyHalf, xHalf []uint16 // dy and x in bf16 instead, where not nil
	add           bool     // to the sum of the chunks before
	scratch       *perWorker[*bf16.OuterScratch]
}

func newTilesDW(b *binder, dy, x, dw mat) *tilesDW {
	rows := dy.rows(b.plan.Max)
	size := func(cols int) [2]int { return [2]int{cols, rows} }
	return &tilesDW{dy: dy, x: x, dw: dw, scratch: scratchFor(b, "bf16 dw", size(max(dy.cols, x.cols)), func(s [2]int) *bf16.OuterScratch {
		return bf16.NewOuterScratch(s[0], s[0], s[1])
	})}
}

func (k *tilesDW) name() string { return "gemm bf16 dw" }

func (k *tilesDW) width(b tensor.Bind, n int) int {
	work := k.dy.cols * k.x.cols * k.dy.rows(b)
	shares := n
	if long := work / tilesMACs; long > n {
		shares = (long + sharesEach - 1) / sharesEach * sharesEach
	}
	return max(1, min(shares, work/minMACs, blocksOf32(k.dy.cols)*blocksOf32(k.x.cols)))
}

func (k *tilesDW) runShare(w *worker, b tensor.Bind, i, n int) {
	rows := k.dy.rows(b)
	t := bf16.Outer{M: k.dy.cols, N: k.x.cols, K: rows, A: k.dy.full, LDA: k.dy.cols, B: k.x.full, LDB: k.x.cols, RoundedA: k.dyHalf, RoundedB: k.xHalf, C: k.dw.full, LDC: k.x.cols, Accumulate: k.add, Epoch: w.epoch}
	if m0, m1, p0, p1 := outerPart(k.dy.cols, k.x.cols, i, n); m0 < m1 && p0 < p1 {
		bf16.RunOuter(&t, m0, m1, p0, p1, k.scratch.of[w.lane])
	}
}

func blocksOf32(n int) int { return (n + bf16.MR - 1) / bf16.MR }

// outerPart is share i of a gradient of m x n: rows [m0,m1) of panels [p0,p1).
func outerPart(m, n, i, shares int) (m0, m1, p0, p1 int) {
	cells, parts := 1, shares
	if shares%sharesEach == 0 {
		cells, parts = shares/sharesEach, sharesEach
	}
	r, c := outerCells(blocksOf32(m), blocksOf32(n), cells)
	cell, part := i/parts, i%parts
	m0, m1 = share(blocksOf32(m), 1, cell/c, r)
	p0, p1 = share(blocksOf32(n), 1, cell%c, c)
	if m1-m0 >= p1-p0 {
		lo, hi := share(m1-m0, 1, part, parts)
		m0, m1 = m0+lo, m0+hi
	} else {
		lo, hi := share(p1-p0, 1, part, parts)
		p0, p1 = p0+lo, p0+hi
	}
	return min(m, m0*bf16.MR), min(m, m1*bf16.MR), p0, p1
}

// outerCells cuts a gradient of m x n blocks into r x c cells, so that a worker packs
// the fewest columns of both operands.
func outerCells(m, n, cells int) (r, c int) {
	r, c = cells, 1
	least := math.MaxInt
	for high := 1; high <= min(cells, m); high++ {
		wide := cells / high
		if high*wide != cells || wide > n {
			continue
		}
		if cost := (m+high-1)/high + (n+wide-1)/wide; cost < least {
			r, c, least = high, wide, cost
		}
	}
	return r, c
}
