// Package gemm multiplies f32 matrices with weights in any storage type: the
// blocked driver (Run), the layouts it reads (Panels), packing, the
// matrix-vector kernels that read weights straight from the file (GemvRows), and
// attention, which is two products with a softmax between them (Head).
//
// backend/cpu and the measurements import it; it imports only tensor, kernel/isa
// and kernel/vec. Nothing here allocates, starts goroutines or returns an error
// for data: a Task whose buffers are too short is a programming mistake and
// panics before anything is written. Check reports the same as an error.
//
// Order of summation: every element of C is one chain of fused
// multiply-adds over k = 0..K-1, started from zero, from C (Accumulate) and
// the bias. It does not depend on the tile, the row count, the blocking or
// the worker, so any split of the work gives the same bits, and AVX2 and
// AVX-512 agree bit for bit. The generic twin rounds products and sums
// separately.
package gemm

import (
	"fmt"

	"hotpath/internal/kernel/isa"
)

const (
	maxMR = 14  // rows of the largest micro-kernel
	maxNR = 32  // columns of the widest panel
	kc    = 384 // elements of K in a block: a panel of it stays near L1
	mc    = 448 // rows packed at a time: mc x kc f32 stay in L2
	// heldValues is how many values of A a scratch holds: mc x kc, or fewer rows in
	// all of their depth, which other shares of a product meet again.
	heldValues = 256 << 10
	// kcBuilt is kc of panels that are built anew for each block of rows by
	// little more than writing them: they are not to leave L1 for it.
	kcBuilt = 192
	// packDepth is how many rows of a transposed A are packed at a time: their
	// lines are met again by the next strip and must not have left L1, where
	// rows a multiple of a page apart share few places.
	packDepth = 16
)

// shape is the tile of one tier.
type shape struct{ mr, nr int }

var shapes = [...]shape{
	isa.Generic: {4, 8},
	isa.NEON:    {8, 8},
	isa.AVX2:    {6, 16},
	isa.AVX512:  {14, 32},
}

// NR is the number of columns in a panel of B under the active tier.
func NR() int { return shapes[isa.Vector()].nr }

// MR is the number of rows that fill the active tier's micro-kernel; splits
// of M between workers do best at multiples of it.
func MR() int { return shapes[isa.Vector()].mr }

// NumPanels is the number of panels that hold n columns.
func NumPanels(n int) int {
	nr := NR()
	return (n + nr - 1) / nr
}

// Panels is the B operand of a Task, [K, N] cut into panels of NR columns.
type Panels interface {
	// Panel returns rows [k0, k1) of panel p as [k1-k0][NR]; columns beyond
	// N are zero. It may build them in scratch, which holds as many values
	// and UnpackLen more for work. k0 is a multiple of 32.
	Panel(p, k0, k1 int, scratch []float32) []float32
}

// Task is C[M,N] = A[M,K]·B[K,N], plus Bias[N] where there is one, plus the
// old C where Accumulate is set.
type Task struct {
	M, N, K    int
	A          []float32 // [M][LDA], or [K][LDA] where ATrans is set
	LDA        int
	ATrans     bool
	B          Panels
	C          []float32 // [M][LDC]
	LDC        int
	Bias       []float32 // [N] or nil
	Accumulate bool
	// Round rounds A to bf16 on its way in, for a B whose panels are built of
	// bf16 values.
	Round bool
	// Epoch, where not 0, says when A was last written: a run with the same A
	// and the same epoch finds its rows packed in the scratch, where they fit.
	Epoch uint64
}

// Check reports what is wrong with the sizes of a task.
func (t *Task) Check() error {
	rows, cols := t.M, t.K
	if t.ATrans {
		rows, cols = t.K, t.M
	}
	switch {
	case t.M < 0 || t.N < 0 || t.K < 0:
		return fmt.Errorf("gemm: negative size in M=%d N=%d K=%d", t.M, t.N, t.K)
	case t.M == 0 || t.N == 0:
		return nil
	case t.LDA < cols:
		return fmt.Errorf("gemm: LDA is %d, expected at least %d", t.LDA, cols)
	case t.LDC < t.N:
		return fmt.Errorf("gemm: LDC is %d, expected at least N=%d", t.LDC, t.N)
	case t.K > 0 && len(t.A) < (rows-1)*t.LDA+cols:
		return fmt.Errorf("gemm: A has %d values, expected %d rows of %d", len(t.A), rows, t.LDA)
	case len(t.C) < (t.M-1)*t.LDC+t.N:
		return fmt.Errorf("gemm: C has %d values, expected %d rows of %d", len(t.C), t.M, t.LDC)
	case t.Bias != nil && len(t.Bias) < t.N:
		return fmt.Errorf("gemm: Bias has %d values, expected N=%d", len(t.Bias), t.N)
	case t.B == nil:
		return fmt.Errorf("gemm: B is missing")
	}
	return nil
}

// Scratch is one worker's workspace.
type Scratch struct {
	a     []float32 // heldValues: [strips][kc/4][MR][4], packed rows of A
	panel []float32 // [kc][NR] and UnpackLen, a panel of B that had to be built
	tile  []float32 // [MR][NR], the tile at the right edge of C
	bias  []float32 // [NR], the bias of the last panel
	held  packedRows
}

// packedRows says which rows of A a scratch holds, in all of their depth.
type packedRows struct {
	of      *float32 // nil where it holds none
	lda     int
	rows, k int
	trans   bool
	round   bool
	tier    isa.Tier
	epoch   uint64
}

// ScratchLen is the number of f32 values a Scratch needs.
const ScratchLen = heldValues + kc*maxNR + UnpackLen + maxMR*maxNR + maxNR

// NewScratch cuts a workspace out of buf, which must hold ScratchLen values,
// 64-byte aligned for speed; nil allocates.
func NewScratch(buf []float32) *Scratch {
	if buf == nil {
		buf = make([]float32, ScratchLen)
	}
	if len(buf) < ScratchLen {
		panic(fmt.Sprintf("gemm: scratch has %d values, expected %d", len(buf), ScratchLen))
	}
	cut := func(n int) []float32 {
		s := buf[:n:n]
		buf = buf[n:]
		return s
	}
	return &Scratch{a: cut(heldValues), panel: cut(kc*maxNR + UnpackLen), tile: cut(maxMR * maxNR), bias: cut(maxNR)}
}

// Run computes rows [m0, m1) of panels [p0, p1). Calls on disjoint ranges may
// run at the same time, each with its own scratch.
func Run(t *Task, m0, m1, p0, p1 int, s *Scratch) {
	if err := t.Check(); err != nil {
		panic(err)
	}
	if m0 < 0 || m1 > t.M || p0 < 0 || p1 > NumPanels(t.N) {
		panic(fmt.Sprintf("gemm: rows %d..%d of %d, panels %d..%d of %d", m0, m1, t.M, p0, p1, NumPanels(t.N)))
	}
	tier, depth := isa.Vector(), t.depth()
	for mb := m0; mb < m1; mb += mc {
		rows := min(mc, m1-mb)
		fits, packed := s.hold(t, tier, mb, rows)
		// At least one round, so that K = 0 still writes the bias.
		for k0 := 0; k0 == 0 || k0 < t.K; k0 += depth {
			k1 := min(k0+depth, t.K)
			a := s.a
			if fits {
				a = a[rows*k0:]
			}
			runBlock(t, tier, a, packed, mb, rows, k0, k1, p0, p1, s)
		}
	}
}

// depth is the elements of K in a block.
func (t *Task) depth() int {
	if t.Round {
		return kcBuilt
	}
	return kc
}

// Holds reports whether a scratch holds rows of A in all of their depth k.
func Holds(rows, k int) bool { return rows <= mc && rows*((k+3)&^3) <= heldValues }

// hold says whether rows mb.. of A fit into the scratch in all of their depth,
// and whether they lie there already. If not, they are about to.
func (s *Scratch) hold(t *Task, tier isa.Tier, mb, rows int) (fits, packed bool) {
	if t.Epoch == 0 || t.K == 0 || !Holds(rows, t.K) {
		s.held = packedRows{}
		return false, false
	}
	at := mb * t.LDA
	if t.ATrans {
		at = mb
	}
	now := packedRows{&t.A[at], t.LDA, rows, t.K, t.ATrans, t.Round, tier, t.Epoch}
	packed = s.held == now
	s.held = now
	return true, packed
}

// runBlock computes one block of rows over one block of K. Rows are cut into
// strips of almost equal height, so that 16 rows are 8+8 and not 14+2.
func runBlock(t *Task, tier isa.Tier, packedA []float32, packed bool, mb, rows, k0, k1, p0, p1 int, s *Scratch) {
	mr, nr := shapes[tier].mr, shapes[tier].nr
	strips := (rows + mr - 1) / mr
	base, extra := rows/strips, rows%strips
	kn := k1 - k0
	kpad := (kn + 3) &^ 3
	part := kn
	if t.ATrans {
		part = packDepth
	}
	for k := 0; k < kn && !packed; k += part {
		for i, r := 0, 0; i < strips; i++ {
			h := base
			if i < extra {
				h++
			}
			strip, n := packedA[r*kpad+k*h:], min(part, kn-k)
			packA(tier, strip, t, mb+r, h, k0+k, n)
			if t.Round {
				RoundBF16(strip[:h*((n+3)&^3)])
			}
			r += h
		}
	}
	load := t.Accumulate || k0 > 0
	for p := p0; p < p1; p++ {
		b := t.B.Panel(p, k0, k1, s.panel[:kn*nr+UnpackLen])
		if len(b) < kn*nr {
			panic(fmt.Sprintf("gemm: panel %d has %d values, expected [%d][%d]; was it packed for another tier?", p, len(b), kn, nr))
		}
		n0 := p * nr
		cols := min(nr, t.N-n0)
		var bias []float32
		if t.Bias != nil && k0 == 0 {
			bias = t.Bias[n0 : n0+cols]
			if cols < nr {
				clear(s.bias)
				copy(s.bias, bias)
				bias = s.bias[:nr]
			}
		}
		// Strips of a row more, then the others.
		for r, h, n := 0, base+1, extra; r < rows; h, n = base, strips-extra {
			a := packedA[r*kpad:]
			c := t.C[(mb+r)*t.LDC+n0:]
			switch {
			case n == 0:
			case cols == nr:
				tile(tier, a, b, c, bias, kn, t.LDC, h, n, load)
			default:
				for i := range n {
					edge(tier, a[i*h*kpad:], b, c[i*h*t.LDC:], bias, kn, t.LDC, h, cols, load, s.tile)
				}
			}
			r += n * h
		}
	}
}

// edge computes a tile of which only cols columns exist, by way of tmp.
func edge(tier isa.Tier, a, b, c, bias []float32, k, ldc, h, cols int, load bool, tmp []float32) {
	nr := shapes[tier].nr
	tmp = tmp[:h*nr]
	if load {
		clear(tmp)
		for r := range h {
			copy(tmp[r*nr:r*nr+cols], c[r*ldc:])
		}
	}
	tile(tier, a, b, tmp, bias, k, nr, h, 1, load)
	for r := range h {
		copy(c[r*ldc:r*ldc+cols], tmp[r*nr:])
	}
}
