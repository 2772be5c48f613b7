package int8

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
