package isa

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Machine describes the processor for people and for cache blocking. Sizes
// are bytes; 0 where the system does not say.
type Machine struct {
	Brand         string
	Features      []string // what the processor has beyond the tiers
	L1D, L2, L3   int      // one core's view of each level
	Cores         int      // cores this process may use: affinity and cgroup limit
	CgroupLimited bool     // Cores was cut by a cgroup quota
}

// Host describes this machine; it is read once.
var Host = sync.OnceValue(func() Machine {
	m := Machine{Brand: brand(), Features: features(), Cores: affinity()}
	if m.Brand == "" {
		m.Brand = brandFrom("/proc/cpuinfo")
	}
	m.L1D, m.L2, m.L3 = caches("/sys/devices/system/cpu/cpu0/cache")
	if q := cgroupCores("/"); q > 0 && q < m.Cores {
		m.Cores, m.CgroupLimited = q, true
	}
	return m
})

// MaxThreads bounds the threads of one process.
const MaxThreads = 128

// Threads is how many to use where nobody says: one a core, but no more than
// GOMAXPROCS, which people set to leave cores to others.
func Threads() int { return min(Host().Cores, runtime.GOMAXPROCS(0), MaxThreads) }

// brandFrom is for architectures whose processors cannot say their name.
func brandFrom(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(b)) {
		k, v, ok := strings.Cut(line, ":")
		switch strings.TrimSpace(k) {
		case "model name", "Model", "Hardware":
			if ok {
				return strings.TrimSpace(v)
			}
		}
	}
	return runtime.GOARCH
}

// caches reads the sizes that Linux exposes under dir (index0, index1...).
func caches(dir string) (l1d, l2, l3 int) {
	read := func(parts ...string) string {
		b, err := os.ReadFile(filepath.Join(append([]string{dir}, parts...)...))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	for i := range 8 {
		idx := "index" + strconv.Itoa(i)
		size := parseSize(read(idx, "size"))
		if read(idx, "type") == "Instruction" {
			continue
		}
		switch read(idx, "level") {
		case "1":
			l1d = size
		case "2":
			l2 = size
		case "3":
			l3 = size
		}
	}
	return l1d, l2, l3
}

// parseSize reads "48K", "2M" or a plain number of bytes.
func parseSize(s string) int {
	unit := 1
	switch {
	case strings.HasSuffix(s, "K"):
		unit, s = 1<<10, s[:len(s)-1]
	case strings.HasSuffix(s, "M"):
		unit, s = 1<<20, s[:len(s)-1]
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0
	}
	return n * unit
}
