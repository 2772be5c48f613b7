// Package i16 multiplies matrices in 16-bit integers: the compute class i16g32,
// for processors that have no fast bf16 but multiply pairs of 16-bit integers
// faster than f32: at MiniLM's shapes 1.2 to 1.3 times with AVX2, 1.5 to 1.9
// with AVX-VNNI and 1.4 to 1.6 with VNNI. Activations become 15 bits and a
// sign with one scale per 32 values; weights keep their own codes where those
// are 8-bit integers, and become 10 bits and a sign per 32 elsewhere. That is
// closer to f32 than bf16 is.
//
// backend/cpu imports it; it imports tensor, kernel/cpu and kernel/gemm. Sizes
// are checked when weights are made and when a Task runs; nothing here returns
// an error for data. A plain Go twin computes the same class on every machine.
package i16

import (
	"fmt"

	"hotpath/internal/kernel/cpu"
)

const (
	// NR is the number of columns in a panel.
	NR = 16
	// Group is how many values of K share a scale.
	Group = 32
	// maxMR is the largest number of rows in a strip.
	maxMR = 12
	// mc is how many rows are quantized at a time; a panel that has to be
	// built serves them all. It is a multiple of every strip.
	mc = 480

	// limitX and limitW are the largest codes: 32 products of the two fit 32
	// bits.
	limitX = 32767
	limitW = 1023
)

// MR is the number of rows that this machine multiplies together.
func MR() int { return rowsOf(family()) }

// NumPanels is the number of panels that hold n columns.
func NumPanels(n int) int { return (n + NR - 1) / NR }

// padK rounds k up to whole groups.
func padK(k int) int { return (k + Group - 1) / Group * Group }

// Fast reports whether this machine has kernels for the class that beat f32.
func Fast() bool { return family() != generic }

// kernelFamily is one way to multiply.
type kernelFamily uint8

const (
	generic kernelFamily = iota
	avx2                 // pairs, then a sum
	avxvnni              // pairs and sum at once
	vnni                 // the same, twice as wide
)

func rowsOf(f kernelFamily) int { return [...]int{4, 4, 6, 12}[f] }

// family is the kernels of the active tier. AVX-512 without VNNI multiplies
// pairs no faster than f32.
func family() kernelFamily {
	switch t := cpu.Active(); {
	case t >= cpu.VNNI:
		return vnni
	case t == cpu.AVXVNNI:
		return avxvnni
	case t == cpu.AVX2:
		return avx2
	}
	return generic
}

// Task is C[M,N] = A[M,K] W^T + Bias.
type Task struct {
	M, N, K int
	A       []float32 // [M][LDA]
	LDA     int
	W       Weights
	C       []float32 // [M][LDC]
	LDC     int
	Bias    []float32 // [N] or nil
	// Epoch, where not 0, says when A was last written: a run with the same A
	// and the same epoch finds its rows quantized in the scratch.
	Epoch uint64
}

// Scratch is one worker's workspace.
type Scratch struct {
	a      []int16   // [mc][padK]
	scales []float32 // [mc/mr][padK/32][mr]
	row    []float32 // [padK], a row that is no whole number of groups
	panel  Panel     // one that had to be built
	rows   []int16   // [NR][padK], its rows before they are transposed
	wide   []float32 // [NR][padK], and before that
	c      []float32 // [maxMR][NR], results at an edge
	init   []float32 // [NR]
	args   dotArgs
	// What a holds.
	of    *float32
	epoch uint64
	m, k  int
	mr    int
}

// NewScratch is for tasks with K up to k.
func NewScratch(k int) *Scratch {
	kp := padK(k)
	return &Scratch{
		a: make([]int16, mc*kp), scales: make([]float32, mc*kp/Group), row: make([]float32, kp),
		panel: newPanel(kp), rows: make([]int16, NR*kp), wide: make([]float32, NR*kp),
		c: make([]float32, maxMR*NR), init: make([]float32, NR),
	}
}

// dotArgs are the operands of the assembly kernels, in its order.
type dotArgs struct {
	a       *int16
	strideA int
	w       *int16
	wScale  *float32
	xScale  *float32
	c       *float32
	strideC int
	init    *float32
	groups  int
}

// Run computes rows [m0,m1) of panels [p0,p1).
func Run(t *Task, m0, m1, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	if m0 < 0 || m1 > t.M || p0 < 0 || p1 > NumPanels(t.N) || m1 > m0 && (len(t.A) < (m1-1)*t.LDA+t.K || len(t.C) < (m1-1)*t.LDC+t.N) ||
		t.LDA < t.K || t.LDC < t.N || t.Bias != nil && len(t.Bias) < t.N || len(s.row) < kp || kp == 0 {
		panic(fmt.Sprintf("i16: rows %d..%d of %d, panels %d..%d of [%d,%d] do not fit their buffers", m0, m1, t.M, p0, p1, t.N, t.K))
	}
	f := family()
	for m := m0; m < m1; m += mc {
		rows := min(mc, m1-m)
		s.quantize(t, f, m, rows)
		for p := p0; p < p1; p++ {
			b := t.W.Panel(p, s)
			cols := min(NR, t.N-p*NR)
			clear(s.init)
			if t.Bias != nil {
				copy(s.init[:cols], t.Bias[p*NR:])
			}
			s.strips(t, f, b, m, rows, p*NR, cols)
		}
	}
}

// quantize leaves rows of A in the scratch, unless they are there already.
func (s *Scratch) quantize(t *Task, f kernelFamily, m, rows int) {
	a, mr, kp := t.A[m*t.LDA:], rowsOf(f), padK(t.K)
	if t.Epoch != 0 && s.of == &a[0] && s.epoch == t.Epoch && s.m == rows && s.k == t.K && s.mr == mr {
		return
	}
	groups := kp / Group
	for r := range rows {
		x := a[r*t.LDA:][:t.K]
		if t.K != kp {
			clear(s.row[copy(s.row[:kp], x):kp])
			x = s.row[:kp]
		}
		quantizeRow(f, s.a[r*kp:][:kp], x, s.scales[r/mr*groups*mr+r%mr:], mr, limitX)
	}
	for r := rows; r%mr != 0; r++ { // rows that only fill up a strip
		clear(s.a[r*kp:][:kp])
		for g := range groups {
			s.scales[(r/mr*groups+g)*mr+r%mr] = 0
		}
	}
	s.of, s.epoch, s.m, s.k, s.mr = &a[0], t.Epoch, rows, t.K, mr
}

// strips multiplies the quantized rows with one panel.
func (s *Scratch) strips(t *Task, f kernelFamily, b *Panel, m, rows, n0, cols int) {
	kp, mr := padK(t.K), rowsOf(f)
	groups := kp / Group
	for r := 0; r < rows; r += mr {
		n := min(mr, rows-r)
		c, ldc := t.C[(m+r)*t.LDC+n0:], t.LDC
		edge := n < mr || cols < NR
		if edge {
			c, ldc = s.c, NR
		}
		s.args = dotArgs{
			a: &s.a[r*kp], strideA: kp * 2, w: &b.codes[0], wScale: &b.scales[0], xScale: &s.scales[r/mr*groups*mr],
			c: &c[0], strideC: ldc * 4, init: &s.init[0], groups: groups,
		}
		if f == generic {
			s.dotGeneric(b, r, mr, groups, c, ldc)
		} else {
			dot(f, &s.args)
		}
		if edge {
			for i := range n {
				copy(t.C[(m+r+i)*t.LDC+n0:][:cols], c[i*NR:])
			}
		}
	}
}

// dotGeneric is the twin in plain Go.
func (s *Scratch) dotGeneric(b *Panel, r, mr, groups int, c []float32, ldc int) {
	kp := groups * Group
	for i := range mr {
		row := c[i*ldc:][:NR]
		copy(row, s.init)
		for g := range groups {
			x := s.a[(r+i)*kp+g*Group:][:Group]
			for n := range row {
				var sum int32
				for k, v := range x {
					sum += int32(v) * int32(b.codes[(g*Group+k)/2*2*NR+2*n+k%2])
				}
				row[n] += float32(float32(sum)*s.scales[(r/mr*groups+g)*mr+i]) * b.scales[g*NR+n]
			}
		}
	}
}
