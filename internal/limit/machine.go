package limit

import (
	"os"
	"runtime"
	"sync"
)

// Machine is what a limiter asks the operating system. A function that is nil
// says that the system does not tell.
type Machine struct {
	// Switches is the number of involuntary context switches of this process so
	// far.
	Switches func() (n int64, ok bool)
	// Idle reports whether a core that this process may use does nothing now.
	Idle func() bool
}

// Host is this machine.
var Host = &Machine{Switches: switches, Idle: idle}

// loadavg is the file in which Linux counts the threads that run or could run. It
// is kept open: a read takes about a microsecond.
var loadavg = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/loadavg")
	if err != nil {
		return nil
	}
	return f
})

var loadLine struct {
	sync.Mutex
	buf [128]byte
}

// processors is how many threads of this process can run at once: by affinity, and by
// GOMAXPROCS, which people set to leave cores to others and which Go keeps within the
// CPU limit of the cgroup.
func processors() int { return min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }

// idle reports whether fewer threads can run than this process has processors. The
// threads are those of the whole machine: if it has more cores than this process may
// use, or is the larger host of a container, an idle core may not be seen. Then rare
// probes have to do.
func idle() bool {
	f := loadavg()
	if f == nil {
		return false
	}
	loadLine.Lock()
	defer loadLine.Unlock()
	n, _ := f.ReadAt(loadLine.buf[:], 0) // a short read ends with io.EOF
	running, ok := runnable(loadLine.buf[:n])
	return ok && running < processors()
}

// runnable is the number before the slash: "0.20 0.18 0.12 1/80 11206".
func runnable(line []byte) (n int, ok bool) {
	for i, c := range line {
		if c != '/' {
			continue
		}
		digits := 0
		for scale := 1; i > 0 && line[i-1] >= '0' && line[i-1] <= '9' && digits < 7; scale *= 10 {
			i--
			digits++
			n += scale * int(line[i]-'0')
		}
		return n, digits > 0
	}
	return 0, false
}
