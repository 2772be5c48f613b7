// Package amx multiplies matrices in bf16 with f32 sums: the compute class
// bf16. Weights are packed once, activations are rounded as they are read.
//
// On processors with AMX tiles the product runs there; everywhere else a
// plain Go twin computes the same class, which tests compare it with.
// backend/cpu imports it; it imports tensor and kernel/cpu. Sizes are checked
// when a Task is made, so nothing here returns an error for data.
package amx

import (
	"fmt"

	"hotpath/internal/kernel/cpu"
	"hotpath/internal/tensor"
)

const (
	// NR is the number of columns in a panel.
	NR = 32
	// MR is the number of rows of a full block.
	MR = 32
	// kStep is the depth of one tile product.
	kStep = 32
	// mc is how many rows are rounded at a time: they stay in L2, and a panel
	// that has to be built serves them all.
	mc = 512
)

// NumPanels is the number of panels that hold n columns.
func NumPanels(n int) int { return (n + NR - 1) / NR }

// padK rounds k up to whole tiles.
func padK(k int) int { return (k + kStep - 1) / kStep * kStep }

// Task is C[M,N] = A[M,K] B[K,N] (+ Bias, or + C), with B in panels.
type Task struct {
	M, N, K    int
	A          []float32 // [M][LDA]
	Rounded    []uint16  // [M][LDA] instead of A: in bf16 already, K and LDA whole tiles
	LDA        int
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
	a      []uint16  // [mc][padK], rounded rows
	panel  []uint16  // [padK][NR], a panel that had to be built
	panel2 []uint16  // the same of a second operand
	tile   []float32 // [MR][NR], C at the right edge
	bias   []float32 // [NR]
	blocks []float32 // [2][2][MR][NR]: results on their way to bf16
	args   tileArgs
	rest   tileArgs
	// What a holds.
	of    *float32
	epoch uint64
	rows  int
	k     int
}

// NewScratch is for tasks with K up to k.
func NewScratch(k int) *Scratch {
	kp := padK(k)
	return &Scratch{a: make([]uint16, mc*kp), panel: make([]uint16, kp*NR), panel2: make([]uint16, kp*NR), tile: make([]float32, MR*NR), bias: make([]float32, NR),
		blocks: make([]float32, 4*MR*NR)}
}

// tileArgs are the operands of the assembly kernels, in its order.
type tileArgs struct {
	cfg        *[64]byte
	a          *uint16
	b          *uint16
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
	out       *uint16
	strideOut int
	nextOut   int
	tiles     *float32
	quota     int // rows of the block before that are finished in each step of K
	at        int // bytes of out that are done with
	b2        *uint16
	init2     *float32
}

// Run computes rows [m0,m1) of panels [p0,p1).
func Run(t *Task, m0, m1, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	if m0 < 0 || m1 > t.M || p0 < 0 || p1 > NumPanels(t.N) || m1 > m0 && len(t.C) < (m1-1)*t.LDC+t.N ||
		t.LDA < t.K || t.LDC < t.N || t.Bias != nil && len(t.Bias) < t.N || len(s.panel) < kp*NR {
		panic(fmt.Sprintf("amx: rows %d..%d of %d, panels %d..%d of [%d,%d] do not fit their buffers", m0, m1, t.M, p0, p1, t.N, t.K))
	}
	tiles := cpu.Active() >= cpu.AMX
	for m := m0; m < m1; m += mc {
		rows := min(mc, m1-m)
		a, lda := s.rounded(t.A, t.Rounded, t.LDA, m, rows, t.K, t.Epoch)
		for p := p0; p < p1; p++ {
			b := t.B.Panel(p, s.panel[:kp*NR])
			if tiles {
				panelTiles(t, a, lda, b, m, rows, p, s)
			} else {
				panelGeneric(t, a, lda, b, m, rows, p)
			}
		}
	}
}

// rounded is rows m.. of an operand in bf16: where they lie, where they are
// rounded already, or rounded into the scratch, unless they are there.
func (s *Scratch) rounded(a []float32, half []uint16, lda, m, rows, k int, epoch uint64) ([]uint16, int) {
	kp := padK(k)
	if half != nil {
		if kp != k || lda%kStep != 0 {
			panic(fmt.Sprintf("amx: rounded rows of %d values, %d apart, expected multiples of %d", k, lda, kStep))
		}
		return half[m*lda:][:(rows-1)*lda+k], lda
	}
	if k == 0 {
		return s.a, kp
	}
	a = a[m*lda:][:(rows-1)*lda+k]
	if epoch == 0 || s.of != &a[0] || s.epoch != epoch || s.rows != rows || s.k != k {
		Round(s.a, kp, a, lda, rows, k)
		s.of, s.epoch, s.rows, s.k = &a[0], epoch, rows, k
	}
	return s.a, kp
}

// Round writes rows of k values as bf16, ldd apart, and fills each up with
// zeros to whole tiles.
func Round(dst []uint16, ldd int, src []float32, lds, rows, k int) {
	whole, kp := 0, padK(k)
	if cpu.Active() >= cpu.AMX && rows > 0 {
		whole = k &^ 31
		roundFast(dst, ldd, src, lds, rows, whole)
	}
	if whole == kp {
		return
	}
	for r := range rows {
		d, s := dst[r*ldd:][:kp], src[r*lds:][:k]
		for i := whole; i < k; i++ {
			d[i] = tensor.F32ToBF16(s[i])
		}
		clear(d[k:])
	}
}

// at is element k, column n of a panel.
func at(panel []uint16, k, n int) float32 {
	return tensor.BF16ToF32(panel[(k/kStep*2+n/16)*512+k%kStep/2*32+n%16*2+k%2])
}

// panelGeneric is the twin in plain Go.
func panelGeneric(t *Task, rounded []uint16, lda int, b []uint16, m, rows, p int) {
	for r := range rows {
		a := rounded[r*lda:][:t.K]
		for n := range min(NR, t.N-p*NR) {
			var sum float32
			for k, x := range a {
				sum += float32(tensor.BF16ToF32(x) * at(b, k, n))
			}
			c := &t.C[(m+r)*t.LDC+p*NR+n]
			switch {
			case t.Accumulate:
				sum += *c
			case t.Bias != nil:
				sum += t.Bias[p*NR+n]
			}
			*c = sum
		}
	}
}
