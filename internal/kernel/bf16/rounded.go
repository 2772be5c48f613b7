package bf16

import (
	"fmt"

	"hotpath/internal/kernel/isa"
)

// Act is what a product goes through before it is rounded.
type Act uint8

const (
	Plain Act = iota
	Gelu
	GeluTanh
	Silu
	numActs
)

// RoundedTask is Out[M,N] = act(A B + Bias), in bf16, for readers that are
// products in bf16 themselves: they find it as they would round it. With a B2
// it is act(A B + Bias)·(A B2 + Bias2). Only machines with tiles run it.
type RoundedTask struct {
	M, N, K     int       // N a multiple of NR
	A           []float32 // as in a Task
	Rounded     []uint16
	LDA         int
	Epoch       uint64
	B, B2       Panels
	Bias, Bias2 []float32 // [N] or nil
	Act         Act       // Plain only without a B2
	Out         []uint16  // [M][N] in blocks, as Rounded of a Task
}

// CanRound reports whether a RoundedTask of n columns runs on this machine.
func CanRound(n int) bool { return n%NR == 0 && isa.Active() >= isa.AMX }

// RunRounded computes rows [m0,m1) of panels [p0,p1).
func RunRounded(t *RoundedTask, m0, m1, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	if !CanRound(t.N) || t.Act >= numActs || t.B2 != nil && t.Act == Plain || m0 < 0 || m1 > t.M || p0 < 0 || p1 > t.N/NR || len(t.Out) < m1*t.N ||
		t.Bias != nil && len(t.Bias) < t.N || t.Bias2 != nil && len(t.Bias2) < t.N || s.depth < kp {
		panic(fmt.Sprintf("bf16: rows %d..%d of %d, panels %d..%d of [%d,%d] do not fit their buffers", m0, m1, t.M, p0, p1, t.N, t.K))
	}
	if m0%MR != 0 || m1%MR != 0 && m1 != t.M {
		panic(fmt.Sprintf("bf16: rows %d..%d of %d, expected whole blocks of %d", m0, m1, t.M, MR))
	}
	s.job.units = 0
	step := chunk(m1-m0, kp)
	for m := m0; m < m1; m += step {
		rows := min(step, m1-m)
		a := s.rounded(t.A, t.Rounded, t.LDA, m, rows, t.M, t.K, t.Epoch)
		if b, b2, ok := t.packed(); ok {
			roundedTiles(t, a, b[p0*kp*NR:], b2[min(len(b2), p0*kp*NR):], m, rows, p0, p1, s)
			continue
		}
		s.first.begin(t.B, kp*NR)
		if t.B2 != nil {
			s.second.begin(t.B2, kp*NR)
		}
		for p := p0; p < p1; p++ {
			b, b2 := s.first.panel(p), []uint16(nil)
			if t.B2 != nil {
				b2 = s.second.panel(p)
			}
			if p+1 < p1 {
				s.first.prepare(&s.job, p+1)
				if t.B2 != nil {
					s.second.prepare(&s.job, p+1)
				}
			}
			roundedTiles(t, a, b, b2, m, rows, p, p+1, s)
			s.job.finish()
		}
	}
}

// packed are all panels of both operands, where they lie one behind the other.
func (t *RoundedTask) packed() (b, b2 []uint16, ok bool) {
	first, ok := t.B.(*Packed)
	if !ok {
		return nil, nil, false
	}
	if t.B2 == nil {
		return first.Data, nil, true
	}
	second, ok := t.B2.(*Packed)
	if !ok {
		return nil, nil, false
	}
	return first.Data, second.Data, true
}

// RoundRow writes row r of rows, a multiple of 32 values, as bf16 in blocks: as
// Rounded of a Task. Only machines with tiles run it.
func RoundRow(dst []uint16, row []float32, r, rows int) {
	k, high := len(row), min(MR, rows-r/MR*MR)
	if !CanRound(k) || r < 0 || r >= rows || len(dst) < rows*k {
		panic(fmt.Sprintf("bf16: row %d of %d, of %d values, does not fit %d rounded ones", r, rows, k, len(dst)))
	}
	if k > 0 {
		roundRowFast(dst[blockAt(r, 0, rows, k):], row, high*kStep)
	}
}
