package bf16

import (
	"fmt"
	"unsafe"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/cpu"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// Coded is W[N,K] as panels of codes.
type Coded struct {
	Data  []byte
	DType tensor.DType
	N, K  int
}

// decodeRow leaves row n in dst; raw holds a row as the file has it.
func (w *Coded) decodeRow(dst []float32, raw []byte, n int) {
	raw = raw[:w.DType.RowBytes(w.K)]
	codes.UnpackRow(raw, w.Data, w.DType, w.K, n, 0, w.K)
	gemm.Dequantize(dst[:w.K], w.DType, raw)
}

// CodedTask is C[M,N] = A[M,K] W^T + Bias for up to FewRows rows and panels of
// codes: batched decode. Activations are rounded to bf16. Codes are multiplied
// as the numbers that they are, and scaled in f32, so weights are not rounded.
type CodedTask struct {
	M    int
	A    []float32 // [M][LDA]
	LDA  int
	W    *Coded
	C    []float32 // [M][LDC]
	LDC  int
	Bias []float32 // [N] or nil
	// Epoch is that of a Task.
	Epoch uint64
}

// CodedScratch is one worker's workspace.
type CodedScratch struct {
	x    []uint16  // [padK/32][FewRows][32], the rounded rows
	sums []float32 // [padK/32, and up to whole tiles][FewRows], the sums of 32 of them
	bias []float32 // [codes.Rows], zeros but for results in edge
	wide []float32 // [padK], a decoded row
	raw  []byte    // the same as the file has it
	edge []float32 // [FewRows][codes.Rows], results of a panel that is not asked for as a whole
	mem  *codedMemory
	args codedArgs
	// What x holds.
	of    *float32
	epoch uint64
	m, k  int
	order *fewOrder
}

// NewCodedScratch is for tasks with K up to k.
func NewCodedScratch(k int) *CodedScratch {
	kp := padK(k)
	return &CodedScratch{
		x: make([]uint16, kp*FewRows), sums: make([]float32, (kp/kStep+15)/16*16*FewRows), bias: make([]float32, codes.Rows),
		wide: make([]float32, kp), raw: make([]byte, 2*kp), edge: make([]float32, FewRows*codes.Rows), mem: newCodedMemory(),
	}
}

// codedMemory is what the kernels write to on their way: rings of steps.
type codedMemory struct {
	tiles  [4][2][codes.Rows * kStep]uint16 // right operands
	scales [16][2][codes.Rows]float32
	_      [6144]byte
	out    [4][2][FewRows * codes.Rows]float32 // products
}

// newCodedMemory begins where the end of each ring is a bit in its address.
func newCodedMemory() *codedMemory {
	const align = 16384
	b := make([]byte, unsafe.Sizeof(codedMemory{})+align)
	at := -uintptr(unsafe.Pointer(&b[0])) & (align - 1)
	return (*codedMemory)(unsafe.Pointer(&b[at]))
}

// codedArgs are the operands of the assembly kernels, in its order.
type codedArgs struct {
	cfg      *[64]byte
	w        *byte
	x        *uint16
	sums     *float32
	steps    int
	y        *float32
	strideY  int // bytes
	m        int
	bias     *float32
	nextBias int // bytes from one panel to the next
	total    int // steps of all panels
	mem      *codedMemory
	// The kernels' own: an address that moves on, perhaps beyond what it began in,
	// and the steps that a block still has.
	//
	//lint:ignore U1000 kept by assembly
	biasAt uintptr
	//lint:ignore U1000 kept by assembly
	left int
	//lint:ignore U1000 kept by assembly
	yAt uintptr
	//lint:ignore U1000 kept by assembly
	more   int
	offset float32
}

// CanCoded reports whether a task with these weights runs on tiles.
func CanCoded(d tensor.DType) bool { return directCoded(d) && cpu.Active() >= cpu.AMX }

// RunCoded computes columns [n0,n1).
func RunCoded(t *CodedTask, n0, n1 int, s *CodedScratch) {
	w := t.W
	if t.M < 0 || t.M > FewRows || n0 < 0 || n1 > w.N || t.LDA < w.K || t.LDC < w.N || t.Bias != nil && len(t.Bias) < w.N ||
		len(s.wide) < padK(w.K) || len(w.Data) < codes.Bytes(w.DType, w.N, w.K) ||
		t.M > 0 && (len(t.A) < (t.M-1)*t.LDA+w.K || len(t.C) < (t.M-1)*t.LDC+w.N) {
		panic(fmt.Sprintf("bf16: columns %d..%d of %d rows with codes [%d,%d] do not fit their buffers", n0, n1, t.M, w.N, w.K))
	}
	if t.M == 0 || n0 >= n1 {
		return
	}
	if CanCoded(w.DType) && w.K > 0 {
		s.run(t, n0, n1)
	} else {
		s.runGeneric(t, n0, n1)
	}
}

// runGeneric is the twin in plain Go.
func (s *CodedScratch) runGeneric(t *CodedTask, n0, n1 int) {
	k := t.W.K
	row := s.wide[:k]
	for n := n0; n < n1; n++ {
		t.W.decodeRow(row, s.raw, n)
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
