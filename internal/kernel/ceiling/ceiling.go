// Package ceiling measures what this machine can do at most: f32 fused
// multiply-adds, products of 8- and 16-bit integers and tile products from
// registers, and reads from memory. The profiler's roofline, `hotpath info` and
// the kernels' benchmarks stand beside these figures.
//
// It imports only kernel/isa. Measurements have no errors; a cancelled
// context ends them early with what was seen until then.
package ceiling

import (
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"time"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/stats"
)

const (
	fmaSlice   = 50 * time.Microsecond // one assembly call: short, as it cannot be preempted
	readBytes  = 96 << 20              // one worker's buffer: beyond L2, and beyond L3 on most machines
	readMost   = 1 << 30               // all workers' buffers together
	readSlice  = 1 << 20               // bytes of one read call at most
	sliceBytes = 32 << 20              // of a worker, to choose how it reads
)

// FMA is the f32 rate of one core in GFLOP/s under a tier, with every operand
// in registers. It takes about 10 ms.
func FMA(t isa.Tier) float64 {
	return fmaRate(context.Background(), t, 10*time.Millisecond) / 1e9
}

// Dot is the rate of one core in GOP/s at int8 dot products under a tier's
// vector instructions, with every operand in registers. It takes about 10 ms.
func Dot(t isa.Tier) float64 {
	return rate(context.Background(), 10*time.Millisecond, func(n int) float64 { return dot(t, n) }) / 1e9
}

// Pairs is the rate of one core in GOP/s at products of 16-bit pairs under a
// tier's vector instructions, with every operand in registers. It takes about
// 10 ms.
func Pairs(t isa.Tier) float64 {
	return rate(context.Background(), 10*time.Millisecond, func(n int) float64 { return pairs(t, n) }) / 1e9
}

// Tiles is the rate of one core in GOP/s at tile products of a type, "bf16"
// or "int8", with every operand in tiles; 0 where the machine has none.
func Tiles(kind string) float64 {
	if isa.Best() < isa.AMX {
		return 0
	}
	return rate(context.Background(), 10*time.Millisecond, func(n int) float64 { return tiles(kind, n) }) / 1e9
}

// fmaRate is the f32 rate in FLOP/s.
func fmaRate(ctx context.Context, t isa.Tier, d time.Duration) float64 {
	return rate(ctx, d, func(n int) float64 { return fma(t, n) })
}

// rate repeats short bursts of f for d and reports the median rate in
// operations/s: the best burst promises what a shared machine seldom gives.
// f makes n rounds and says how many operations they were.
func rate(ctx context.Context, d time.Duration, f func(n int) float64) float64 {
	n := 1000
	for ctx.Err() == nil {
		start := time.Now()
		f(n)
		if el := time.Since(start); el >= fmaSlice/2 || n >= 1<<30 {
			break
		}
		n *= 2
	}
	var rates [1024]float64
	count := 0
	for start := time.Now(); ctx.Err() == nil && count < len(rates) && (count == 0 || time.Since(start) < d); count++ {
		t0 := time.Now()
		ops := f(n)
		rates[count] = ops / time.Since(t0).Seconds()
	}
	if count == 0 {
		return 0 // cancelled
	}
	slices.Sort(rates[:count])
	return stats.MedianSorted(rates[:count])
}

// readSlices are the bytes of a read call, of which it reads four streams. Which is
// fastest depends on pages: where a virtual machine has small ones, streams that are
// near each other are a quarter faster on one core.
var readSlices = [...]int{readSlice, 256 << 10, 64 << 10}

// fastest has the index of readSlices that a number of threads reads fastest by.
var fastest sync.Map // [int]int

// sliceFor is the one of readSlices with the best median of some short samples in turn.
// It is found once per number of threads: the best of samples that belong to a
// measurement would be the luckiest one.
func sliceFor(ctx context.Context, buf []byte, threads int) int {
	if i, ok := fastest.Load(threads); ok {
		return readSlices[i.(int)]
	}
	const rounds = 5
	buf = buf[:min(len(buf), threads*sliceBytes)]
	var rates [len(readSlices)][rounds]float64
	for round := range rounds {
		for i, slice := range readSlices {
			rates[i][round] = readBy(ctx, buf, threads, slice, 0)
		}
	}
	best, most := 0, 0.0
	for i := range rates {
		slices.Sort(rates[i][:])
		if m := stats.MedianSorted(rates[i][:]); m > most {
			best, most = i, m
		}
	}
	if ctx.Err() == nil {
		fastest.Store(threads, best)
	}
	return readSlices[best]
}

// Read is the rate in bytes/s at which threads workers, or as many of them as can
// run at once, together read buf, which they share out, at least once and for
// about d, unless ctx ends.
func Read(ctx context.Context, buf []byte, threads int, d time.Duration) float64 {
	threads = workers(threads)
	if len(buf) < threads*sliceBytes { // too little to choose by
		return readBy(ctx, buf, threads, readSlice, d)
	}
	return readBy(ctx, buf, threads, sliceFor(ctx, buf, threads), d)
}

func readBy(ctx context.Context, buf []byte, threads, slice int, d time.Duration) float64 {
	threads = workers(threads)
	share := len(buf) / threads &^ (readSlice - 1)
	if share == 0 {
		return 0
	}
	t := isa.Active()
	rates := make([]float64, threads)
	together(threads, func(w int) {
		part := buf[w*share : (w+1)*share]
		done := 0
		start := time.Now()
		for ctx.Err() == nil && (done == 0 || time.Since(start) < d) {
			for o := 0; o < share && ctx.Err() == nil; o += slice {
				stream(t, part[o:o+slice])
				done += slice
			}
		}
		rates[w] = float64(done) / time.Since(start).Seconds()
	})
	return sum(rates)
}

// ReadOf is Read of that many bytes, in about 0.1 s.
func ReadOf(ctx context.Context, bytes, threads int) float64 {
	threads = workers(threads)
	share := max(readSlice, bytes/threads&^(readSlice-1))
	buf, free := mapped(threads * share)
	defer free()
	together(threads, func(w int) { // pages lie near who first writes to them
		touch(ctx, buf[w*share:(w+1)*share])
	})
	return Read(ctx, buf, threads, 100*time.Millisecond)
}

// Machine is what threads workers reach together.
type Machine struct {
	F32   float64            // FLOP/s
	Read  float64            // bytes/s from memory
	Class map[string]float64 // FLOP/s of other compute classes, where the active tier has them
}

// Measure finds the ceilings of threads workers under the active tier, in
// about 0.3 s. Where ctx ends before, what is missing is 0.
func Measure(ctx context.Context, threads int) Machine {
	threads = workers(threads)
	t := isa.Active()
	rates := make([]float64, threads)
	m := Machine{Class: map[string]float64{}}
	together(threads, func(w int) { rates[w] = fmaRate(ctx, t, 80*time.Millisecond) })
	m.F32 = sum(rates)
	if t >= isa.AMX {
		together(threads, func(w int) {
			rates[w] = rate(ctx, 40*time.Millisecond, func(n int) float64 { return tiles("bf16", n) })
		})
		m.Class["bf16"] = sum(rates)
	}
	if t >= isa.AVX2 && t < isa.AMX {
		together(threads, func(w int) {
			rates[w] = rate(ctx, 40*time.Millisecond, func(n int) float64 { return pairs(t, n) })
		})
		m.Class["i16g32"] = sum(rates)
	}
	if ctx.Err() != nil {
		return m
	}
	m.Read = ReadOf(ctx, threads*min(readBytes, readMost/threads), threads)
	return m
}

// Compute is the ceiling of threads workers (0: one per core) in one compute
// class, f32 or bf16, in FLOP/s, measured in less than 0.1 s: that of f32 where
// the active tier has no faster kernel.
func Compute(ctx context.Context, threads int, class string) float64 {
	if threads <= 0 {
		threads = isa.Threads()
	}
	threads = workers(threads)
	t := isa.Active()
	rates := make([]float64, threads)
	together(threads, func(w int) {
		if class == "bf16" && t >= isa.AMX {
			rates[w] = rate(ctx, 40*time.Millisecond, func(n int) float64 { return tiles("bf16", n) })
			return
		}
		rates[w] = fmaRate(ctx, t, 40*time.Millisecond)
	})
	return sum(rates)
}

// together runs f on n goroutines, each with a thread of its own.
func together(n int, f func(w int)) {
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f(w)
		})
	}
	wg.Wait()
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

// fmaGeneric makes n rounds of 8 independent multiply-adds.
func fmaGeneric(n int) (flops float64) {
	var a [8]float32
	x, y := float32(0.5), float32(0.25)
	for range n {
		for i := range a {
			a[i] = a[i]*x + y
		}
	}
	keep(a[0] + a[7])
	return float64(n) * 8 * 2
}

// dotGeneric makes n rounds of 8 independent byte products.
func dotGeneric(n int) (ops float64) {
	var a [8]int32
	x, y := int8(n), int8(n>>8)
	for range n {
		for i := range a {
			a[i] += int32(x) * int32(y)
		}
		x++
	}
	keep(float32(a[0] + a[7]))
	return float64(n) * 8 * 2
}

// readGeneric reads b in words.
func readGeneric(b []byte) {
	var s uint64
	for ; len(b) >= 8; b = b[8:] {
		s += binary.LittleEndian.Uint64(b)
	}
	keep(float32(s))
}

// keep is where results go so that the compiler computes them.
//
//go:noinline
func keep(float32) {}
