package bf16

import (
	"fmt"

	"hotpath/internal/kernel/isa"
)

// normGrain is what the values that are normed together are a multiple of.
const normGrain = 64

// NormKind is what is normed, and how.
type NormKind uint8

const (
	RMS        NormKind = iota // x / sqrt(mean(x²)+Eps) · W
	RMSAdd                     // the same of x + add
	RMSNormAdd                 // of x + RMS(add), which has PreW and PreEps
	Layer                      // (x-mean) / sqrt(var+Eps) · W + Bias
	LayerAdd                   // of x + add
	numNorms
)

// NormTask norms rows, for readers that want f32, for products in bf16, or for
// both: a sum before it, another norm before that and rounding are one pass over
// memory. In f32 it has the bits of vec's kernels. Only machines with tiles run
// it.
type NormTask struct {
	Kind        NormKind
	N           int       // values that are normed together, a multiple of 64
	X, Add      []float32 // [rows][N]
	Sum         []float32 // [rows][N] x + add, or [N] where nobody wants it
	W, Bias     []float32 // [N]
	PreW        []float32
	Eps, PreEps float32
	Y           []float32 // [rows][N] or nil
	Half        []uint16  // [rows][N] in blocks, as Rounded of a Task, or nil
	Rows        int       // of Half
}

// CanNorm reports whether a NormTask of n values runs on this machine.
func CanNorm(n int) bool { return n > 0 && n%normGrain == 0 && isa.Active() >= isa.AMX }

// normArgs are the operands of the assembly kernels, in their order.
type normArgs struct {
	x, add, sum, y *float32
	half           *uint16
	w, bias, pre   *float32
	strideSum      int // bytes; 0: all rows use one
	strideY        int // 0: no y
	stepHalf       int // bytes from 32 values to the next
	bytes          int // of N values
	rows           int
	eps, preEps    float64
	count          float64
	last           int // 1 if no more rows follow, else 0
}

// RunNorm computes rows [r0,r1).
func RunNorm(t *NormTask, r0, r1 int) {
	adds, pre, layer := t.Kind == RMSAdd || t.Kind == RMSNormAdd || t.Kind == LayerAdd, t.Kind == RMSNormAdd, t.Kind >= Layer
	wants := func(v []float32, yes bool, n int) bool { return !yes || len(v) >= n }
	if r0 >= r1 {
		return
	}
	all := r1 * t.N
	if !CanNorm(t.N) || t.Kind >= numNorms || r0 < 0 || len(t.X) < all || !wants(t.Add, adds, all) || adds && len(t.Sum) != t.N && len(t.Sum) < all ||
		len(t.W) < t.N || !wants(t.Bias, layer, t.N) || !wants(t.PreW, pre, t.N) || t.Y != nil && len(t.Y) < all ||
		t.Y == nil && t.Half == nil || t.Half != nil && (r1 > t.Rows || len(t.Half) < t.Rows*t.N) {
		panic(fmt.Sprintf("bf16: rows %d..%d of %d values do not fit the buffers of a norm", r0, r1, t.N))
	}
	a := normArgs{w: &t.W[0], bytes: t.N * 4, eps: float64(t.Eps), preEps: float64(t.PreEps), count: float64(t.N)}
	if layer {
		a.bias = &t.Bias[0]
	}
	if pre {
		a.pre = &t.PreW[0]
	}
	for r := r0; r < r1; r += a.rows {
		a.rows = min(MR-r%MR, r1-r)
		rows := a.rows // which the kernel counts down
		if a.last = 0; r+rows == r1 {
			a.last = 1
		}
		a.x = &t.X[r*t.N]
		if adds {
			a.add = &t.Add[r*t.N]
			a.sum, a.strideSum = &t.Sum[0], 0
			if len(t.Sum) > t.N {
				a.sum, a.strideSum = &t.Sum[r*t.N], a.bytes
			}
		}
		if t.Y != nil {
			a.y, a.strideY = &t.Y[r*t.N], a.bytes
		}
		if t.Half != nil {
			a.half = &t.Half[blockAt(r, 0, t.Rows, t.N)]
			a.stepHalf = min(MR, t.Rows-r/MR*MR) * kStep * 2
		}
		normRows(t.Kind, &a)
		a.rows = rows
	}
}
