package isa

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// affinity is the number of cores that the scheduler may give this process.
func affinity() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil || set.Count() == 0 {
		return runtime.NumCPU()
	}
	return set.Count()
}
