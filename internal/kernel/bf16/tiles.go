// Package bf16 multiplies matrices in bf16 with f32 sums: the compute class
// bf16. Weights are packed once, activations are rounded as they are read, or
// where attention and norms make them.
//
// On processors with AMX tiles the product runs there; everywhere else the f32
// kernels of gemm multiply the rounded operands (wide.go), from the same panels.
// backend/cpu imports it; it imports tensor, kernel/isa and gemm. Sizes are checked
// when a Task is made, so nothing here returns an error for data.
package bf16

import (
	"fmt"
	"unsafe"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

const (
	// NR is the number of columns in a panel.
	NR = 32
	// MR is the number of rows of a full block.
	MR = 32
	// kStep is the depth of one tile product.
	kStep = 32
	// mc is how many rows are multiplied at a time, at most: a panel that has
	// to be built serves them all.
	mc = 768
	// kc is how much of a panel stays in L1 while rows pass by, in steps.
	kc = 24
	// tailPanels is how many panels meet the rows behind the last whole block
	// before those are rounded.
	tailPanels = 8
	// maxJobs is how many jobs a walk has, at most.
	maxJobs = 64
	// l2Values is how many values of A stay in L2 beside a panel and C.
	l2Values = 512 << 10
)

// NumPanels is the number of panels that hold n columns.
func NumPanels(n int) int { return (n + NR - 1) / NR }

// padK rounds k up to whole tiles.
func padK(k int) int { return (k + kStep - 1) / kStep * kStep }

// Rows of A in bf16 lie in blocks of MR, a block as [K/32][its rows][32]: a
// tile is then 1 KB in one piece, which comes out of L2 faster than 16 rows far
// apart. The last block has as many rows as there are.

// blockAt is where value k of row r lies among rows of kp values.
func blockAt(r, k, rows, kp int) int {
	first := r / MR * MR
	return first*kp + (k/kStep*min(MR, rows-first)+r-first)*kStep + k%kStep
}

// Task is C[M,N] = A[M,K] B[K,N] (+ Bias, or + C), with B in panels.
type Task struct {
	M, N, K    int
	A          []float32 // [M][LDA]
	Rounded    []uint16  // instead of A, on tiles: in bf16 and in blocks already, K whole tiles
	LDA        int       // of A
	B          Panels
	C          []float32 // [M][LDC]
	LDC        int
	Bias       []float32 // [N] or nil; not with Accumulate
	Accumulate bool
	// Epoch, where not 0, says when A was last written: a run with the same A
	// and the same epoch finds its rows rounded in the scratch.
	Epoch uint64
}

// Scratch is one worker's workspace.
type Scratch struct {
	a      []uint16  // chunkMost rows of any depth, rounded, in blocks
	depth  int       // K, at most
	first  ahead     // panels that have to be built
	second ahead     // the same of a second operand
	job    unpackJob // and how they are
	tile   []float32 // [MR][NR], C at the right edge
	bias   []float32 // [NR]
	blocks []float32 // [tailPanels][MR][NR]: results on their way to bf16
	args   tileArgs
	rest   tileArgs
	jobs   [maxJobs]walkJob
	// What a holds.
	of    *float32
	epoch uint64
	rows  int
	k     int
	wide  wide // instead of all that, without tiles
}

// NewScratch is for tasks with K up to k under the active tier.
func NewScratch(k int) *Scratch {
	kp := padK(k)
	if !Tiles() {
		return &Scratch{depth: kp, wide: wide{scratch: gemm.NewScratch(nil)}}
	}
	s := &Scratch{a: make([]uint16, max(MR*kp, min(mc*kp, l2Values))), depth: kp, tile: make([]float32, MR*NR), bias: make([]float32, NR), blocks: make([]float32, tailPanels*MR*NR)}
	for _, a := range []*ahead{&s.first, &s.second} {
		for i := range a.buf {
			a.buf[i] = make([]uint16, kp*NR)
		}
	}
	return s
}

// tileArgs are the operands of the assembly kernels, in its order.
type tileArgs struct {
	cfg        *[64]byte
	a          *uint16
	b          *uint16 // 16 columns
	c          *float32
	init       *float32 // what C starts from; nil: zero
	strideA    int
	strideC    int
	strideInit int // 0: one row for all
	steps      int
	blocks     int
	nextA      int // bytes from one block to the next
	nextB      int
	nextC      int
	nextInit   int
	// Of the kernels that round what they made.
	out   *uint16
	tiles *float32
	quota int // rows of C that are asked for in each step of K
	// The other 16 columns.
	b2    *uint16
	init2 *float32
	stepA int // bytes from one step of K to the next
	job   *unpackJob
	// Of walks over packed panels.
	list  *walkJob
	count int
	ahead uintptr // what is asked for meanwhile
	lines int     // of it in each step of K; of tileAlong, not zero: panels come from afar
	twice int     // not 0: two parts of a unit are unpacked behind a product
}

// walkJob is what a walk does in a row: some blocks, as far apart as its
// arguments say.
type walkJob struct {
	a, b, b2    *uint16
	c           unsafe.Pointer // [32] rows of C, or of rounded ones
	init, init2 *float32       // of the tiles of columns; nil: both zero
	strideInit  int            // 0: one row for all
	steps       int
	blocks      int
}

// zeros is a bias of nothing, for as many panels as one call takes behind the
// last whole block.
var zeros [tailPanels * NR]float32

// columns sets both halves of the columns: those of a panel, and their bias.
func (a *tileArgs) columns(panel []uint16, bias []float32) {
	a.b, a.b2, a.init, a.init2 = &panel[0], &panel[512], nil, nil
	if bias != nil {
		a.init, a.init2 = &bias[0], &bias[16]
	}
}

// Run computes rows [m0,m1) of panels [p0,p1).
func Run(t *Task, m0, m1, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	if m0 < 0 || m1 > t.M || p0 < 0 || p1 > NumPanels(t.N) || m1 > m0 && len(t.C) < (m1-1)*t.LDC+t.N ||
		t.LDA < t.K || t.LDC < t.N || t.Bias != nil && len(t.Bias) < t.N || s.depth < kp {
		panic(fmt.Sprintf("bf16: rows %d..%d of %d, panels %d..%d of [%d,%d] do not fit their buffers", m0, m1, t.M, p0, p1, t.N, t.K))
	}
	if !Tiles() {
		s.wide.multiply(t, m0, m1, p0, p1)
		return
	}
	s.job.units = 0
	if t.deep(m1 - m0) {
		runDeep(t, m0, m1, p0, p1, s)
		return
	}
	step := chunk(m1-m0, kp)
	for m := m0; m < m1; m += step {
		rows, p := min(step, m1-m), p0
		a := s.rounded(t.A, t.Rounded, t.LDA, m, rows, t.M, t.K, t.Epoch)
		s.first.begin(t.B, kp*NR)
		whole := max(p0, min(p1, t.N/NR)) // panels
		if b, ok := t.B.(*Packed); ok && t.K > 0 {
			packedTiles(t, b.Data[p0*kp*NR:], a, m, rows, p0, whole, s)
			p = whole
		}
		for ; p < p1; p++ {
			b := s.first.panel(p)
			if p+1 < p1 {
				s.first.prepare(&s.job, p+1)
			}
			if p < whole && t.K > 0 {
				builtTiles(t, b, a, m, rows, p, s)
			} else {
				edgeTiles(t, a, b, m, rows, p, s)
			}
			s.job.finish()
		}
	}
}

// chunkMost is how many rows are multiplied at a time, at most.
func chunkMost(kp int) int { return max(MR, min(mc, l2Values/max(1, kp)/MR*MR)) }

// chunk is how many of rows are multiplied at a time, in whole blocks: about
// equally many.
func chunk(rows, kp int) int {
	most := chunkMost(kp)
	n := max(1, (rows+most-1)/most)
	return ((rows+n-1)/n + MR - 1) / MR * MR
}

// rounded is rows m.. of an operand of all rows in bf16 and in blocks: where
// they lie, where they are so already, or rounded into the scratch, unless they
// are there.
func (s *Scratch) rounded(a []float32, half []uint16, lda, m, rows, all, k int, epoch uint64) []uint16 {
	kp := padK(k)
	if half != nil {
		if kp != k || m%MR != 0 || rows%MR != 0 && m+rows != all {
			panic(fmt.Sprintf("bf16: rounded rows %d..%d of %d, of %d values, expected whole blocks of %d rows and multiples of %d", m, m+rows, all, k, MR, kStep))
		}
		return half[m*k:][:rows*k]
	}
	if k == 0 {
		return s.a
	}
	a = a[m*lda:][:(rows-1)*lda+k]
	if epoch == 0 || s.of != &a[0] || s.epoch != epoch || s.rows != rows || s.k != k {
		Round(s.a, a, lda, rows, k)
		s.of, s.epoch, s.rows, s.k = &a[0], epoch, rows, k
	}
	return s.a
}

// Round writes rows of k values, lds apart, as bf16 in blocks, and fills each
// up with zeros to whole tiles.
func Round(dst []uint16, src []float32, lds, rows, k int) {
	whole, kp := 0, padK(k)
	if isa.Active() >= isa.AMX {
		whole = k &^ 31
		for r := 0; r < rows && whole > 0; r += MR {
			n := min(MR, rows-r)
			roundFast(dst[r*kp:][:n*kp], src[r*lds:][:(n-1)*lds+k], lds, n, whole)
		}
	}
	if whole == kp {
		return
	}
	for r := range rows {
		s := src[r*lds:][:k]
		for i := whole; i < kp; i += kStep {
			d := dst[blockAt(r, i, rows, kp):][:kStep]
			for j := range d {
				d[j] = 0
				if i+j < k {
					d[j] = tensor.F32ToBF16(s[i+j])
				}
			}
		}
	}
}

// at is element k, column n of a panel.
func at(panel []uint16, k, n int) float32 {
	return tensor.BF16ToF32(panel[(k/kStep*2+n/16)*512+k%kStep/2*32+n%16*2+k%2])
}
