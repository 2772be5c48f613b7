package amx

import (
	"fmt"

	"hotpath/internal/kernel/cpu"
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
func CanRound(n int) bool { return n%NR == 0 && cpu.Active() >= cpu.AMX }

// RunRounded computes rows [m0,m1) of panels [p0,p1).
func RunRounded(t *RoundedTask, m0, m1, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	if !CanRound(t.N) || t.Act >= numActs || t.B2 != nil && t.Act == Plain || m0 < 0 || m1 > t.M || p0 < 0 || p1 > t.N/NR || len(t.Out) < m1*t.N ||
		t.Bias != nil && len(t.Bias) < t.N || t.Bias2 != nil && len(t.Bias2) < t.N || s.depth < kp {
		panic(fmt.Sprintf("amx: rows %d..%d of %d, panels %d..%d of [%d,%d] do not fit their buffers", m0, m1, t.M, p0, p1, t.N, t.K))
	}
	if m0%MR != 0 || m1%MR != 0 && m1 != t.M {
		panic(fmt.Sprintf("amx: rows %d..%d of %d, expected whole blocks of %d", m0, m1, t.M, MR))
	}
	s.job.units = 0
	step := chunk(m1-m0, kp)
	for m := m0; m < m1; m += step {
		rows := min(step, m1-m)
		a := s.rounded(t.A, t.Rounded, t.LDA, m, rows, t.M, t.K, t.Epoch)
		s.first.begin(t.B, kp*NR)
		if t.B2 != nil {
			s.second.begin(t.B2, kp*NR)
		}
		for p := p0; p < p1; p++ {
			args := &s.args
			*args = tileArgs{strideA: kStep * 2, steps: kp / kStep, quota: (MR*kStep + kp - 1) / kp, nextA: MR * kp * 2, nextOut: MR * t.N * 2, tiles: &s.blocks[0], job: &s.job}
			b := s.first.panel(p)[:kp*NR]
			if t.B2 == nil {
				args.columns(b, bias(t.Bias, p))
				if p+1 < p1 {
					s.first.prepare(&s.job, p+1)
				}
				roundedPanel(t, a, m, rows, p*NR, s)
				s.job.finish()
				continue
			}
			// A panel of each product is one tile of columns of both, twice.
			b2 := s.second.panel(p)[:kp*NR]
			if p+1 < p1 {
				s.first.prepare(&s.job, p+1)
				s.second.prepare(&s.job, p+1)
			}
			for h := range 2 {
				args.b, args.b2 = &b[512*h], &b2[512*h]
				if t.Bias != nil || t.Bias2 != nil {
					args.init, args.init2 = &either(bias(t.Bias, p))[16*h], &either(bias(t.Bias2, p))[16*h]
				}
				roundedPanel(t, a, m, rows, p*NR+16*h, s)
			}
			s.job.finish()
		}
	}
}

// bias is that of panel p.
func bias(b []float32, p int) []float32 {
	if b == nil {
		return nil
	}
	return b[p*NR : (p+1)*NR]
}

// either is a bias, or one of nothing.
func either(b []float32) []float32 {
	if b == nil {
		return zeros[:]
	}
	return b
}
