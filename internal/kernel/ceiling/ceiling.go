// Package ceiling measures what this machine can do at most: f32 fused
// multiply-adds, products of 8- and 16-bit integers and tile products from
// registers, and reads from memory. The profiler's roofline, `hotpath info` and
// the kernels' benchmarks stand beside these figures.
//
// It imports only group, kernel/isa and stats. Measurements have no errors; a cancelled
// context ends them early with what was seen until then.
package ceiling

import (
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"time"

	"hotpath/internal/group"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/stats"
)

const (
	fmaSlice  = 50 * time.Microsecond // one assembly call: short, as it cannot be preempted
	readBytes = 96 << 20              // one worker's buffer: beyond L2, and beyond L3 on most machines
	readMost  = 1 << 30               // all workers' buffers together
	readChunk = 1 << 20               // bytes that one pattern reads before the next has its turn
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

// WarmTiles makes tile products in bf16 for about 100 ns; nothing where the machine has no
// tiles. Tiles that rest for some microseconds are slower for some more: after 20 us a
// product loses 1 to 2 us, after 200 us about 5.
func WarmTiles() {
	if isa.Best() >= isa.AMX {
		tiles("bf16", 4)
	}
}

// fmaRate is the f32 rate in FLOP/s.
func fmaRate(ctx context.Context, t isa.Tier, d time.Duration) float64 {
	return rate(ctx, d, func(n int) float64 { return fma(t, n) })
}

// rate repeats short bursts of f for d and reports the median rate in
// operations/s: the best burst promises what a shared machine seldom gives.
// f makes n rounds and says how many operations they were.
func rate(ctx context.Context, d time.Duration, f func(n int) float64) float64 {
	n := burst(ctx, f)
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

// pattern is a way to read memory: calls of slice bytes, each in some streams.
type pattern struct {
	call  func(isa.Tier, []byte)
	slice int
}

// patterns are all that a measurement tries. Which is fastest depends on the machine
// and on the moment: large slices read large pages faster, small ones small pages, as
// those of some virtual machines; one core alone reads faster in eight streams; caches
// give most without prefetches.
var patterns = [...]pattern{{wide, readChunk}, {stream, readChunk}, {stream, 256 << 10}, {stream, 64 << 10}, {read, 256 << 10}}

// tally is what a worker read by one pattern.
type tally struct{ bytes, seconds float64 }

// burst is how many rounds of f take about fmaSlice.
func burst(ctx context.Context, f func(n int) float64) int {
	n := 1000
	for ctx.Err() == nil {
		start := time.Now()
		f(n)
		if el := time.Since(start); el >= fmaSlice/2 || n >= 1<<30 {
			break
		}
		n *= 2
	}
	return n
}

// Sustained is what threads workers compute together in a class for about d, in
// FLOP/s: operations over elapsed time. The other rates here are those of a core while
// it runs. This one counts the time that other processes or other machines take from
// it, as the time of work does.
func Sustained(ctx context.Context, class string, threads int, d time.Duration) float64 {
	f := opsOf(class)
	n := burst(ctx, f)
	rates := make([]float64, workers(threads))
	start := time.Now() // of all: one that starts late has had less
	one := func(w int) {
		ops := 0.0
		for ctx.Err() == nil && (ops == 0 || time.Since(start) < d) {
			ops += f(n)
		}
		if ops > 0 {
			rates[w] = ops / time.Since(start).Seconds()
		}
	}
	if len(rates) == 1 {
		one(0) // on the caller's thread, which may be bound to a core
	} else {
		together(len(rates), one)
	}
	return sum(rates)
}

// Read is the rate in bytes/s at which threads workers, or as many of them as can
// run at once, together read buf, which they share out, at least once and for
// about d, unless ctx ends. Patterns alternate chunk by chunk, and the rate is that of
// the fastest: all have had the same moments, so that a noisy one favours none.
func Read(ctx context.Context, buf []byte, threads int, d time.Duration) float64 {
	return SteadyRead(ctx, [][]byte{buf}, threads, 0, d)
}

// SteadyRead is Read of all of bufs, but for less than a chunk of each, behind so many
// such reads: a large cache fills with a part of the memory.
func SteadyRead(ctx context.Context, bufs [][]byte, threads, times int, d time.Duration) float64 {
	parts := shareChunks(bufs, workers(threads))
	if len(parts) == 0 {
		return 0
	}
	t := isa.Active()
	by := make([][len(patterns)]tally, len(parts))
	read := func() (bytes float64) {
		together(len(parts), func(w int) { by[w] = readChunks(ctx, t, parts[w], d) })
		for w := range by {
			for _, p := range by[w] {
				bytes += p.bytes
			}
		}
		return bytes
	}
	all := 0
	for _, part := range parts {
		all += len(part) * readChunk
	}
	for before := float64(times * all); before > 0 && ctx.Err() == nil; {
		before -= read()
	}
	read()
	return fastest(by)
}

// shareChunks shares the chunks of bufs out among up to n workers, each of which gets some
// that follow each other.
func shareChunks(bufs [][]byte, n int) (parts [][][]byte) {
	var chunks [][]byte
	for _, buf := range bufs {
		for ; len(buf) >= readChunk; buf = buf[readChunk:] {
			chunks = append(chunks, buf[:readChunk])
		}
	}
	n = min(n, len(chunks))
	for w := range n {
		parts = append(parts, chunks[len(chunks)*w/n:len(chunks)*(w+1)/n])
	}
	return parts
}

// readChunks reads the chunks of one worker, at least one of readChunk bytes. The next pass
// gives each chunk to the next pattern: some chunks may lie in a nearer cache.
func readChunks(ctx context.Context, t isa.Tier, chunks [][]byte, d time.Duration) (by [len(patterns)]tally) {
	start := time.Now()
	now := start
	for pass := 0; ctx.Err() == nil && (pass == 0 || now.Sub(start) < d); pass++ {
		for c, chunk := range chunks {
			if ctx.Err() != nil {
				return by
			}
			i := (c + pass) % len(patterns)
			p := patterns[i]
			for o := 0; o < readChunk; o += p.slice {
				p.call(t, chunk[o:o+p.slice])
			}
			before := now
			now = time.Now()
			by[i].bytes += readChunk
			by[i].seconds += now.Sub(before).Seconds()
		}
	}
	return by
}

// fastest is the rate of the pattern by which all workers together read fastest.
func fastest(all [][len(patterns)]tally) (most float64) {
	for i := range patterns {
		rate := 0.0
		for w := range all {
			if by := all[w][i]; by.seconds > 0 {
				rate += by.bytes / by.seconds
			}
		}
		most = max(most, rate)
	}
	return most
}

// ReadOf is Read of that many bytes for about d, from pages that each worker wrote
// itself.
func ReadOf(ctx context.Context, bytes, threads int, d time.Duration) float64 {
	threads = workers(threads)
	share := max(readChunk, bytes/threads&^(readChunk-1))
	buf, free := mapped(threads * share)
	defer free()
	together(threads, func(w int) { // pages lie near who first writes to them
		touch(ctx, buf[w*share:(w+1)*share])
	})
	return Read(ctx, buf, threads, d)
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
	m.Read = ReadOf(ctx, threads*min(readBytes, readMost/threads), threads, 100*time.Millisecond)
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

// together runs f on n goroutines, each with a thread of its own. It panics if one
// of them does.
func together(n int, f func(w int)) {
	var all group.Group
	for w := range n {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f(w)
		})
	}
	all.Wait()
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
