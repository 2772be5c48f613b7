package ceiling

import (
	"context"
	"testing"
	"time"

	"hotpath/internal/kernel/isa"
)

func TestRatesArePositive(t *testing.T) {
	buf := make([]byte, 4<<20)
	for _, tier := range isa.Available() {
		restore := isa.Use(tier)
		if r := fmaRate(context.Background(), tier, time.Millisecond); !(r > 1e6) {
			t.Errorf("%v: %g FLOP/s", tier, r)
		}
		if r := Dot(tier); !(r > 1e-3) {
			t.Errorf("%v: %g int8 GOP/s", tier, r)
		}
		if r := Pairs(tier); !(r > 1e-3) {
			t.Errorf("%v: %g GOP/s of 16-bit pairs", tier, r)
		}
		if r := Read(context.Background(), buf, 2, time.Millisecond); !(r > 1e6) {
			t.Errorf("%v: %g bytes/s", tier, r)
		}
		restore()
	}
	if r := Read(context.Background(), buf[:100], 2, time.Millisecond); r != 0 {
		t.Errorf("a buffer smaller than a slice: %g bytes/s, want 0", r)
	}
	if r := SteadyRead(context.Background(), [][]byte{buf[:100], nil, buf}, 2, 3, time.Millisecond); !(r > 1e6) {
		t.Errorf("several buffers, one of which is large enough: %g bytes/s", r)
	}
}

// Chunks are shared out evenly, all of them and each once, whatever lies in which buffer.
func TestChunksAreShared(t *testing.T) {
	bufs := [][]byte{make([]byte, 3*readChunk+5), make([]byte, readChunk-1), nil, make([]byte, 20*readChunk), make([]byte, readChunk)}
	const chunks = 24
	for _, threads := range []int{1, 3, 16, 24, 64} {
		parts := shareChunks(bufs, threads)
		if len(parts) != min(threads, chunks) {
			t.Errorf("%d threads: %d parts", threads, len(parts))
		}
		seen := map[*byte]bool{}
		for _, part := range parts {
			if n := len(part); n < chunks/threads || n > (chunks+threads-1)/threads {
				t.Errorf("%d threads: a part of %d chunks", threads, n)
			}
			for _, c := range part {
				if len(c) != readChunk || seen[&c[0]] {
					t.Errorf("%d threads: a chunk of %d bytes, or the same one twice", threads, len(c))
				}
				seen[&c[0]] = true
			}
		}
		if len(seen) != chunks {
			t.Errorf("%d threads: %d chunks of %d", threads, len(seen), chunks)
		}
	}
}

// Each pattern reads as much as the others, and in the next pass the chunks of another.
func TestPatternsTakeTurns(t *testing.T) {
	n := len(patterns)
	chunks := make([][]byte, 2*n)
	for i := range chunks {
		chunks[i] = make([]byte, readChunk)
	}
	for i, by := range readChunks(context.Background(), isa.Active(), chunks, 0) {
		if by.bytes != 2*readChunk || !(by.seconds > 0) {
			t.Errorf("pattern %d of %d: %+v in one pass, expected 2 chunks", i, n, by)
		}
	}
	for i, by := range readChunks(context.Background(), isa.Active(), chunks[:1], 20*time.Millisecond) {
		if by.bytes == 0 {
			t.Errorf("pattern %d of %d never read the only chunk", i, n)
		}
	}
	for i, p := range patterns {
		if readChunk%p.slice != 0 || p.slice%1024 != 0 {
			t.Errorf("pattern %d: slices of %d bytes, expected whole calls in a chunk", i, p.slice)
		}
	}
}

// One pattern counts for all workers, by the sum of their rates.
func TestFastestPattern(t *testing.T) {
	one := func(a, b float64) (by [len(patterns)]tally) {
		by[0], by[1] = tally{a, 1}, tally{2 * b, 2}
		return by
	}
	for _, c := range []struct {
		all  [][len(patterns)]tally
		want float64
	}{{nil, 0}, {make([][len(patterns)]tally, 2), 0}, {[][len(patterns)]tally{one(3, 5)}, 5}, {[][len(patterns)]tally{one(9, 5), one(1, 4)}, 10}} {
		if got := fastest(c.all); got != c.want {
			t.Errorf("%v: %g, expected %g", c.all, got, c.want)
		}
	}
}

func TestMeasureStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if m := Measure(ctx, 1); m.F32 != 0 || m.Read != 0 {
		t.Errorf("cancelled: %g FLOP/s, %g bytes/s; want no round of either", m.F32, m.Read)
	}
}

func TestTiles(t *testing.T) {
	for _, kind := range []string{"bf16", "int8"} {
		if r := Tiles(kind); (isa.Best() >= isa.AMX) != (r > 0) {
			t.Errorf("%s: %g GOP/s on a machine whose best tier is %v", kind, r, isa.Best())
		}
	}
}

// BenchmarkDot shows the int8 and tile ceilings of one core.
func BenchmarkDot(b *testing.B) {
	for b.Loop() {
		for _, t := range isa.Available() {
			b.ReportMetric(Dot(t), t.String()+"-GOP/s")
		}
		b.ReportMetric(Tiles("bf16"), "tiles-bf16-GOP/s")
		b.ReportMetric(Tiles("int8"), "tiles-int8-GOP/s")
	}
}

func BenchmarkMeasure(b *testing.B) {
	for b.Loop() {
		m := Measure(context.Background(), isa.Host().Cores)
		b.ReportMetric(m.F32/1e9, "GFLOP/s")
		b.ReportMetric(m.Read/1e9, "GB/s")
	}
}

// TestSustainedEnds: a class without a kernel of its own is f32's, and a
// cancelled context ends after one burst at most.
func TestSustainedEnds(t *testing.T) {
	for _, threads := range []int{1, 2} {
		for _, class := range []string{"f32", "bf16"} {
			if got := Sustained(t.Context(), class, threads, time.Millisecond); !(got > 0) {
				t.Errorf("%s on %d threads: %v FLOP/s", class, threads, got)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Sustained(ctx, "f32", 2, time.Hour); got != 0 {
		t.Errorf("%v FLOP/s under a cancelled context", got)
	}
}

// A panic on a goroutine of a measurement reaches the caller.
func TestPanicReachesTheCaller(t *testing.T) {
	defer func() {
		if p := recover(); p != "no more" {
			t.Errorf("the caller recovered %v", p)
		}
	}()
	together(2, func(w int) {
		if w == 1 {
			panic("no more")
		}
	})
}
