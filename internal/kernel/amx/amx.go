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
	a     []uint16  // [mc][padK], rounded rows
	panel []uint16  // [padK][NR], a panel that had to be built
	tile  []float32 // [MR][NR], C at the right edge
	bias  []float32 // [NR]
	args  tileArgs
	// What a holds.
	of    *float32
	epoch uint64
	rows  int
	k     int
}

// NewScratch is for tasks with K up to k.
func NewScratch(k int) *Scratch {
	kp := padK(k)
	return &Scratch{a: make([]uint16, mc*kp), panel: make([]uint16, kp*NR), tile: make([]float32, MR*NR), bias: make([]float32, NR)}
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
}

// Run computes rows [m0,m1) of panels [p0,p1).
func Run(t *Task, m0, m1, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	if m0 < 0 || m1 > t.M || p0 < 0 || p1 > NumPanels(t.N) || m1 > m0 && (len(t.A) < (m1-1)*t.LDA+t.K || len(t.C) < (m1-1)*t.LDC+t.N) ||
		t.LDA < t.K || t.LDC < t.N || t.Bias != nil && len(t.Bias) < t.N || len(s.panel) < kp*NR {
		panic(fmt.Sprintf("amx: rows %d..%d of %d, panels %d..%d of [%d,%d] do not fit their buffers", m0, m1, t.M, p0, p1, t.N, t.K))
	}
	tiles := cpu.Active() >= cpu.AMX
	for m := m0; m < m1; m += mc {
		rows := min(mc, m1-m)
		s.round(t, m, rows)
		for p := p0; p < p1; p++ {
			b := t.B.Panel(p, s.panel[:kp*NR])
			if tiles {
				panelTiles(t, b, m, rows, p, s)
			} else {
				panelGeneric(t, b, m, rows, p, s)
			}
		}
	}
}

// round leaves rows of A in the scratch, unless they are there already.
func (s *Scratch) round(t *Task, m, rows int) {
	if t.K == 0 {
		return
	}
	a := t.A[m*t.LDA:]
	if t.Epoch != 0 && s.of == &a[0] && s.epoch == t.Epoch && s.rows == rows && s.k == t.K {
		return
	}
	Round(s.a, padK(t.K), a, t.LDA, rows, t.K)
	s.of, s.epoch, s.rows, s.k = &a[0], t.Epoch, rows, t.K
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
func panelGeneric(t *Task, b []uint16, m, rows, p int, s *Scratch) {
	kp := padK(t.K)
	for r := range rows {
		a := s.a[r*kp:][:t.K]
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
