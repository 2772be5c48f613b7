//go:build linux

package cpu

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// shares runs every share of a step as two workers would cut it, on one thread,
// and reports how much it does per second of CPU time: a busy machine does not
// change that much.
func shares(b *testing.B, k kernel, work float64, unit string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	w := &worker{scratch: &scratch{f: make([]float32, 1<<16)}}
	n := k.width(tensor.Bind{}, 2*sharesEach)
	run := func() {
		w.epoch++
		for i := range n {
			k.runShare(w, tensor.Bind{}, i, n)
		}
	}
	run() // pages are touched
	start := now()
	for b.Loop() {
		run()
	}
	b.ReportMetric(work*float64(b.N)/(now()-start).Seconds()/1e9, unit)
}

// numbers is a matrix of small random values.
func numbers(rng *rand.Rand, rows, cols int) mat {
	m := mat{full: make([]float32, rows*cols), cols: cols, outer: tensor.Fixed(rows)}
	for i := range m.full {
		m.full[i] = rng.Float32() - 0.5
	}
	return m
}

// BenchmarkLinearDW is the gradient of the weights of GPT-2 124M and of a small
// Llama.
func BenchmarkLinearDW(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, z := range [][3]int{
		{256, 2304, 768}, {256, 768, 768}, {256, 3072, 768}, {256, 768, 3072}, {256, 50257, 768},
		{4096, 288, 288}, {4096, 768, 288}, {4096, 288, 768}, {4096, 4096, 288},
	} {
		b.Run(fmt.Sprintf("tokens=%d/n=%d/k=%d", z[0], z[1], z[2]), func(b *testing.B) {
			k := &linearDW{dy: numbers(rng, z[0], z[1]), x: numbers(rng, z[0], z[2]), dw: numbers(rng, z[1], z[2]),
				scratch: &perWorker[*gemm.Scratch]{of: []*gemm.Scratch{gemm.NewScratch(nil)}}}
			shares(b, k, 2*float64(z[0])*float64(z[1])*float64(z[2]), "GFLOP/cpu-s")
		})
	}
}

// BenchmarkLinearDX is the gradient of their inputs.
func BenchmarkLinearDX(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, z := range [][3]int{
		{256, 2304, 768}, {256, 768, 768}, {256, 3072, 768}, {256, 768, 3072}, {256, 50257, 768},
		{4096, 288, 288}, {4096, 768, 288}, {4096, 288, 768}, {4096, 4096, 288},
	} {
		b.Run(fmt.Sprintf("tokens=%d/n=%d/k=%d", z[0], z[1], z[2]), func(b *testing.B) {
			w := numbers(rng, z[1], z[2])
			var k kernel
			dx := &linearDX{dy: numbers(rng, z[0], z[1]), dx: numbers(rng, z[0], z[2]), w: &gemm.Natural{W: w.full, N: z[2], K: z[1], LD: z[2]},
				n: z[1], k: z[2], scratch: &perWorker[*gemm.Scratch]{of: []*gemm.Scratch{gemm.NewScratch(nil)}}}
			if k = dx; isDeep(z[0], z[2], z[1]) {
				k = newDeepDX(dx, w.full, z[0])
			}
			shares(b, k, 2*float64(z[0])*float64(z[1])*float64(z[2]), "GFLOP/cpu-s")
		})
	}
}

// BenchmarkAttentionGrad is the gradient of attention for heads of several sizes,
// which tiles pad to 32: GFLOP are those of the heads themselves.
func BenchmarkAttentionGrad(b *testing.B) {
	const seqs, length, heads = 4, 256, 4
	rng := rand.New(rand.NewPCG(1, 2))
	starts := make([]int32, seqs+1)
	for i := range starts {
		starts[i] = int32(i * length)
	}
	for _, dim := range []int{64, 48, 80, 96, 20} {
		for _, class := range []Precision{F32, BF16} {
			b.Run(fmt.Sprintf("dim=%d/class=%s", dim, class), func(b *testing.B) {
				if class == BF16 && !bf16.Tiles() {
					b.Skip("no tiles")
				}
				var ms [8]mat
				for i := range ms {
					ms[i] = numbers(rng, seqs*length, heads*dim)
				}
				k := &attentionGrad{AttentionAttr: graph.AttentionAttr{Heads: heads, KVHeads: heads, HeadDim: dim, Scale: 0.1, Causal: true},
					q: ms[0], k: ms[1], v: ms[2], out: ms[3], dout: ms[4], dq: ms[5], dk: ms[6], dv: ms[7], lse: numbers(rng, seqs*length, heads),
					qStart: ints{full: starts, cols: 1, outer: tensor.Fixed(seqs + 1)}}
				if class == BF16 {
					k.tiles = &perWorker[*bf16.HeadGrad]{of: []*bf16.HeadGrad{bf16.NewHeadGrad(dim, length)}}
				} else {
					k.scratch = &perWorker[*gemm.Scratch]{of: []*gemm.Scratch{gemm.NewScratch(nil)}}
				}
				work := 5 * float64(seqs*heads*dim) * length * (length + 1)
				shares(b, k, work, "GFLOP/cpu-s")
			})
		}
	}
}

// BenchmarkAdamW reads four values of each weight and writes three.
func BenchmarkAdamW(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, z := range [][2]int{{64, 768}, {3072, 768}, {50257, 768}} {
		b.Run(fmt.Sprintf("rows=%d/cols=%d", z[0], z[1]), func(b *testing.B) {
			var of [4][]float32
			for i := range of {
				of[i] = numbers(rng, z[0], z[1]).full
			}
			for i, v := range of[2] {
				of[2][i] = v * v
			}
			h := make([]float32, graph.HyperLen)
			h[graph.HyperLR], h[graph.HyperBeta1], h[graph.HyperBeta2], h[graph.HyperEps] = 1e-4, 0.9, 0.95, 1e-8
			h[graph.HyperDecay], h[graph.HyperClip], h[graph.HyperCorr1], h[graph.HyperCorr2] = 0.1, 1, 0.1, 0.05
			k := &optimizer{w: of[0], norm: []float32{3}, h: h, rows: z[0], cols: z[1]}
			k.adamw(of[1], of[2], of[3], true)
			shares(b, k, 28*float64(len(k.w)), "GB/cpu-s")
		})
	}
}
