package bf16

import (
	"fmt"
	"unsafe"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

const (
	// outerDepth is how many rows of K are multiplied at a time. It is the same
	// for every split, so that sums are.
	outerDepth = 768
	// outerValues is how many values of each operand a scratch holds.
	outerValues = 3 << 20
)

// Outer is C[M,N] = A^T B (+ C), with A[K,M] and B[K,N] row by row: the gradient of a
// weight, where K counts tokens. Only machines with tiles run it.
type Outer struct {
	M, N, K int
	A       []float32 // [K][LDA]
	LDA     int
	B       []float32 // [K][LDB]
	LDB     int
	// Operands that are rounded already, [K][M] and [K][N] in blocks as Rounded of a
	// Task, take the place of A and B.
	RoundedA, RoundedB []uint16
	C                  []float32 // [M][LDC]
	LDC                int
	// Accumulate adds to what C is.
	Accumulate bool
	// Epoch, where not 0, says when A and B were last written: a run with the same
	// operand, range and epoch finds it packed in the scratch.
	Epoch uint64
}

// OuterScratch is one worker's workspace.
type OuterScratch struct {
	a, b     []uint16
	inA, inB outerPart
	run      *Scratch
	task     Task
	packed   Packed
	edge     [MR * kStep]uint16
}

// outerPart says which columns of an operand a scratch holds.
type outerPart struct {
	of        unsafe.Pointer // nil: none
	lo, hi, k int
	epoch     uint64
}

// NewOuterScratch makes a workspace for products of any size. m and n are the most
// columns of A and B, k the most rows.
func NewOuterScratch(m, n, k int) *OuterScratch {
	kp := padK(k)
	size := func(cols int) int { return max(MR*kp, min(outerValues, (cols+MR-1)/MR*MR*kp)) }
	return &OuterScratch{a: make([]uint16, size(m)), b: make([]uint16, size(n)), run: NewScratch(min(kp, outerDepth))}
}

// RunOuter computes rows [m0,m1) of panels [p0,p1); m0 is a multiple of MR.
func RunOuter(t *Outer, m0, m1, p0, p1 int, s *OuterScratch) {
	n0, n1 := p0*NR, min(t.N, p1*NR)
	holds := func(x []float32, rounded []uint16, ld, cols int) bool {
		if rounded != nil {
			return CanRound(cols) && len(rounded) >= t.K*cols
		}
		return ld >= cols && (t.K == 0 || len(x) >= (t.K-1)*ld+cols)
	}
	if !Tiles() || m0 < 0 || m1 > t.M || p0 < 0 || n0 > t.N || m0%MR != 0 || t.LDC < t.N ||
		!holds(t.A, t.RoundedA, t.LDA, t.M) || !holds(t.B, t.RoundedB, t.LDB, t.N) || m1 > m0 && len(t.C) < (m1-1)*t.LDC+t.N {
		panic(fmt.Sprintf("bf16: rows %d..%d of %d, panels %d..%d of %d columns over %d rows do not fit their buffers", m0, m1, t.M, p0, p1, t.N, t.K))
	}
	if t.K == 0 {
		for m := m0; m < m1 && !t.Accumulate; m++ {
			clear(t.C[m*t.LDC:][n0:n1])
		}
		return
	}
	kp := padK(t.K)
	rows, cols := len(s.a)/kp/MR*MR, len(s.b)/kp/NR*NR
	for n := n0; n < n1; n += cols {
		s.panels(t, n, min(n+cols, n1))
		for m := m0; m < m1; m += rows {
			s.strips(t, m, min(m+rows, m1))
			s.multiply(t)
		}
	}
}

// multiply is the product of what the scratch holds.
func (s *OuterScratch) multiply(t *Outer) {
	rows, cols := s.inA.hi-s.inA.lo, s.inB.hi-s.inB.lo
	wide := NumPanels(cols) * NR
	for k := 0; k < t.K; k += outerDepth {
		kp := padK(min(outerDepth, t.K-k))
		s.packed = Packed{Data: s.b[k*wide:][:kp*wide], N: cols, K: kp}
		s.task = Task{M: rows, N: cols, K: kp, Rounded: s.a[k*rows:][:kp*rows], LDA: kp, B: &s.packed,
			C: t.C[s.inA.lo*t.LDC+s.inB.lo:], LDC: t.LDC, Accumulate: t.Accumulate || k > 0}
		Run(&s.task, 0, rows, 0, NumPanels(cols), s.run)
	}
}

// panels packs columns [lo,hi) of B, for each outerDepth rows all panels. It goes
// along the rows, kStep of them at a time, so that they are read as they lie.
func (s *OuterScratch) panels(t *Outer, lo, hi int) {
	want := partOf(t.B, t.RoundedB, lo, hi, t)
	if t.Epoch != 0 && s.inB == want {
		return
	}
	s.inB = want
	wide := NumPanels(hi-lo) * NR
	if t.RoundedB != nil {
		for k := 0; k < t.K; k += outerDepth {
			n := min(outerDepth, t.K-k)
			s.tiles(s.b[k*wide:], t.RoundedB, t.N, lo, hi, k, n, t.K, pairRounded)
		}
		return
	}
	for k := 0; k < t.K; k += outerDepth {
		n := min(outerDepth, t.K-k)
		for k0 := 0; k0 < n; k0 += kStep {
			for c := lo; c < hi; c += NR {
				packCols(s.b[k*wide+(c-lo)*padK(n)+k0*NR:][:NR*kStep], t.B[(k+k0)*t.LDB+c:], t.LDB, min(NR, hi-c), min(kStep, n-k0))
			}
		}
	}
}

// partOf is columns [lo,hi) of an operand of t.
func partOf(x []float32, rounded []uint16, lo, hi int, t *Outer) outerPart {
	of := unsafe.Pointer(unsafe.SliceData(x))
	if rounded != nil {
		of = unsafe.Pointer(unsafe.SliceData(rounded))
	}
	return outerPart{of, lo, hi, t.K, t.Epoch}
}

// tiles packs columns [lo,hi) of rows [k,k+n) of a rounded operand of rows x cols:
// of 32 rows all tiles, which lie one behind the other, at a time.
func (s *OuterScratch) tiles(dst, src []uint16, cols, lo, hi, k, n, rows int, pack func(dst, src []uint16, tiles, next int)) {
	next := NR * padK(n) // from the tile of some columns to that of the next
	for k0 := 0; k0 < n; k0 += kStep {
		high := min(MR, rows-k-k0)
		from, to := src[blockAt(k+k0, lo, rows, cols):], dst[k0*NR:]
		if high == MR {
			pack(to, from, (hi-lo)/NR, next)
			continue
		}
		for c := range (hi - lo) / NR { // the last rows
			at := copy(s.edge[:], from[c*high*kStep:][:high*kStep])
			clear(s.edge[at:])
			pack(to[c*next:], s.edge[:], 1, next)
		}
	}
}

// turnPanels is how many blocks of columns are turned at a time: their rows stay
// in L1 for both halves.
const turnPanels = 4

// strips packs columns [lo,hi) of A as rows in blocks, for each outerDepth rows of
// K all blocks. It goes along the rows, as panels does.
func (s *OuterScratch) strips(t *Outer, lo, hi int) {
	want := partOf(t.A, t.RoundedA, lo, hi, t)
	if t.Epoch != 0 && s.inA == want {
		return
	}
	s.inA = want
	if t.RoundedA != nil {
		for k := 0; k < t.K; k += outerDepth {
			n := min(outerDepth, t.K-k)
			s.tiles(s.a[k*(hi-lo):], t.RoundedA, t.M, lo, hi, k, n, t.K, turnRounded)
		}
		return
	}
	whole := (hi - lo) / MR // blocks
	for k := 0; k < t.K; k += outerDepth {
		n := min(outerDepth, t.K-k)
		dst, src, next := s.a[k*(hi-lo):], t.A[k*t.LDA:], MR*padK(n)
		for k0 := 0; k0+kStep <= n; k0 += kStep {
			for i := 0; i < whole; i += turnPanels {
				turnTiles(dst[i*next+k0*MR:], src[k0*t.LDA+lo+i*MR:], t.LDA, min(turnPanels, whole-i), next)
			}
		}
		done := n / kStep * kStep
		for c := lo; c < hi; c += MR {
			rows, from := min(MR, hi-c), done
			if rows < MR {
				from = 0
			}
			if from < n {
				packAcross(dst[(c-lo)*padK(n)+from*rows:][:rows*padK(n-from)], src[from*t.LDA+c:], t.LDA, rows, n-from)
			}
		}
	}
}

// packAcross makes a block of cols rows of k x cols values in natural order, ld
// apart, with zeros behind the last.
func packAcross(dst []uint16, src []float32, ld, cols, k int) {
	for c := 0; c < cols; c += 16 {
		n, steps := min(16, cols-c), 0
		if n == 16 && isa.Active() >= isa.AMX {
			if steps = k / kStep; steps > 0 {
				packAcrossFast(dst[c*kStep:], src[c:], ld, steps, cols*kStep)
			}
		}
		for k0 := steps * kStep; k0 < k; k0 += kStep {
			var edge [kStep * 16]float32 // [k][column], zero where there is nothing
			for j := range min(kStep, k-k0) {
				copy(edge[j*16:][:n], src[(k0+j)*ld+c:])
			}
			tile := dst[k0*cols+c*kStep:][:n*kStep]
			if n == 16 && isa.Active() >= isa.AMX {
				packAcrossFast(tile, edge[:], 16, 1, 0)
				continue
			}
			for i := range tile {
				tile[i] = tensor.F32ToBF16(edge[i%kStep*16+i/kStep])
			}
		}
	}
}
