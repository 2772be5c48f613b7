//go:build linux

package cpu

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotpath/internal/kernel/bf16"
	"hotpath/internal/tensor"
)

// ofWorkers runs the shares of many workers one worker after another on one thread,
// and reports how much it does per second of CPU time: work that each of them repeats
// shows, what they take from each other's memory bandwidth does not.
func ofWorkers(b *testing.B, k kernel, workers int, work float64, unit string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	e := &exec{workers: make([]worker, workers)}
	for i := range e.workers {
		e.workers[i] = worker{lane: i, scratch: &scratch{f: make([]float32, 1<<16)}}
	}
	shares, queues := cutStep(k, tensor.Bind{}, len(e.workers))
	run := func() {
		for i := range e.workers[:queues] {
			e.workers[i].epoch++
		}
		for s := range shares {
			k.runShare(&e.workers[s*queues/shares], tensor.Bind{}, s, shares)
		}
	}
	run() // pages are touched
	start := now()
	for b.Loop() {
		run()
	}
	b.ReportMetric(work*float64(b.N)/(now()-start).Seconds()/1e9, unit)
}

// BenchmarkManyDW is the gradient of the weights of GPT-2 124M on tiles, as 1 to 16
// workers cut it.
func BenchmarkManyDW(b *testing.B) {
	if !bf16.Tiles() {
		b.Skip("no tiles")
	}
	const tokens = 2048
	rng := rand.New(rand.NewPCG(1, 2))
	for _, z := range [][2]int{{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}} {
		for _, c := range []struct {
			workers int
			rounded bool // both operands, by the steps before
		}{{1, false}, {2, false}, {8, false}, {16, false}, {1, true}, {16, true}} {
			workers := c.workers
			b.Run(fmt.Sprintf("n=%d/k=%d/workers=%d/rounded=%t", z[0], z[1], workers, c.rounded), func(b *testing.B) {
				k := &tilesDW{dy: numbers(rng, tokens, z[0]), x: numbers(rng, tokens, z[1]), dw: numbers(rng, z[0], z[1]), scratch: &perWorker[*bf16.OuterScratch]{}}
				if c.rounded {
					k.dyHalf, k.xHalf = make([]uint16, tokens*z[0]), make([]uint16, tokens*z[1])
				}
				for range workers {
					k.scratch.of = append(k.scratch.of, bf16.NewOuterScratch(max(z[0], z[1]), max(z[0], z[1]), tokens))
				}
				ofWorkers(b, k, workers, 2*tokens*float64(z[0])*float64(z[1]), "GFLOP/cpu-s")
			})
		}
	}
}

// cutProduct is a product on tiles from rounded rows.
type cutProduct struct {
	*bf16Way
	x    operand
	y    mat
	rows int
}

func (k *cutProduct) name() string { return "product" }
func (k *cutProduct) width(_ tensor.Bind, n int) int {
	return k.x.cut(k.split()).width(k.rows, k.n, k.k, 1, n)
}
func (k *cutProduct) runShare(w *worker, _ tensor.Bind, i, n int) {
	m0, m1, c0, c1 := k.x.cut(k.split()).part(k.rows, k.n, i, n)
	k.multiply(w, task{y: k.y.full[m0*k.n:], x: k.x.from(m0), rows: m1 - m0}, c0, c1)
}

// BenchmarkManyProducts is products of GPT-2 124M and of MiniLM on tiles, as 1 to 16
// workers cut them.
func BenchmarkManyProducts(b *testing.B) {
	if !bf16.Tiles() {
		b.Skip("no tiles")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, z := range [][3]int{{2048, 2304, 768}, {2048, 3072, 768}, {2048, 768, 3072}, {4096, 1536, 384}, {4096, 384, 1536}, {4096, 384, 384}, {512, 768, 768}} {
		weights := numbers(rng, z[1], z[2])
		for _, workers := range []int{1, 2, 8, 16} {
			b.Run(fmt.Sprintf("rows=%d/n=%d/k=%d/workers=%d", z[0], z[1], z[2], workers), func(b *testing.B) {
				way := &bf16Way{n: z[1], k: z[2], split_: split{mr: bf16.MR, nr: bf16.NR, tiles: true, cheap: true}, scratch: &perWorker[*bf16.Scratch]{}}
				way.packed = bf16.Pack(make([]uint16, bf16.PackedLen(z[1], z[2])), &bf16.Rows{W: weights.full, N: z[1], K: z[2], LD: z[2]}, z[1], z[2])
				for range workers {
					way.scratch.of = append(way.scratch.of, bf16.NewScratch(z[2]))
				}
				x := operand{mat: mat{cols: z[2]}, format: bf16Blocks, raw: make([]byte, 2*z[0]*z[2])}
				ofWorkers(b, &cutProduct{way, x, numbers(rng, z[0], z[1]), z[0]}, workers, 2*float64(z[0])*float64(z[1])*float64(z[2]), "GFLOP/cpu-s")
			})
		}
	}
}
