package isa

import (
	"path/filepath"
	"strconv"
	"strings"
)

// FreeMemory is the bytes that this process can still take without swapping:
// what Linux calls available, and at most what cgroups of version 2 leave. It is 0
// where the system does not say.
func FreeMemory() int64 { return freeMemory("/") }

// freeMemory reads /proc and /sys under root.
func freeMemory(root string) int64 {
	free := field(readSome(filepath.Join(root, "proc/meminfo")), "MemAvailable:") << 10
	for dir, v2 := range cgroupDirs(root) {
		if !v2 {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(readSome(filepath.Join(dir, "memory.max"))), 10, 64)
		if err != nil || limit < 0 {
			continue // "max", or nothing to be seen
		}
		// Pages of files give way, what programs wrote does not.
		left := max(1, limit-field(readSome(filepath.Join(dir, "memory.stat")), "anon"))
		if free == 0 || left < free {
			free = left
		}
	}
	return free
}

// field is the number behind a name at the beginning of a line, 0 without one.
func field(text, name string) int64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n > 0 && n < 1<<50 {
				return n
			}
		}
	}
	return 0
}
