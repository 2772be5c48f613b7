package bf16

import (
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// Without tiles the vectors of f32 multiply what bf16 holds: rows are rounded
// as they are packed, and weights are widened a panel at a time, which costs
// next to nothing beside the product and reads half the bytes of f32. The dot
// products of AVX512_BF16 are left alone: they do half as many per cycle as
// f32 does where they were measured, and flush and round in a way of their own.

// Tiles reports whether products run on tiles.
func Tiles() bool { return isa.Active() >= isa.AMX }

// wide is Panels as the f32 kernels take them.
type wide struct {
	b       Panels
	scratch *gemm.Scratch
	task    gemm.Task
}

// Panel is that of a narrower panel, in f32.
func (w *wide) Panel(p, k0, k1 int, scratch []float32) []float32 {
	return w.b.Wide(p, k0, k1, scratch)
}

// multiply computes rows [m0,m1) of panels [p0,p1) of t.
func (w *wide) multiply(t *Task, m0, m1, p0, p1 int) {
	narrow := NR / gemm.NR()
	w.b = t.B
	w.task = gemm.Task{M: t.M, N: t.N, K: t.K, A: t.A, LDA: t.LDA, B: w, C: t.C, LDC: t.LDC, Bias: t.Bias, Accumulate: t.Accumulate, Round: true, Epoch: t.Epoch}
	gemm.Run(&w.task, m0, m1, p0*narrow, min(p1*narrow, gemm.NumPanels(t.N)), w.scratch)
	w.b, w.task = nil, gemm.Task{} // it keeps nobody's memory
}

// Wide widens columns of a panel: [k0,k1) of them as they lie, k0 a multiple
// of 32.
func (p *Packed) Wide(i, k0, k1 int, scratch []float32) []float32 {
	nr := gemm.NR()
	col := i * nr % NR
	src := p.Panel(i*nr/NR, nil)[k0*NR:]
	pairs := (k1 - k0 + 1) / 2
	_ = scratch[:2*pairs*nr] // an odd row's partner lies in what is left for work
	cols := wideCols
	if isa.Vector() == isa.Generic {
		cols = wideGeneric
	}
	for n := 0; n < nr && pairs > 0; n += cols {
		c := col + n
		from := src[c/16*512+c%16*2:]
		_ = from[(pairs-1)/16*1024+(pairs-1)%16*32+2*cols-1]
		if isa.Vector() == isa.Generic {
			widenGeneric(scratch[n:], from, nr, pairs)
		} else {
			widen(scratch[n:], from, nr, pairs)
		}
	}
	return scratch[:(k1-k0)*nr]
}

// wideGeneric is how many columns widenGeneric takes.
const wideGeneric = 8

// widenGeneric is the twin of widen in plain Go.
func widenGeneric(dst []float32, src []uint16, ldd, pairs int) {
	for i := range pairs {
		line := (*[2 * wideGeneric]uint16)(src[i/16*1024+i%16*32:])
		even := (*[wideGeneric]float32)(dst[2*i*ldd:])
		odd := (*[wideGeneric]float32)(dst[(2*i+1)*ldd:])
		for n := range wideGeneric {
			even[n] = tensor.BF16ToF32(line[2*n])
			odd[n] = tensor.BF16ToF32(line[2*n+1])
		}
	}
}

// Wide transposes and rounds.
func (b *Rows) Wide(p, k0, k1 int, scratch []float32) []float32 {
	return rounded(gemm.Rows{W: b.W, N: b.N, K: b.K, LD: b.LD}.Panel(p, k0, k1, scratch))
}

// Wide copies and rounds.
func (b *Natural) Wide(p, k0, k1 int, scratch []float32) []float32 {
	return rounded(gemm.Natural{W: b.W, N: b.N, K: b.K, LD: b.LD}.Panel(p, k0, k1, scratch))
}

// Wide decodes and rounds.
func (b *Stored) Wide(p, k0, k1 int, scratch []float32) []float32 {
	return rounded(b.W.Panel(p, k0, k1, scratch))
}

func rounded(v []float32) []float32 {
	gemm.RoundBF16(v)
	return v
}
