package gemm

import (
	"fmt"
	"math"
)

// CodeRows is the largest number of activation rows of a CodeTask.
const CodeRows = 8

// codeGroup is the number of weight rows that are multiplied together.
const codeGroup = 16

// codeLen is how many values share a scale, and codeMax the largest integer
// that stands for one of them: two bytes of it, each with a sign.
const (
	codeLen = 32
	codeMax = 127 << 8
)

// codeRoom is the bytes that 32 values of all rows take: scales and sums of one or
// more rows take as much as a row.
const codeRoom = 64 * CodeRows * 2

// CodeTask is C[M,N] = A[M,K] W^T + Bias for up to CodeRows rows and weights in
// panels or as they lie in a file, whose codes are multiplied as the integers they
// are: one row, or a few of batched decode. A becomes integers of 16 bits with a scale
// per 32, and sums are f32. What a weight row gives depends on nothing else of W.
type CodeTask struct {
	M    int
	A    []float32 // [M][LDA]
	LDA  int
	W    *Stored
	C    []float32 // [M][LDC]
	LDC  int
	Bias []float32 // [N] or nil
	// Epoch, where it is not 0, says that A holds what it held at the last task
	// with the same one.
	Epoch uint64
	Next  *byte // what is read after W, if that is known
}

// CodeScratch is one worker's workspace.
type CodeScratch struct {
	x            []byte             // [K/32]{[rows]{[32] lower bytes, [32] upper bytes}, [8] scales, [8] sums}, by as many rows as meet
	zeros        []float32          // [codeGroup], a bias
	edge         []float32          // [CodeRows][codeGroup], results at the right edge
	last         [codeGroup]float32 // bias of the last columns
	row, rounded [codeLen]float32
	args         codeArgs
	table        codeTables
	// What x holds.
	of     *float32
	epoch  uint64
	m, k   int
	kernel *codeKernel
}

// NewCodeScratch is for tasks with K up to k.
func NewCodeScratch(k int) *CodeScratch {
	return &CodeScratch{x: make([]byte, (k+codeLen-1)/codeLen*codeRoom), zeros: make([]float32, codeGroup), edge: make([]float32, CodeRows*codeGroup)}
}

// RunCodes computes columns [n0,n1).
func RunCodes(t *CodeTask, n0, n1 int, s *CodeScratch) {
	w := t.W
	if t.M < 0 || t.M > CodeRows || n0 < 0 || n1 > w.N || t.LDA < w.K || t.LDC < w.N || t.Bias != nil && len(t.Bias) < w.N ||
		n1*w.RowBytes > len(w.Data) || len(s.x) < w.K/codeLen*codeRoom ||
		t.M > 0 && (len(t.A) < (t.M-1)*t.LDA+w.K || len(t.C) < (t.M-1)*t.LDC+w.N) {
		panic(fmt.Sprintf("gemm: codes of columns %d..%d of %d rows with [%d,%d] do not fit their buffers", n0, n1, t.M, w.N, w.K))
	}
	if t.M == 0 || n0 >= n1 {
		return
	}
	if CanCodes(w) {
		s.multiply(t, n0, n1)
	} else {
		s.runGeneric(t, n0, n1)
	}
}

// runGeneric is the twin in plain Go.
func (s *CodeScratch) runGeneric(t *CodeTask, n0, n1 int) {
	w := t.W
	row, x := s.row[:], s.rounded[:]
	for n := n0; n < n1; n++ {
		for m := range t.M {
			t.C[m*t.LDC+n] = 0
			if t.Bias != nil {
				t.C[m*t.LDC+n] = t.Bias[n]
			}
		}
		for k := 0; k < w.K; k += codeLen {
			size := min(codeLen, w.K-k)
			w.Decode(row, codeLen, n, 1, k, size)
			for m := range t.M {
				roundCodes(x[:size], t.A[m*t.LDA+k:])
				var sum float32
				for i, v := range x[:size] {
					sum += float32(v * row[i])
				}
				t.C[m*t.LDC+n] += sum
			}
		}
	}
}

// roundCodes leaves in dst what the integers for x stand for.
func roundCodes(dst, x []float32) {
	var most float32
	for _, v := range x[:len(dst)] {
		most = max(most, float32(math.Abs(float64(v)))) // which is no number where one is not
	}
	scale, inverse := most/codeMax, codeMax/most
	if math.IsInf(float64(inverse), 0) { // nothing, or too little to be told from it
		clear(dst)
		return
	}
	for i := range dst {
		dst[i] = scale * float32(math.RoundToEven(float64(x[i]*inverse)))
	}
}
