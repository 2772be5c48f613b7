package main

import (
	"os"
	"syscall"
)

// peakMiB is the most that a process held until it ended.
func peakMiB(p *os.ProcessState) float64 {
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		return float64(u.Maxrss) / 1024 // KiB
	}
	return 0
}
