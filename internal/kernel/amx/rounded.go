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
	Out         []uint16  // [M][N]
}

// CanRound reports whether a RoundedTask of n columns runs on this machine.
func CanRound(n int) bool { return n%NR == 0 && cpu.Active() >= cpu.AMX }

// RunRounded computes rows [m0,m1) of panels [p0,p1).
func RunRounded(t *RoundedTask, m0, m1, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	if !CanRound(t.N) || t.Act >= numActs || t.B2 != nil && t.Act == Plain || m0 < 0 || m1 > t.M || p0 < 0 || p1 > t.N/NR || len(t.Out) < m1*t.N ||
		t.Bias != nil && len(t.Bias) < t.N || t.Bias2 != nil && len(t.Bias2) < t.N || len(s.panel) < kp*NR {
		panic(fmt.Sprintf("amx: rows %d..%d of %d, panels %d..%d of [%d,%d] do not fit their buffers", m0, m1, t.M, p0, p1, t.N, t.K))
	}
	for m := m0; m < m1; m += mc {
		rows := min(mc, m1-m)
		a, lda := s.rounded(t.A, t.Rounded, t.LDA, m, rows, t.K, t.Epoch)
		for p := p0; p < p1; p++ {
			args := &s.args
			*args = tileArgs{strideA: lda * 2, steps: kp / kStep, quota: (MR*kStep + kp - 1) / kp, strideOut: t.N * 2, nextOut: MR * t.N * 2, tiles: &s.blocks[0]}
			args.b, args.init = panel(t.B, p, s.panel[:kp*NR]), bias(t.Bias, p)
			if t.B2 != nil {
				args.b2, args.init2 = panel(t.B2, p, s.panel2[:kp*NR]), bias(t.Bias2, p)
			}
			roundedPanel(t, a, lda, m, rows, p, s)
		}
	}
}

func panel(b Panels, p int, scratch []uint16) *uint16 {
	return &b.Panel(p, scratch)[:len(scratch)][0]
}

func bias(b []float32, p int) *float32 {
	if b == nil {
		return nil
	}
	return &b[p*NR : (p+1)*NR][0]
}
