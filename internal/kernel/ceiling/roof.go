package ceiling

import (
	"context"
	"math/bits"
	"time"

	"hotpath/internal/kernel/isa"
)

// Roof is the ceilings of this machine by compute class, threads and bytes, each
// measured when it is first asked for. It is not for several goroutines.
type Roof struct {
	ctx   context.Context
	flops map[flopKey]float64
	read  map[readKey]float64
}

type (
	flopKey struct {
		class   string
		threads int
	}
	readKey struct{ threads, bytes int }
)

const (
	mostRead = 1 << 29 // bytes in all: beyond any cache
	readTime = 10 * time.Millisecond
)

// NewRoof knows nothing yet. Where ctx ends, what is measured then is 0.
func NewRoof(ctx context.Context) *Roof {
	return &Roof{ctx, map[flopKey]float64{}, map[readKey]float64{}}
}

// Floor is the least time in seconds in which threads workers do FLOPs of a class
// and move bytes, of which all are those that the whole operation has: where
// they fit a cache, the cache sets the rate.
func (r *Roof) Floor(class string, threads int, flops, bytes, all float64) float64 {
	seconds := 0.0
	if bytes > 0 {
		seconds = bytes / r.Read(threads, all)
	}
	if flops > 0 {
		seconds = max(seconds, flops/r.FLOPs(class, threads))
	}
	return seconds
}

// FLOPs is the FLOP/s of a compute class, all workers at the same time.
func (r *Roof) FLOPs(class string, threads int) float64 {
	key := flopKey{class, workers(threads)}
	if _, ok := r.flops[key]; !ok && r.ctx.Err() == nil {
		rates := make([]float64, key.threads)
		ops := opsOf(class)
		together(key.threads, func(w int) { rates[w] = rate(r.ctx, 10*time.Millisecond, ops) })
		r.flops[key] = sum(rates)
	}
	return r.flops[key]
}

// opsOf makes rounds of a class's operations on one core under the active tier, and says
// how many they were.
func opsOf(class string) func(n int) float64 {
	t := isa.Active()
	switch wide := t >= isa.AMX; {
	case class == "bf16" && wide:
		return func(n int) float64 { return tiles("bf16", n) }
	case class == "i8g32" && wide:
		return func(n int) float64 { return tiles("int8", n) }
	case class == "i8g32":
		return func(n int) float64 { return dot(t, n) }
	case class == "i16g32":
		return func(n int) float64 { return pairs(t, n) }
	}
	return func(n int) float64 { return fma(t, n) }
}

// Read is the bytes/s at which workers together read that many bytes over and
// over.
func (r *Roof) Read(threads int, bytes float64) float64 {
	threads = workers(threads)
	key := readKey{threads, readSize(bytes, threads)}
	if _, ok := r.read[key]; !ok && r.ctx.Err() == nil {
		buf, free := mapped(key.bytes)
		defer free()
		touch(r.ctx, buf)
		r.read[key] = Read(r.ctx, buf, threads, readTime)
	}
	return r.read[key]
}

// workers is how many of threads can work at the same time, by affinity, cgroups
// and GOMAXPROCS: more would only take turns, and the sum of what each reaches in
// its turn is what they never reach together.
func workers(threads int) int { return max(1, min(threads, isa.Threads())) }

// readSize is the size of the buffer that stands for an operation's bytes: the
// next lower power of two, so that what just fits a cache is not held against
// a rate from beyond it.
func readSize(bytes float64, threads int) int {
	n := 1 << (bits.Len(uint(min(max(bytes, 1), mostRead))) - 1)
	return max(n, readChunk*threads)
}

// touch writes to each page, unless ctx ends: those that were never written share
// one zero page.
func touch(ctx context.Context, buf []byte) {
	for i := 0; i < len(buf); i += 4096 {
		if i%readChunk == 0 && ctx.Err() != nil {
			return
		}
		buf[i] = 1
	}
}
