package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"hotpath/internal/stats"
)

// gauge is one thing that must not grow. It may by a share of what it was or
// by some units, whichever is more: allocators keep a little.
type gauge struct {
	name  string
	unit  int64 // that is printed as 1
	share float64
	units int64
}

var gauges = []gauge{
	{"RSS MiB", 1 << 20, 0.1, 24},
	{"heap KiB", 1 << 10, 0.1, 512},
	{"goroutines", 1, 0, 0},
	{"open files", 1, 0, 0},
	{"mapped files", 1, 0, 0},
	{"mappings", 1, 0.25, 64}, // the heap's too, which Go cuts up as it gives memory back
	{"MiB beside Go's", 1 << 20, 0.1, 16},
	{"temporary files", 1, 0, 0},
}

// meter counts between rounds, when everything is closed.
type meter struct{ samples [][]int64 }

// settle lets goroutines that are about to end do so, and gives memory back.
func settle() {
	least := runtime.NumGoroutine()
	for still := 0; still < 20; still++ {
		time.Sleep(5 * time.Millisecond)
		if n := runtime.NumGoroutine(); n < least {
			least, still = n, 0
		}
	}
	runtime.GC() // finalizers and pools
	runtime.GC()
	debug.FreeOSMemory()
}

func (m *meter) take(temp string) {
	settle()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	files, all, anonymous := mappings()
	m.samples = append(m.samples, []int64{
		resident(), int64(mem.HeapAlloc), int64(runtime.NumGoroutine()), entries("/proc/self/fd"), int64(files), int64(all), anonymous - int64(mem.Sys), countFiles(temp),
	})
}

func (m *meter) last() string {
	var parts []string
	for i, g := range gauges {
		parts = append(parts, fmt.Sprintf("%s %d", g.name, m.samples[len(m.samples)-1][i]/g.unit))
	}
	return strings.Join(parts, ", ")
}

// judge compares the second quarter of the rounds, when everything is warm,
// with the last.
func (m *meter) judge(f *findings) {
	n := len(m.samples)
	if n < 8 {
		fmt.Printf("soak: %d rounds, too few to see whether anything grows: expected 8\n", n)
		return
	}
	for i, g := range gauges {
		before, after := m.median(i, n/4, n/2), m.median(i, n-n/4, n)
		if most := max(before+int64(g.share*float64(before)), before+g.units*g.unit); after > most {
			f.addFinding(g.name+" grew", fmt.Sprintf("from %d to %d, expected at most %d", before/g.unit, after/g.unit, most/g.unit))
		}
	}
}

func (m *meter) median(gauge, begin, end int) int64 {
	var all []float64
	for _, s := range m.samples[begin:end] {
		all = append(all, float64(s[gauge]))
	}
	return int64(stats.Median(all))
}

// print shows the course of each gauge.
func (m *meter) print() {
	for i, g := range gauges {
		var course []string
		for k := range m.samples {
			if len(m.samples) > 20 && k%(len(m.samples)/20+1) != 0 && k != len(m.samples)-1 {
				continue
			}
			course = append(course, strconv.FormatInt(m.samples[k][i]/g.unit, 10))
		}
		fmt.Printf("soak: %-16s %s\n", g.name, strings.Join(course, " "))
	}
}

// resident is the memory of the process, in bytes.
func resident() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 2 {
		return 0 // another system: nothing to hold
	}
	n, _ := strconv.ParseInt(fields[1], 10, 64)
	return n * int64(os.Getpagesize())
}

// mappings counts those of files and all, and the bytes of those that hold
// memory of the process itself: Go's heap and what was mapped beside it. What
// Go only reserved is left out.
func mappings() (files, all int, anonymous int64) {
	data, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, 0, 0
	}
	for line := range strings.Lines(string(data)) {
		var begin, end int64
		var access, offset, device, inode, name string
		fmt.Sscanf(line, "%x-%x %s %s %s %s %s", &begin, &end, &access, &offset, &device, &inode, &name)
		all++
		switch {
		case strings.HasPrefix(name, "/"):
			files++
		case name == "" && strings.HasPrefix(access, "rw"):
			anonymous += end - begin
		}
	}
	return files, all, anonymous
}

func entries(dir string) int64 {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	return int64(len(list))
}

// countFiles counts what lies below a folder.
func countFiles(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return nil
	})
	return n
}
