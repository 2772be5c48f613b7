package cpu

import (
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

// tilesDW is linearDW on tiles, with operands rounded to bf16. A share is a range
// of rows or of columns of the result, whichever is the longer dimension, and all
// of the other dimension. A worker packs the operand of that other dimension once
// for all its shares.
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

// byRows says whether shares are rows of the result: columns of dy.
func (k *tilesDW) byRows() bool { return k.dy.cols >= k.x.cols }

func (k *tilesDW) width(b tensor.Bind, n int) int {
	units := (max(k.dy.cols, k.x.cols) + bf16.MR - 1) / bf16.MR
	work := k.dy.cols * k.x.cols * k.dy.rows(b)
	return max(1, min(max(n, work/tilesMACs), work/minMACs, units))
}

func (k *tilesDW) runShare(w *worker, b tensor.Bind, i, n int) {
	rows := k.dy.rows(b)
	t := bf16.Outer{M: k.dy.cols, N: k.x.cols, K: rows, A: k.dy.full, LDA: k.dy.cols, B: k.x.full, LDB: k.x.cols, RoundedA: k.dyHalf, RoundedB: k.xHalf, C: k.dw.full, LDC: k.x.cols, Accumulate: k.add, Epoch: w.epoch}
	m0, m1, p0, p1 := 0, k.dy.cols, 0, bf16.NumPanels(k.x.cols)
	if k.byRows() {
		m0, m1 = share(k.dy.cols, bf16.MR, i, n)
	} else {
		p0, p1 = share(p1, 1, i, n)
	}
	bf16.RunOuter(&t, m0, m1, p0, p1, k.scratch.of[w.lane])
}
