//go:build unix

package calib

import "golang.org/x/sys/unix"

// processorTime is what this process has used so far, in seconds.
var processorTime = func() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
