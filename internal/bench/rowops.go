package bench

import (
	"context"
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/optest"
	"hotpath/internal/tensor"
)

const eps = 1e-5

func normCases(e *Env) []*Case {
	var out []*Case
	batches := []int{1, 16, 128, 512}
	for _, size := range []int{384, 576, 768, 2048} {
		for _, rows := range batches {
			bind := tensor.Bind{T: rows, S: 1, R: 1}
			e.ops(&out, bind, func(b *optest.Bench) []*graph.Value {
				return one(b.LayerNorm("y", b.F32(dimT, size), b.F32(tensor.Fixed(size)), b.F32(tensor.Fixed(size)), eps))
			}, "Norm/kind=layer/size=%d/rows=%d", size, rows)
			e.ops(&out, bind, func(b *optest.Bench) []*graph.Value {
				return one(b.RMSNorm("y", b.F32(dimT, size), b.F32(tensor.Fixed(size)), eps, 0))
			}, "Norm/kind=rms/size=%d/rows=%d", size, rows)
		}
	}
	// The norms of queries and keys: two steps, and the same heads in one.
	const heads, kvHeads, dim = 9, 3, 64
	for _, rows := range batches {
		bind := tensor.Bind{T: rows, S: 1, R: 1}
		qk := func(b *optest.Bench, heads int) *graph.Value {
			return b.RMSNorm(fmt.Sprintf("y%d", heads), b.F32(dimT, heads*dim), b.F32(tensor.Fixed(dim)), eps, 0)
		}
		e.ops(&out, bind, func(b *optest.Bench) []*graph.Value {
			return []*graph.Value{qk(b, heads), qk(b, kvHeads)}
		}, "Norm/kind=qk/steps=separate/heads=%d/rows=%d", heads+kvHeads, rows)
		e.ops(&out, bind, func(b *optest.Bench) []*graph.Value {
			return one(qk(b, heads+kvHeads))
		}, "Norm/kind=qk/steps=combined/heads=%d/rows=%d", heads+kvHeads, rows)
	}
	return out
}

func activationCases(e *Env) []*Case {
	var out []*Case
	for _, kind := range []graph.ActKind{graph.GELU, graph.GELUTanh, graph.SiLU} {
		for _, rows := range []int{1, 16, 128, 512} {
			bind := tensor.Bind{T: rows, S: 1, R: 1}
			e.ops(&out, bind, func(b *optest.Bench) []*graph.Value {
				return one(b.Act("y", b.F32(dimT, 1536), kind))
			}, "Activation/kind=%s/rows=%d/size=1536", kind, rows)
			e.ops(&out, bind, func(b *optest.Bench) []*graph.Value {
				return one(b.GLU("y", b.F32(dimT, 1536), b.F32(dimT, 1536), kind))
			}, "Activation/kind=%s_glu/rows=%d/size=1536", kind, rows)
		}
	}
	for _, size := range []int{64, 512, 4096, 49152} {
		out = append(out,
			vector("Activation/kind=exp", size, 2, func(dst, x []float32) { vec.Exp(dst, x, 1) }),
			// In place, and so on a copy: what was a distribution would not stay
			// a fair input.
			vector("Activation/kind=softmax", size, 4, func(dst, x []float32) {
				copy(dst, x)
				vec.Softmax(dst)
			}))
	}
	return out
}

// vector is a kernel over one row, with so many FLOPs an element by the rules
// of internal/graph: an exponential counts as one.
func vector(name string, size, flops int, f func(dst, x []float32)) *Case {
	return &Case{Name: fmt.Sprintf("%s/size=%d", name, size), Threads: 1, Open: func(context.Context) (*Work, error) {
		dst, x := make([]float32, size), noise(size, 3)
		return &Work{
			Run:  repeated(func() error { f(dst, x); return nil }),
			Cost: func() ([]Cost, error) { return []Cost{{"f32", float64(flops * size), float64(8 * size)}}, nil },
		}, nil
	}}
}

func poolCases(e *Env) []*Case {
	var out []*Case
	for _, kind := range []graph.PoolKind{graph.PoolMean, graph.PoolCLS, graph.PoolLast} {
		for _, z := range [][2]int{{1, 16}, {8, 64}, {32, 128}} {
			e.ops(&out, tensor.Bind{T: z[0] * z[1], S: z[0], R: 1}, func(b *optest.Bench) []*graph.Value {
				return one(b.Pool("y", b.F32(dimT, 384), evenly(b), kind))
			}, "Pool/kind=%s/batch=%d/len=%d/size=384", kind, z[0], z[1])
		}
	}
	return out
}

func lossCases(e *Env) []*Case {
	var out []*Case
	for _, vocab := range []int{4096, 49152} {
		for _, rows := range []int{1, 16} {
			e.ops(&out, tensor.Bind{T: rows, S: 1, R: rows}, func(b *optest.Bench) []*graph.Value {
				targets := b.I32(dimR, 0, func(i int) int32 { return int32(i*7919) % int32(vocab) })
				nll, _ := b.CrossEntropy("y", b.F32(dimR, vocab), targets)
				return one(nll)
			}, "CrossEntropy/vocab=%d/rows=%d", vocab, rows)
		}
	}
	return out
}
