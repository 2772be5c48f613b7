package bf16

import (
	"fmt"
	"unsafe"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// FewRows is the largest number of activation rows of a FewTask.
const FewRows = 16

// fewGroup is the number of weight rows that are multiplied together.
const fewGroup = 16

// FewTask is C[M,N] = A[M,K] W^T + Bias for up to FewRows rows and weights in
// their storage type: batched decode. Each weight is read and decoded once for
// all rows, in the order in which it lies. Activations are rounded to bf16 and
// sums are f32, as in a Task. Weights as they lie in a file are rounded too, those
// in panels of codes are not. On tiles of f16, activations and weights in panels are
// rounded to f16, which has three bits more than bf16; a row is scaled to the range
// of f16 first, so that values below about 2^-38 of the row's largest become 0.
type FewTask struct {
	M    int
	A    []float32 // [M][LDA]
	LDA  int
	W    *gemm.Stored
	C    []float32 // [M][LDC]
	LDC  int
	Bias []float32 // [N] or nil
	// Epoch is that of a Task.
	Epoch uint64
	// Next, if not nil, is memory that the caller reads after this product: its first
	// lines are asked for meanwhile.
	Next *byte
}

// FewScratch is one worker's workspace.
type FewScratch struct {
	x      []uint16  // [padK/32][16 pairs of k][FewRows][2], the rounded rows, or [padK/32][FewRows][32]
	zeros  []float32 // [padK], a row that is not there, or a bias
	wide   []float32 // [padK], decoded weights
	edge   []float32 // [FewRows][fewGroup], results at the right edge
	mem    *fewMemory
	args   fewArgs
	tables fewTables
	rows   [FewRows]*float32
	panels fewPanels
	// What x holds.
	of    *float32
	epoch uint64
	m, k  int
	order *fewOrder
}

// NewFewScratch is for tasks with K up to k.
func NewFewScratch(k int) *FewScratch {
	kp := padK(k)
	return &FewScratch{
		x: make([]uint16, kp*FewRows), zeros: make([]float32, max(kp, fewGroup)), wide: make([]float32, kp),
		edge: make([]float32, FewRows*fewGroup), mem: newFewMemory(), panels: newFewPanels(kp),
	}
}

// fewMemory is what the kernels write to on their way.
type fewMemory struct {
	tiles  [2][fewGroup * kStep]uint16 // decoded weights, the step at hand and the one before
	scales [64]float32                 // of the step at hand, then minima
	out    [fewGroup * FewRows]float32
}

// newFewMemory begins where the address of the second tile differs from the
// first one's in one bit.
func newFewMemory() *fewMemory {
	const align = 2048
	b := make([]byte, unsafe.Sizeof(fewMemory{})+align)
	at := -uintptr(unsafe.Pointer(&b[0])) & (align - 1)
	return (*fewMemory)(unsafe.Pointer(&b[at]))
}

// fewArgs are the operands of the assembly kernels, in its order.
type fewArgs struct {
	cfg      *[64]byte
	w        *byte
	rowBytes int
	x        *uint16
	steps    int
	y        *float32
	strideY  int // bytes
	rows     int
	bias     *float32
	groups   int
	mem      *fewMemory
	tables   *fewTables
	nextBias int // bytes from one group to the next
	// The kernels' own: addresses that move on, perhaps beyond what they began in.
	//
	//lint:ignore U1000 kept by assembly
	ahead, biasAt uintptr
}

// fewTables are the constants of a kernel, in the order of its registers.
type fewTables struct {
	offsets [16]int32  // of the weight rows
	split   [32]uint16 // even words, then odd ones
	shifts  [32]uint16 // that bring a code of 4 bits to the right
	codes   [16]float32
	mask    [32]uint16 // of a code
	second  [32]uint16 // the bit that makes it one of the table's second half
}

// fewOrder says where each value of 32 comes from.
type fewOrder [32]uint16

// CanFew reports whether a task with these weights runs on tiles.
func CanFew(w *gemm.Stored) bool {
	return directFew(w) && isa.Active() >= isa.AMX && w.K > 0 && w.K%kStep == 0 && w.N >= fewGroup
}

// RunFew computes columns [n0,n1).
func RunFew(t *FewTask, n0, n1 int, s *FewScratch) {
	w := t.W
	if t.M < 0 || t.M > FewRows || n0 < 0 || n1 > w.N || t.LDA < w.K || t.LDC < w.N || t.Bias != nil && len(t.Bias) < w.N ||
		len(s.zeros) < padK(w.K) || t.M > 0 && (len(t.A) < (t.M-1)*t.LDA+w.K || len(t.C) < (t.M-1)*t.LDC+w.N) {
		panic(fmt.Sprintf("bf16: columns %d..%d of %d rows with [%d,%d] do not fit their buffers", n0, n1, t.M, w.N, w.K))
	}
	if t.M == 0 || n0 >= n1 {
		return
	}
	switch {
	case !CanFew(w):
		s.runGeneric(t, n0, n1)
	case w.InPanels:
		s.runPanels(t, n0, n1)
	default:
		s.multiplyFew(t, n0, n1)
	}
}

// runGeneric is the twin in plain Go.
func (s *FewScratch) runGeneric(t *FewTask, n0, n1 int) {
	k := t.W.K
	row := s.wide[:k]
	for n := n0; n < n1; n++ {
		t.W.Decode(row, k, n, 1, 0, k)
		if !t.W.InPanels {
			gemm.RoundBF16(row)
		}
		for m := range t.M {
			var sum float32
			if t.Bias != nil {
				sum = t.Bias[n]
			}
			for i, v := range t.A[m*t.LDA:][:k] {
				sum += float32(tensor.BF16ToF32(tensor.F32ToBF16(v)) * row[i])
			}
			t.C[m*t.LDC+n] = sum
		}
	}
}
