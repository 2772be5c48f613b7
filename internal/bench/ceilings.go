package bench

import (
	"context"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/cpu"
)

// ceilings are what the machine was measured to reach in one round. Each is
// measured when a case first asks for it.
type ceilings struct {
	ctx   context.Context
	flops map[rateKey]float64
	read  map[readKey]float64
}

type (
	rateKey struct {
		class   string
		threads int
	}
	readKey struct{ threads, bytes int }
)

const (
	leastRead = 1 << 20 // bytes a worker: what ceiling.Read takes at least
	mostRead  = 1 << 29 // bytes in all: beyond any cache
	readTime  = 10 * time.Millisecond
)

// floor is the least time in seconds that a case's steps can take: for each
// the longer of its arithmetic at the rate of its compute class and its bytes
// at the rate at which memory of the operation's size is read. bytes are those
// of the whole operation: where they fit a cache, the cache sets the rate.
func (r *ceilings) floor(c *Case, bytes float64) float64 {
	seconds := 0.0
	for _, cost := range c.cost {
		step := 0.0
		if cost.Bytes > 0 {
			step = cost.Bytes / r.readRate(bytes, c.Threads)
		}
		if cost.FLOPs > 0 {
			step = max(step, cost.FLOPs/r.flopRate(cost.Class, c.Threads))
		}
		seconds += step
	}
	return seconds
}

// flopRate is FLOP/s of a compute class.
func (r *ceilings) flopRate(class string, threads int) float64 {
	key := rateKey{class, threads}
	if v, ok := r.flops[key]; ok || r.ctx.Err() != nil {
		return v
	}
	if r.flops == nil {
		r.flops = map[rateKey]float64{}
	}
	r.flops[key] = flopCeiling(class, threads)
	return r.flops[key]
}

// flopCeiling measures all workers at the same time, each on a thread of its
// own.
func flopCeiling(class string, threads int) float64 {
	one := func() float64 { return ceiling.FMA(cpu.Active()) }
	tiles := cpu.Active() >= cpu.AMX
	switch {
	case class == "bf16" && tiles:
		one = func() float64 { return ceiling.Tiles("bf16") }
	case (class == "i8g32" || class == "i8g128") && tiles:
		one = func() float64 { return ceiling.Tiles("int8") }
	case class == "i8g32" || class == "i8g128":
		one = func() float64 { return ceiling.Dot(cpu.Active()) }
	}
	threads = max(1, min(threads, cpu.Host().Cores)) // more would only take turns
	rates := make([]float64, threads)
	var wg sync.WaitGroup
	for i := range rates {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			rates[i] = one()
		})
	}
	wg.Wait()
	sum := 0.0
	for _, v := range rates {
		sum += v
	}
	return sum * 1e9
}

// readRate is bytes/s at which threads workers together read that many bytes
// over and over.
func (r *ceilings) readRate(bytes float64, threads int) float64 {
	threads = max(1, min(threads, cpu.Host().Cores))
	n := readSize(bytes, threads)
	key := readKey{threads, n}
	if v, ok := r.read[key]; ok || r.ctx.Err() != nil {
		return v
	}
	if r.read == nil {
		r.read = map[readKey]float64{}
	}
	buf := make([]byte, n)
	for i := 0; i < n; i += 4096 { // pages that were never written share one zero page
		buf[i] = 1
		if i%leastRead == 0 && r.ctx.Err() != nil {
			return 0
		}
	}
	r.read[key] = ceiling.Read(r.ctx, buf, threads, readTime)
	return r.read[key]
}

// readSize is the size of the buffer that stands for an operation's bytes: the
// next lower power of two, so that what just fits a cache is not held against
// a rate from beyond it.
func readSize(bytes float64, threads int) int {
	n := 1 << (bits.Len(uint(min(max(bytes, 1), mostRead))) - 1)
	return max(n, leastRead*threads)
}

// ceilingCases show the ceilings themselves, by class and by size.
func ceilingCases(e *Env) []*Case {
	var out []*Case
	rate := func(name string, threads int, unit string, f func(ctx context.Context) float64) {
		out = append(out, &Case{Name: name, Threads: threads, Open: func(ctx context.Context) (*Work, error) {
			return &Work{Rates: func() ([]Value, error) { return []Value{{f(ctx) / 1e9, unit}}, nil }}, nil
		}})
	}
	for _, threads := range e.threads() {
		classes := []string{"f32", "i8g32"}
		if cpu.Active() >= cpu.AMX {
			classes = []string{"f32", "bf16", "i8g32"}
		}
		for _, class := range classes {
			rate("Ceiling/class="+class, threads, "GFLOP/s", func(context.Context) float64 { return flopCeiling(class, threads) })
		}
		for _, size := range []struct {
			name  string
			bytes float64
		}{{"1MiB", 1 << 20}, {"16MiB", 16 << 20}, {"256MiB", 256 << 20}} {
			rate("Ceiling/read="+size.name, threads, "GB/s", func(ctx context.Context) float64 {
				return (&ceilings{ctx: ctx}).readRate(size.bytes, threads)
			})
		}
	}
	return out
}
