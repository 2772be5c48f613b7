// Package int8 multiplies f32 activations with int8 weights: the compute class
// i8g32, with one scale per group of 32 of K. Weights keep the codes and scales
// of the file (Q8_0, Q4_1) and are packed once; activations are quantized per
// row and group as they are read, with the scale max|x|/127.
//
// An element of C is the chain over the groups of K, in their order, of
// float(integer sum)·column scale·row scale, fused into the last sum, started
// from zero, the bias or the old C. It depends on its row and its column
// only, never on the split of the work, and every assembly tier gives the same
// bits; the plain Go twin rounds products and sums separately.
//
// backend/cpu imports it; it imports tensor, kernel/isa and kernel/gemm.
// Sizes are checked when weights are packed, which returns errors; a Task
// whose buffers are too short is a programming mistake and panics.
package int8

import (
	"fmt"

	"hotpath/internal/kernel/isa"
)

const (
	// NR is the number of columns in a panel.
	NR = 32
	// MR is the number of rows of the largest block; splits of M between
	// workers do best at multiples of it.
	MR = 32
	// group is the number of values of K that share a scale.
	group = 32
	// wide is the values that the AVX-512 quantizer takes at a time.
	wide = 4 * group
	// aBytes bounds the quantized rows of a Scratch, which stay in L2.
	aBytes = 512 << 10
)

// NumPanels is the number of panels that hold n columns.
func NumPanels(n int) int { return (n + NR - 1) / NR }

// Task is C[M,N] = A[M,K] W[N,K]^T (+ Bias, or + C).
type Task struct {
	M, N, K    int
	A          []float32 // [M][LDA]
	LDA        int
	B          *Packed
	C          []float32 // [M][LDC]
	LDC        int
	Bias       []float32 // [N] or nil; not with Accumulate
	Accumulate bool
	// Epoch, where not 0, says when A was last written: a run with the same A
	// and the same epoch finds its rows quantized in the scratch.
	Epoch uint64
}

// Scratch is one worker's workspace.
type Scratch struct {
	k     int
	rows  int       // rows quantized at a time
	lda   int       // distance of quantized rows
	a     []int8    // [rows][lda], codes
	scale []float32 // [groups][rows]
	aux   []float32 // [groups][rows], sums of codes as the form wants them
	tile  []float32 // [MR][NR], C at the right edge
	bias  []float32 // [NR]
	buf   []float32 // [4][MR][NR], sums on their way out of tiles
	panel []byte    // a panel of nibbles as bytes
	args  dotArgs
	quant quantArgs
	held  quantized
}

// quantized says which rows a scratch holds, and for whom.
type quantized struct {
	of           *float32 // nil where it holds none
	lda, rows, k int
	fam          family
	form         formID
	epoch        uint64
}

// NewScratch is for tasks with K up to k.
func NewScratch(k int) *Scratch {
	whole := (k + wide - 1) / wide * wide
	lda := whole + 64 // an odd number of lines keeps rows out of each other's sets
	groups := whole / group
	rows := max(MR, min(256, aBytes/lda&^(MR-1)))
	return &Scratch{
		k: k, rows: rows, lda: lda,
		a:     make([]int8, rows*lda),
		scale: make([]float32, groups*rows), aux: make([]float32, groups*rows),
		tile: make([]float32, MR*NR), bias: make([]float32, NR),
		buf: make([]float32, 4*MR*NR), panel: make([]byte, groups*(forms[q4].header+group*NR)),
	}
}

// dotArgs are the operands of the assembly kernels, in their order.
type dotArgs struct {
	cfg    *[64]byte
	a      *int8
	sa     *float32 // [groups][], scales of the rows
	aux    *float32 // [groups][], as Scratch
	sb     *byte    // scales of the first group
	b      *byte    // codes of the first group
	c      *float32
	init   *float32 // what C starts from
	lda    int      // bytes, as all distances
	lds    int
	ldc    int
	ldi    int // 0: one row for all
	groups int
	strips int // blocks of rows
	rows   int // of a block
	buf    *float32
	// Where the kernel stands; integers, because pointers would end up behind
	// the last row.
	_     [10]uintptr
	ahead int // how far ahead of the codes to prefetch
}

// quantArgs are the operands of the quantizers, in their order.
type quantArgs struct {
	codes  *int8
	x      *float32
	scale  *float32
	aux    *float32 // nil: not wanted
	lda    int      // bytes, as all distances
	ldx    int
	lds    int
	rows   int
	blocks int       // groups; with AVX-512 blocks of wide values
	tail   int       // 1: masks say what lies behind the last block
	masks  [8]uint16 // 16 values each
	min    uint32    // all ones: aux is scale x sum, else -128 x sum
}

// Run computes rows [m0,m1) of panels [p0,p1). Calls on disjoint ranges may
// run at the same time, each with its own scratch.
func Run(t *Task, m0, m1, p0, p1 int, s *Scratch) {
	if m0 < 0 || m1 > t.M || p0 < 0 || p1 > NumPanels(t.N) || m1 > m0 && (len(t.A) < (m1-1)*t.LDA+t.K || len(t.C) < (m1-1)*t.LDC+t.N) ||
		t.LDA < t.K || t.LDC < t.N || t.Bias != nil && len(t.Bias) < t.N || t.B.N != t.N || t.B.K != t.K || s.k < t.K {
		panic(fmt.Sprintf("int8: rows %d..%d of %d, panels %d..%d of [%d,%d] do not fit their buffers", m0, m1, t.M, p0, p1, t.N, t.K))
	}
	fam := familyOf(isa.Active())
	if t.B.offset != offsets[fam] && t.B.form != q4 {
		panic("int8: weights were packed under another tier")
	}
	fam = fam.suit(t.B.form, m1-m0)
	for m := m0; m < m1; m += s.rows {
		rows := min(s.rows, m1-m)
		if t.K == 0 || t.Epoch == 0 {
			s.held = quantized{}
			s.quantize(fam, t.B.form, t.A[m*t.LDA:], t.LDA, rows, t.K)
		} else if now := (quantized{&t.A[m*t.LDA], t.LDA, rows, t.K, fam, t.B.form, t.Epoch}); s.held != now {
			s.quantize(fam, t.B.form, t.A[m*t.LDA:], t.LDA, rows, t.K)
			s.held = now
		}
		for p := p0; p < p1; p++ {
			if fam == plain || t.K == 0 {
				panelGeneric(t, m, rows, p, s)
			} else {
				panelFast(fam, t, m, rows, p, s)
			}
		}
	}
}

// family is which kernels a tier runs.
type family uint8

const (
	plain   family = iota
	avx2           // products of bytes in pairs
	avxvnni        // 256-bit dot products
	vnni           // 512-bit dot products
	few            // the same, for weights of tiles
	tiles
	sdot // 128-bit dot products of arm64
)

// offsets is what each family wants added to signed codes: dot products of
// amd64 take one operand unsigned, and weights are what nothing else reads.
var offsets = [...]byte{plain: 0, avx2: 0, avxvnni: 128, vnni: 128, few: 0, tiles: 0, sdot: 0}

// panelGeneric is the twin in plain Go.
func panelGeneric(t *Task, m, rows, p int, s *Scratch) {
	f := &forms[t.B.form]
	panel := t.B.panel(p)
	for r := range rows {
		for n := range min(NR, t.N-p*NR) {
			c := &t.C[(m+r)*t.LDC+p*NR+n]
			var sum float32
			switch {
			case t.Accumulate:
				sum = *c
			case t.Bias != nil:
				sum = t.Bias[p*NR+n]
			}
			for g := range t.K / group {
				var dot int32
				for k := g * group; k < (g+1)*group; k++ {
					dot += int32(s.a[r*s.lda+k]) * int32(f.code(panel, k, n, t.B.offset))
				}
				d, lowest := f.scales(panel, g, n)
				sum += float32(float32(float32(dot)*d) * s.scale[g*s.rows+r])
				if f.min {
					sum += float32(lowest * s.aux[g*s.rows+r])
				}
			}
			*c = sum
		}
	}
}
