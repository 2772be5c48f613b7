package profile

import "golang.org/x/sys/unix"

// Of the system's list of what a program may use.
const (
	auxHWCAP2  = 26
	hwFSGSBASE = 1 << 1 // programs may read the base of the FS segment
)

// hasThreadKey reports whether threadKey may be called.
var hasThreadKey = func() bool {
	pairs, err := unix.Auxv()
	if err != nil {
		return false
	}
	for _, p := range pairs {
		if p[0] == auxHWCAP2 {
			return p[1]&hwFSGSBASE != 0
		}
	}
	return false
}()

// threadKey is the address of the thread's local storage: no two threads that live
// at the same time have the same. It takes a nanosecond; a system call after a run
// takes two microseconds, because the run has evicted the kernel from the caches.
func threadKey() uint64

// lookLane is [LaneClock.Look] of a clock with a page and a scale: it reads the time stamp
// counter, then the thread's key and the version of the page. All of it takes no longer
// than the counter alone, because the counter comes before all memory but the argument.
//
//go:noescape
func lookLane(c *LaneClock) (now int64, kept bool)
