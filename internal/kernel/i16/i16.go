// Package i16 multiplies matrices in 16-bit integers: the compute class i16g32,
// for processors that have no fast bf16 but multiply pairs of 16-bit integers
// faster than f32: at MiniLM's shapes 1.3 to 1.4 times with AVX2, 1.6 to 1.7
// with AVX-VNNI and 1.6 to 1.8 with VNNI. Activations become 15 bits and a
// sign with one scale per 32 values; weights keep their own codes where those
// are 8-bit integers, and become 10 bits and a sign per 32 elsewhere. That is
// closer to f32 than bf16 is.
//
// backend/cpu imports it; it imports tensor, kernel/isa and kernel/gemm. Sizes
// are checked when weights are made and when a Task runs; nothing here returns
// an error for data. A plain Go twin computes the same class on every machine.
package i16

import (
	"fmt"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
)

const (
	// NR is the number of columns in a panel.
	NR = 16
	// Group is how many values of K share a scale.
	Group = 32
	// maxMR is the largest number of rows in a strip.
	maxMR = 12
	// MaxRows is how many rows are quantized at a time, at most; a panel that has
	// to be built serves them all. It is a multiple of every strip and more than
	// the 512 rows that a prompt is run in.
	MaxRows = 516

	mc = MaxRows

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
	switch t := isa.Active(); {
	case t >= isa.VNNI:
		return vnni
	case t == isa.AVXVNNI:
		return avxvnni
	case t == isa.AVX2:
		return avx2
	}
	return generic
}

// Act is an activation that a product may end with: x·Phi(x), good to
// 3e-5·(1+|x|), which is about what 15 bits keep of it.
type Act int

const (
	// Plain is none.
	Plain Act = iota
	// Gelu has the exact Phi.
	Gelu
	// GeluTanh has its approximation by tanh.
	GeluTanh
)

// Task is C[M,N] = act(A[M,K] W^T + Bias).
type Task struct {
	M, N, K int
	A       []float32 // [M][LDA]
	LDA     int
	W       Weights
	C       []float32 // [M][LDC]
	LDC     int
	Bias    []float32 // [N] or nil
	Act     Act
	// Epoch, where not 0, says when A was last written: a run with the same A
	// and the same epoch finds its rows quantized in the scratch.
	Epoch uint64
}

// Scratch is one worker's workspace.
type Scratch struct {
	a      []int16   // [blocks of K][mc][depth]
	scales []float32 // [blocks of K][mc/mr][depth/32][mr]
	row    []float32 // [padK], a row that is no whole number of groups
	panel  Panel     // a block of one that had to be built
	rows   []int16   // [NR][its depth], its rows before they are transposed
	wide   []float32 // [NR][its depth], and before that
	raw    []byte    // the same rows as the file has them, of weights in panels
	c      []float32 // [maxMR][NR], results at an edge
	sums   []float32 // [maxMR][NR], a strip's results while they grow
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
	d := min(kp, maxGroups*Group)
	return &Scratch{
		a: make([]int16, mc*kp), scales: make([]float32, mc*kp/Group), row: make([]float32, kp),
		panel: newPanel(d), rows: make([]int16, NR*d), wide: make([]float32, NR*d), raw: make([]byte, gemm.UnpackedLen(NR, d)),
		c: make([]float32, maxMR*NR), sums: make([]float32, maxMR*NR), init: make([]float32, NR),
	}
}

// Run computes rows [m0,m1) of panels [p0,p1).
func Run(t *Task, m0, m1, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	if m0 < 0 || m1 > t.M || p0 < 0 || p1 > NumPanels(t.N) || m1 > m0 && (len(t.A) < (m1-1)*t.LDA+t.K || len(t.C) < (m1-1)*t.LDC+t.N) ||
		t.LDA < t.K || t.LDC < t.N || t.Bias != nil && len(t.Bias) < t.N || len(s.row) < kp || kp == 0 {
		panic(fmt.Sprintf("i16: rows %d..%d of %d, panels %d..%d of [%d,%d] do not fit their buffers", m0, m1, t.M, p0, p1, t.N, t.K))
	}
	f := family()
	blocks := max(1, (m1-m0+mc-1)/mc)
	most := ((m1-m0+blocks-1)/blocks + rowsOf(f) - 1) / rowsOf(f) * rowsOf(f)
	for m := m0; m < m1; m += most {
		rows := min(most, m1-m)
		s.quantize(t, f, m, rows)
		for p := p0; p < p1; p++ {
			var next []byte
			if p+1 < p1 {
				next = t.W.source(p + 1)
			}
			s.multiply(t, f, p, next, m, rows)
		}
	}
}
