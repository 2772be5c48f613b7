package profile

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// HeapCount is what was allocated on the Go heap.
type HeapCount struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

func (h *HeapCount) addCount(o HeapCount) {
	h.Objects += o.Objects
	h.Bytes += o.Bytes
}

func (h HeapCount) minus(o HeapCount) HeapCount {
	return HeapCount{h.Objects - o.Objects, h.Bytes - o.Bytes}
}

// readHeap returns the exact allocation counts of the process so far. It stops
// the world for some microseconds. It therefore runs only with [Options.Heap],
// and only at the ends of scopes and runs. The cheap counters of runtime/metrics
// omit allocations in the processors' caches.
func readHeap() HeapCount {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return HeapCount{int64(m.Mallocs), int64(m.TotalAlloc)}
}

// GoStats is what the Go runtime did during the recording.
type GoStats struct {
	HeapCount
	Cycles     int64 `json:"gc_cycles"`
	Pause      int64 `json:"gc_pause_ns"` // all pauses together
	LongPause  int64 `json:"gc_pause_max_ns"`
	GCTime     int64 `json:"gc_cpu_ns"` // of all processors
	Goroutines int64 `json:"goroutines"`
}

// goBaseline is where the runtime stood when the recorder was made.
type goBaseline struct {
	heap   HeapCount
	cycles int64
	pause  time.Duration
	gcTime float64 // seconds
}

var goMetrics = []string{"/gc/heap/allocs:objects", "/gc/heap/allocs:bytes", "/cpu/classes/gc/total:cpu-seconds", "/sched/goroutines:goroutines"}

func readGo() (b goBaseline, stats debug.GCStats, goroutines int64) {
	samples := make([]metrics.Sample, len(goMetrics))
	for i, name := range goMetrics {
		samples[i].Name = name
	}
	metrics.Read(samples)
	count := func(i int) int64 {
		if samples[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return int64(samples[i].Value.Uint64())
	}
	b.heap = HeapCount{count(0), count(1)}
	if samples[2].Value.Kind() == metrics.KindFloat64 {
		b.gcTime = samples[2].Value.Float64()
	}
	debug.ReadGCStats(&stats)
	b.cycles, b.pause = stats.NumGC, stats.PauseTotal
	return b, stats, count(3)
}

// since is what happened after a baseline.
func (b *goBaseline) since() *GoStats {
	now, stats, goroutines := readGo()
	s := &GoStats{HeapCount: now.heap.minus(b.heap), Cycles: now.cycles - b.cycles, Pause: int64(now.pause - b.pause),
		GCTime: int64((now.gcTime - b.gcTime) * 1e9), Goroutines: goroutines}
	for i, p := range stats.Pause { // the newest first; the runtime keeps 256
		if int64(i) >= s.Cycles {
			break
		}
		s.LongPause = max(s.LongPause, int64(p))
	}
	s.LongPause = min(s.LongPause, s.Pause) // the newest may be some that were left out of the books
	return s
}

// WatchMemory samples the Go heap and the resident memory of the process at an
// interval, as counters that the reports draw over time, until stop is called.
// It needs a goroutine of its own and touches no run. Without an interval, which is one of 0 or
// less, it looks at the beginning and at the end alone.
func (r *Recorder) WatchMemory(interval time.Duration) (stop func()) {
	if r.none() {
		return func() {}
	}
	heap, held := r.Counter("go heap", "bytes"), r.Counter("resident memory", "bytes")
	system := openResident()
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	look := func() {
		metrics.Read(samples)
		heap.Set(float64(samples[0].Value.Uint64()))
		if b := system.bytes(); b > 0 {
			held.Set(float64(b))
		}
	}
	look()
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		if interval <= 0 {
			<-done
			return
		}
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				look()
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		ended.Wait()
		look()
		system.close()
	})
}

// resident reads the resident set size of this process, if the system reports it.
// Reading allocates nothing, because an allocation would count as one of the
// running step.
type resident struct {
	file *os.File // nil where the system does not say
	buf  [128]byte
}

func openResident() *resident {
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		return &resident{}
	}
	return &resident{file: f}
}

func (r *resident) close() {
	if r.file != nil {
		r.file.Close() // it was only read
	}
}

// bytes is the second number of the file, in pages; 0 where there is none.
func (r *resident) bytes() int64 {
	if r.file == nil {
		return 0
	}
	n, _ := r.file.ReadAt(r.buf[:], 0)
	field, pages := 0, int64(0)
	for _, c := range r.buf[:n] {
		switch {
		case c == ' ':
			if field++; field == 2 {
				return pages * int64(os.Getpagesize())
			}
		case field == 1 && c >= '0' && c <= '9':
			pages = 10*pages + int64(c-'0')
		}
	}
	return 0
}
