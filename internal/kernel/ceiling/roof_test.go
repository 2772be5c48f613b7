package ceiling

import (
	"context"
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
)

func TestFloor(t *testing.T) {
	r := &Roof{
		ctx:   context.Background(),
		flops: map[flopKey]float64{{"f32", 1}: 100, {"bf16", 1}: 1000},
		read:  map[readKey]float64{{1, readChunk}: 10},
	}
	for _, c := range []struct {
		class        string
		flops, bytes float64
		want         float64
	}{{"f32", 200, 10, 2}, {"bf16", 200, 10, 1}, {"f32", 0, 5, 0.5}, {"f32", 0, 0, 0}} {
		if got := r.Floor(c.class, 1, c.flops, c.bytes, 25); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: floor %v", c, got)
		}
	}
	for _, c := range []struct {
		bytes   float64
		threads int
		want    int
	}{{0, 1, 1 << 20}, {1 << 21, 1, 1 << 21}, {3 << 20, 1, 2 << 20}, {1 << 20, 3, 3 << 20}, {1e30, 1, mostRead}} {
		if got := readSize(c.bytes, c.threads); got != c.want {
			t.Errorf("%g bytes and %d threads: a buffer of %d, expected %d", c.bytes, c.threads, got, c.want)
		}
	}
}

// Threads that take turns on one processor are one worker: they share a rate.
func TestRoofKnowsGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := NewRoof(context.Background())
	r.FLOPs("f32", 2)
	r.Read(2, 1)
	if _, ok := r.flops[flopKey{"f32", 1}]; !ok || len(r.flops) != 1 {
		t.Errorf("GOMAXPROCS 1: measured %v, expected one worker", r.flops)
	}
	if _, ok := r.read[readKey{1, readChunk}]; !ok || len(r.read) != 1 {
		t.Errorf("GOMAXPROCS 1: measured %v, expected one worker", r.read)
	}
	for _, threads := range []int{-1, 0, 1, 2, 1000} {
		if n := workers(threads); n != 1 {
			t.Errorf("GOMAXPROCS 1, %d threads: %d workers", threads, n)
		}
	}
}

// Each class has a rate, and one that was measured is not measured again.
func TestRoofRemembers(t *testing.T) {
	r := NewRoof(context.Background())
	for _, class := range []string{"f32", "bf16", "i8g32", "i16g32"} {
		first := r.FLOPs(class, 1)
		if !(first > 1e6) || r.FLOPs(class, 1) != first {
			t.Errorf("%s: %g FLOP/s, then %g", class, first, r.FLOPs(class, 1))
		}
	}
	if first := r.Read(1, 1); !(first > 1e6) || r.Read(1, readChunk) != first {
		t.Errorf("%g bytes/s, then %g", first, r.Read(1, readChunk))
	}
}

// The buffers of a measurement are not the program's: they lie beside the Go heap
// and are gone afterwards.
func TestMeasureLeavesTheHeapAlone(t *testing.T) {
	if _, free := mapped(1 << 20); free == nil {
		t.Fatal("no way to free a buffer")
	} else {
		free()
	}
	total := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	before := total()
	if m := Measure(context.Background(), 2); !(m.Read > 1e6) {
		t.Errorf("%g bytes/s", m.Read)
	}
	switch runtime.GOOS {
	case "linux", "darwin", "freebsd", "netbsd", "openbsd":
		if took := total() - before; took > 4<<20 {
			t.Errorf("the measurement allocated %d bytes on the Go heap", took)
		}
	}
}
